#include <fmt/format.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <memory>

#include "arrays.h"
#include "bindings.h"
#include "regauge/base/error.h"

namespace regauge::python {
namespace {

using AnyTensor = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

[[noreturn]] void refuse_dtype(const std::string& name) {
  throw UsageError(
      "[from_state_dict] tensor '" + name +
      "' is neither float64, float32, float16 nor bfloat16; convert it or leave it out");
}

DType dtype_of(const std::string& name, const AnyTensor& tensor) {
  const auto type = tensor.dtype();
  const auto is = [&](nb::dlpack::dtype_code code, int bits) {
    return type.code == static_cast<std::uint8_t>(code) && type.bits == bits && type.lanes == 1;
  };
  if (is(nb::dlpack::dtype_code::Float, 64)) return DType::f64;
  if (is(nb::dlpack::dtype_code::Float, 32)) return DType::f32;
  if (is(nb::dlpack::dtype_code::Float, 16)) return DType::f16;
  if (is(nb::dlpack::dtype_code::Bfloat, 16)) return DType::bf16;
  if (is(nb::dlpack::dtype_code::Int, 64)) return DType::i64;
  if (is(nb::dlpack::dtype_code::Int, 32)) return DType::i32;
  if (is(nb::dlpack::dtype_code::Bool, 8)) return DType::boolean;
  refuse_dtype(name);
}

// Whoever lets go of it last need not hold the interpreter.
template <class Object>
std::shared_ptr<const Object> kept(const Object& object) {
  return std::shared_ptr<const Object>(new Object(object), [](const Object* held) {
    const nb::gil_scoped_acquire interpreter;
    delete held;
  });
}

const std::map<std::string, DType>& dtype_names() {
  static const std::map<std::string, DType> kNames = {
      {"float64", DType::f64},   {"float32", DType::f32}, {"float16", DType::f16},
      {"bfloat16", DType::bf16}, {"int64", DType::i64},   {"int32", DType::i32},
      {"bool", DType::boolean}};
  return kNames;
}

DType dtype_named(const std::string& name, const std::string& dtype) {
  const auto found = dtype_names().find(dtype);
  if (found == dtype_names().end()) refuse_dtype(name);
  return found->second;
}

// What Python makes of a tensor whenever it is needed: its type's name, its shape, and the function
// that makes it.
using Made =
    std::tuple<std::string, std::vector<std::int64_t>, nb::typed<nb::callable, nb::object()>>;

MemoryTensor made_tensor(const std::string& name, const Made& given) {
  const auto& [dtype_name, shape, function] = given;
  const DType dtype = dtype_named(name, dtype_name);
  const auto make = [name, dtype, shape = shape, held = kept(function)] {
    const nb::gil_scoped_acquire interpreter;
    try {
      const auto tensor = nb::cast<AnyTensor>((*held)());
      // numpy has no bfloat16: its bits are an array of uint16.
      const bool bits = dtype == DType::bf16 && tensor.dtype() == nb::dtype<std::uint16_t>();
      bool same = tensor.ndim() == shape.size() && (bits || dtype_of(name, tensor) == dtype);
      for (std::size_t i = 0; same && i < shape.size(); ++i) {
        same = static_cast<std::int64_t>(tensor.shape(i)) == shape[i];
      }
      if (!same) {
        throw UsageError("[from_state_dict] tensor '" + name + "' has another shape or type now");
      }
      return Bytes({static_cast<const std::byte*>(tensor.data()), tensor.nbytes()}, kept(tensor));
    } catch (const nb::python_error& error) {
      throw UsageError("[from_state_dict] tensor '" + name + "': " + error.what());
    } catch (const nb::cast_error&) {
      throw UsageError("[from_state_dict] tensor '" + name + "' is no array in main memory");
    }
  };
  return {name, dtype, shape, {}, nullptr, make};
}

// The tensors stay where they are, and the model keeps them alive; others are made when they are
// needed.
Model from_tensors(const std::map<std::string, AnyTensor>& tensors,
                   const std::map<std::string, Made>& made, const std::string& config) {
  std::vector<MemoryTensor> memory;
  for (const auto& [name, given] : made) memory.push_back(made_tensor(name, given));
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::int64_t> shape;
    for (std::size_t i = 0; i < tensor.ndim(); ++i) {
      shape.push_back(static_cast<std::int64_t>(tensor.shape(i)));
    }
    memory.push_back({name,
                      dtype_of(name, tensor),
                      std::move(shape),
                      {static_cast<const std::byte*>(tensor.data()), tensor.nbytes()},
                      kept(tensor)});
  }
  return Model::open(Checkpoint::in_memory(nlohmann::json::parse(config), std::move(memory)));
}

nb::dlpack::dtype array_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return nb::dtype<double>();
    case DType::f32:
      return nb::dtype<float>();
    case DType::f16:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
    case DType::bf16:
      return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
    case DType::i64:
      return nb::dtype<std::int64_t>();
    case DType::i32:
      return nb::dtype<std::int32_t>();
    default:
      return nb::dtype<std::uint8_t>();  // bytes as they are stored
  }
}

// A stored tensor as it is; without a copy, where its numbers lie in a row, and `model` is then
// kept alive.
nb::object stored_tensor(nb::handle model, const std::string& name) {
  const Model& self = nb::cast<const Model&>(model);
  const StoredTensor& tensor = self.checkpoint.at(name);
  if (tensor.packing) {
    throw UsageError(
        fmt::format("tensor '{}' is {}: it has no array of its own; read the parameters", name,
                    tensor.type_name()));
  }
  auto buffer = std::make_unique<std::vector<std::byte>>();
  const auto bytes = self.checkpoint.numbers(tensor).bytes_in(*buffer);
  nb::object owner = nb::borrow(model);
  if (bytes.data() == buffer->data()) {
    owner = nb::capsule(buffer.release(), [](void* held) noexcept {
      delete static_cast<std::vector<std::byte>*>(held);
    });
  }
  const auto type = array_type(tensor.dtype);
  std::vector<std::size_t> shape;
  if (type == nb::dtype<std::uint8_t>()) {
    shape = {bytes.size()};
  } else {
    for (const auto size : tensor.shape) shape.push_back(static_cast<std::size_t>(size));
  }
  if (tensor.dtype == DType::bf16) {  // numpy has no such type; DLPack has
    return nb::cast(
        nb::ndarray<nb::ro>(bytes.data(), shape.size(), shape.data(), owner, nullptr, type));
  }
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(bytes.data(), shape.size(), shape.data(), owner,
                                                 nullptr, type));
}

template <class Scalar>
auto read(const Model& model, const std::string& parameter) {
  Matrix<Scalar> value;
  {
    const nb::gil_scoped_release free;
    value = model.read<Scalar>(parameter);
  }
  return as_array(std::move(value));
}

// Where the entries of a parameter are stored, as Layout::Place says: holder, transposed, stride,
// offset, columns.
std::tuple<std::string, bool, std::int64_t, double, std::vector<std::int64_t>> place_of(
    const Model& model, const std::string& parameter) {
  const auto pieces = model.layout.pieces(parameter);
  if (pieces.size() > 1) {
    throw UsageError(
        fmt::format("{} is stored in {} pieces; models with experts have no objective "
                    "here yet",
                    parameter, pieces.size()));
  }
  const Layout::Place& place = pieces.front().place;
  return {pieces.front().holder, place.transposed, place.stride, place.offset, place.columns};
}

std::vector<std::string> parameter_names(const Architecture& architecture) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(architecture)) names.push_back(spec.name);
  return names;
}

std::vector<std::string> tensor_names(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return names;
}

std::string dtype_of_stored(const Checkpoint& checkpoint, const std::string& name) {
  for (const auto& [called, dtype] : dtype_names()) {
    if (dtype == checkpoint.at(name).dtype) return called;
  }
  refuse_dtype(name);
}

// A copy of some numbers of a stored tensor, in a row; of bfloat16 as uint16.
nb::object numbers_of(const Checkpoint& checkpoint, const std::string& name, std::int64_t first,
                      std::int64_t count) {
  const StoredTensor& tensor = checkpoint.at(name);
  if (first < 0 || count < 0 || first > tensor.elements() - count) {
    throw UsageError(
        fmt::format("tensor '{}' does not have {} numbers from {} on", name, count, first));
  }
  if (tensor.dtype == DType::i32) refuse_dtype(name);
  auto held = std::make_unique<std::vector<std::byte>>();
  {
    const nb::gil_scoped_release free;
    std::vector<std::byte> buffer;
    const auto bytes = checkpoint.numbers(tensor).range(first, count).bytes_in(buffer);
    held->assign(bytes.begin(), bytes.end());
    checkpoint.require_intact();
  }
  const auto type =
      tensor.dtype == DType::bf16 ? nb::dtype<std::uint16_t>() : array_type(tensor.dtype);
  const std::size_t size = static_cast<std::size_t>(count);
  const std::byte* data = held->data();
  const nb::capsule owner(held.release(), [](void* kept) noexcept {
    delete static_cast<std::vector<std::byte>*>(kept);
  });
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(data, 1, &size, owner, nullptr, type));
}

}  // namespace

void add_models(nb::module_& module) {
  nb::class_<Architecture>(module, "Architecture")
      .def_static("from_json",
                  [](const std::string& text) {
                    return architecture_from_json(nlohmann::json::parse(text));
                  })
      .def("to_json", [](const Architecture& self) { return to_json(self).dump(); })
      .def_prop_ro("parameter_count",
                   [](const Architecture& self) { return parameter_count(self); })
      .def_prop_ro("parameter_names", parameter_names);

  nb::class_<Model>(module, "Model")
      .def_prop_ro("path", [](const Model& self) { return self.checkpoint.path().string(); })
      .def_prop_ro("family", [](const Model& self) { return self.layout.family(); })
      .def_prop_ro("format",
                   [](const Model& self) { return std::string(format_name(self.layout.format())); })
      .def_prop_ro("config", [](const Model& self) { return self.checkpoint.config().dump(); })
      .def_ro("architecture", &Model::architecture)
      .def_ro("unclaimed", &Model::unclaimed)
      .def_ro("unread", &Model::unread)
      .def_ro("not_understood", &Model::not_understood)
      .def_prop_ro("tensor_names", [](const Model& self) { return tensor_names(self.checkpoint); })
      .def("tensor", stored_tensor, nb::arg("name"))
      .def("place", place_of, nb::arg("parameter"))
      .def("read", read<float>, nb::arg("parameter"))
      .def("read_double", read<double>, nb::arg("parameter"));

  nb::class_<Checkpoint>(module, "Checkpoint")
      .def(
          "__init__",
          [](Checkpoint* self, const std::filesystem::path& folder) {
            new (self) Checkpoint(Checkpoint::open_distributed_tensors(folder));
          },
          nb::arg("folder"))
      .def_prop_ro("tensor_names", tensor_names)
      .def(
          "shape",
          [](const Checkpoint& self, const std::string& name) { return self.at(name).shape; },
          nb::arg("name"))
      .def("dtype", dtype_of_stored, nb::arg("name"))
      .def("numbers", numbers_of, nb::arg("name"), nb::arg("first"), nb::arg("count"));

  module.def(
      "open",
      [](const std::filesystem::path& path) {
        const nb::gil_scoped_release free;
        return Model::open(path);
      },
      nb::arg("path"));
  module.def("register", register_family, nb::arg("file"));
  module.def("register_text", register_family_text, nb::arg("text"));
  module.def("from_tensors", from_tensors, nb::arg("tensors"), nb::arg("made"), nb::arg("config"));
}

}  // namespace regauge::python
