#include "torch_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "checked.h"
#include "corrupt.h"
#include "describe.h"
#include "pickle.h"
#include "regauge/base/error.h"
#include "zip.h"

namespace regauge::io {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array<std::pair<std::string_view, std::string_view>, 34> kTypes = {
    {{"torch.DoubleStorage", "F64"},
     {"torch.FloatStorage", "F32"},
     {"torch.HalfStorage", "F16"},
     {"torch.BFloat16Storage", "BF16"},
     {"torch.LongStorage", "I64"},
     {"torch.IntStorage", "I32"},
     {"torch.ShortStorage", "I16"},
     {"torch.CharStorage", "I8"},
     {"torch.ByteStorage", "U8"},
     {"torch.BoolStorage", "BOOL"},
     {"torch.ComplexFloatStorage", "C64"},
     {"torch.ComplexDoubleStorage", "C128"},
     {"torch.storage.UntypedStorage", "U8"},
     {"torch.float64", "F64"},
     {"torch.float32", "F32"},
     {"torch.float16", "F16"},
     {"torch.bfloat16", "BF16"},
     {"torch.int64", "I64"},
     {"torch.int32", "I32"},
     {"torch.int16", "I16"},
     {"torch.int8", "I8"},
     {"torch.uint64", "U64"},
     {"torch.uint32", "U32"},
     {"torch.uint16", "U16"},
     {"torch.uint8", "U8"},
     {"torch.bool", "BOOL"},
     {"torch.complex64", "C64"},
     {"torch.complex128", "C128"},
     {"torch.float8_e4m3fn", "F8_E4M3"},
     {"torch.float8_e5m2", "F8_E5M2"},
     {"torch.float8_e4m3fnuz", "F8_E4M3FNUZ"},
     {"torch.float8_e5m2fnuz", "F8_E5M2FNUZ"},
     {"torch.float8_e8m0fnu", "F8_E8M0"},
     {"torch.float4_e2m1fn_x2", "F4"}}};

constexpr int kMostWrappers = 4;              // parameters of tensors
constexpr std::int64_t kSmallView = 1 << 24;  // bytes that a view may always have
constexpr std::size_t kMostNamed = 8;         // keys in a message

// What a tensor is made by, and of what.
struct Call {
  std::string_view function;
  const PickleValue* arguments = nullptr;
};

// A parameter or a tensor with attributes is the tensor that it wraps.
std::optional<Call> tensor_call(const PickleValue& value) {
  const PickleValue* at = &value;
  for (int i = 0; i < kMostWrappers && at->is(Kind::object); ++i) {
    const PickleValue& arguments = *at->items[1];
    std::string_view function = at->items[0]->text;
    if (function == "torch._tensor._rebuild_from_type_v2") {
      if (arguments.items.size() != 4 || !arguments.items[0]->is(Kind::global) ||
          !arguments.items[2]->is(Kind::tuple)) {
        return std::nullopt;
      }
      const bool plain = arguments.items[1]->is_global("torch.Tensor") ||
                         arguments.items[1]->is_global("torch.nn.parameter.Parameter");
      if (!plain) return std::nullopt;
      return Call{arguments.items[0]->text, arguments.items[2]};
    }
    if (!function.starts_with("torch._utils._rebuild_parameter")) {
      if (!function.starts_with("torch._utils._rebuild_tensor")) return std::nullopt;
      return Call{function, &arguments};
    }
    if (arguments.items.empty()) return std::nullopt;
    at = arguments.items[0];
  }
  return std::nullopt;
}

// A file of torch.save: its archive, its pickle, and what a storage is called in it.
class TorchFile {
 public:
  TorchFile(const ByteRange& file, std::string where)
      : file_(file),
        where_(std::move(where)),
        zip_(file, where_),
        prefix_(find_prefix()),
        pickled_(bytes_of(*zip_.find(prefix_ + "data.pkl"))),
        pickle_(pickled_, where_ + ": data.pkl") {
    const auto* order = zip_.find(prefix_ + "byteorder");
    if (order != nullptr && !is_little(bytes_of(*order))) {
      throw UsageError(fmt::format(
          "{}: written by a big-endian machine; load it and save it again on a little-endian one",
          where_));
    }
  }

  const PickleValue& root() const { return pickle_.root(); }
  const std::string& where() const { return where_; }
  TorchTensor tensor(const std::string& name, const Call& call) const;

 private:
  struct Storage {
    std::string_view type;
    std::int64_t offset, bytes;
  };

  std::string find_prefix() const;
  Bytes bytes_of(const ZipDirectory::Entry& entry) const {
    return file_.bytes(static_cast<std::size_t>(entry.offset),
                       static_cast<std::size_t>(entry.bytes));
  }
  static bool is_little(const Bytes& byte_order) {
    return std::string_view(reinterpret_cast<const char*>(byte_order.data()), byte_order.size()) ==
           "little";
  }
  Storage storage(const PickleValue& value, const std::string& where) const;
  void check_view(const TorchTensor& tensor, std::int64_t first, std::int64_t storage,
                  const std::string& where) const;

  ByteRange file_;
  std::string where_;
  ZipDirectory zip_;
  std::string prefix_;
  Bytes pickled_;
  Pickle pickle_;
};

// All files lie in one folder of the archive, whose name is anything.
std::string TorchFile::find_prefix() const {
  constexpr std::string_view kPickle = "/data.pkl";
  std::vector<std::string> found;
  for (const auto& [name, entry] : zip_.entries()) {
    if (name.ends_with(kPickle) && name.find('/') + kPickle.size() == name.size()) {
      found.push_back(name.substr(0, name.size() - kPickle.size() + 1));
    }
  }
  if (found.size() != 1) {
    throw UsageError(
        fmt::format("{}: a zip archive with {} data.pkl, so torch.save did not write it", where_,
                    found.empty() ? "no" : "more than one"));
  }
  if (zip_.find(found[0] + "constants.pkl") != nullptr) {
    throw UsageError(fmt::format(
        "{}: a TorchScript program; save the weights alone: torch.save(module.state_dict(), ...)",
        where_));
  }
  for (const auto& [name, entry] : zip_.entries()) {
    if (entry.stored) continue;
    throw UsageError(fmt::format(
        "{}: '{}' is compressed or encrypted; torch.save stores: load and save it again", where_,
        name));
  }
  return found[0];
}

TorchFile::Storage TorchFile::storage(const PickleValue& value, const std::string& where) const {
  const auto refuse = [&](Corruption cause, const std::string& what) -> CorruptFile {
    return {cause, fmt::format("{}: {}", where, what)};
  };
  const PickleValue* id = value.is(Kind::persistent_id) ? value.items[0] : nullptr;
  const bool sound = id != nullptr && id->is(Kind::tuple) && id->items.size() == 5 &&
                     id->items[0]->is(Kind::text) && id->items[0]->text == "storage" &&
                     id->items[1]->is(Kind::global) && id->items[2]->is(Kind::text) &&
                     id->items[4]->is(Kind::integer);
  const std::string_view type = sound ? dtype_of_torch(id->items[1]->text) : "";
  if (type.empty()) {
    throw refuse(Corruption::bad_entry, "its storage is not described as torch.save does");
  }
  const std::string file = fmt::format("{}data/{}", prefix_, id->items[2]->text);
  const auto* entry = zip_.find(file);
  if (entry == nullptr) {
    throw refuse(Corruption::missing_tensor, fmt::format("the zip has no '{}'", file));
  }
  const auto dtype = dtype_from_name(type);
  const std::int64_t elements = id->items[4]->integer;
  if (dtype && product(elements, block_bytes(*dtype)) != entry->bytes) {
    throw refuse(Corruption::size_mismatch,
                 fmt::format("a storage of {} numbers of {} lies in {} bytes; was the download "
                             "cut short?",
                             elements, type, entry->bytes));
  }
  return {type, entry->offset, entry->bytes};
}

// Each element of the view, which begins at `first`, lies in a storage of so many bytes.
void TorchFile::check_view(const TorchTensor& tensor, std::int64_t first, std::int64_t storage,
                           const std::string& where) const {
  const auto count = element_count(tensor.shape);
  const std::int64_t width = block_bytes(tensor.dtype);
  const auto bytes = count ? product(*count, width) : std::nullopt;
  if (!bytes) {
    throw CorruptFile(Corruption::bad_shape, fmt::format("{}: the size of {} overflows", where,
                                                         describe(tensor.dtype, tensor.shape)));
  }
  std::optional<std::int64_t> end = first;
  for (std::size_t i = 0; i < tensor.shape.size() && *count > 0 && end; ++i) {
    const auto step = product(tensor.shape[i] - 1, tensor.strides[i]);
    end = step ? sum(*end, *step) : std::nullopt;
  }
  if (end && *count > 0) end = sum(*end, 1);
  if (end) end = product(*end, width);
  const std::int64_t most = std::max(static_cast<std::int64_t>(file_.size()), kSmallView);
  if (!end || *end > storage || *bytes > most) {
    throw CorruptFile(Corruption::bad_view,
                      fmt::format("{}: {} with strides [{}] from element {} is no view of {} bytes",
                                  where, describe(tensor.dtype, tensor.shape),
                                  fmt::join(tensor.strides, ", "), first, storage));
  }
}

// (storage, first element, sizes, strides, requires_grad, hooks, and by version: dtype, flags)
TorchTensor TorchFile::tensor(const std::string& name, const Call& call) const {
  const std::string where = name.empty() ? where_ : fmt::format("{}: tensor '{}'", where_, name);
  const auto refuse = [&](Corruption cause, const char* what) -> CorruptFile {
    return {cause, fmt::format("{}: {}", where, what)};
  };
  const bool typed = call.function.ends_with("_v3");
  const auto& given = call.arguments->items;
  if (given.size() < (typed ? 7U : 4U) || !given[1]->is(Kind::integer)) {
    throw refuse(Corruption::bad_entry, "it is not described as torch.save does");
  }
  const std::size_t flags = typed ? 7 : 6;
  if (given.size() > flags && (!given[flags]->is(Kind::dict) || !given[flags]->items.empty())) {
    throw UsageError(fmt::format(
        "{}: a conjugate or negative view; save tensor.resolve_conj().resolve_neg()", where));
  }
  const Storage storage = this->storage(*given[0], where);
  const std::string_view type = !typed                       ? storage.type
                                : given[6]->is(Kind::global) ? dtype_of_torch(given[6]->text)
                                                             : "";
  const auto dtype = dtype_from_name(type);
  if (!dtype) {
    if (type.empty()) throw refuse(Corruption::unknown_dtype, "its dtype is no type of torch");
    throw UsageError(fmt::format("{}: {} tensors are not read yet; convert to BF16", where, type));
  }
  TorchTensor result{name, *dtype, {}, {}, 0};
  const auto read_sizes = [&](const PickleValue& value, std::vector<std::int64_t>& sizes) {
    const bool all =
        value.is(Kind::tuple) && std::ranges::all_of(value.items, [](const auto* item) {
          return item->is(Kind::integer) && item->integer >= 0;
        });
    if (!all) throw refuse(Corruption::bad_shape, "its sizes or strides are no tuple of sizes");
    for (const PickleValue* item : value.items) sizes.push_back(item->integer);
  };
  read_sizes(*given[2], result.shape);
  read_sizes(*given[3], result.strides);
  if (result.strides.size() != result.shape.size()) {
    throw refuse(Corruption::bad_shape, "it has not as many strides as sizes");
  }
  const std::int64_t first = given[1]->integer;
  if (first < 0) throw refuse(Corruption::bad_view, "it begins before its storage");
  check_view(result, first, storage.bytes, where);
  result.offset = storage.offset + first * block_bytes(*dtype);
  return result;
}

// The entries of the dict as (name, value). Throws where a name is there twice.
std::vector<std::pair<std::string_view, const PickleValue*>> entries(const PickleValue& dict,
                                                                     const std::string& where) {
  std::vector<std::pair<std::string_view, const PickleValue*>> result;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = *dict.items[i];
    if (!key.is(Kind::text)) continue;
    if (!seen.insert(key.text).second) {
      throw CorruptFile(Corruption::duplicate_key,
                        fmt::format("{}: '{}' is there twice", where, key.text));
    }
    result.emplace_back(key.text, dict.items[i + 1]);
  }
  return result;
}

bool holds_tensors(const PickleValue& value) {
  if (!value.is(Kind::dict)) return false;
  for (std::size_t i = 1; i < value.items.size(); i += 2) {
    if (tensor_call(*value.items[i])) return true;
  }
  return false;
}

const PickleValue& find_state_dict(const TorchFile& file) {
  const PickleValue& root = file.root();
  if (!root.is(Kind::dict)) {
    throw UsageError(
        fmt::format("{}: holds {}, where a dict of tensors was expected; save model.state_dict()",
                    file.where(), tensor_call(root) ? "one tensor" : describe(root.kind)));
  }
  if (holds_tensors(root)) return root;
  std::vector<const PickleValue*> found;
  std::vector<std::string_view> keys, others;
  for (const auto& [key, value] : entries(root, file.where())) {
    const bool usual = std::ranges::find(kStateDictKeys, key) != kStateDictKeys.end();
    if (usual && holds_tensors(*value)) {
      found.push_back(value);
      keys.push_back(key);
    } else if (others.size() < kMostNamed) {
      others.push_back(key);
    }
  }
  if (found.size() == 1) return *found[0];
  if (found.empty()) {
    throw UsageError(fmt::format(
        "{}: no tensors, neither at the top nor under {}; its keys are [{}]; save the state dict "
        "alone: torch.save(model.state_dict(), ...)",
        file.where(), fmt::join(kStateDictKeys, ", "), fmt::join(others, ", ")));
  }
  throw UsageError(
      fmt::format("{}: state dicts under {}; save the one that is meant alone: torch.save(...)",
                  file.where(), fmt::join(keys, " and ")));
}

}  // namespace

std::int64_t TorchTensor::bytes() const {
  return stored_bytes(dtype, element_count(shape).value_or(0));
}

bool TorchTensor::is_contiguous() const {
  if (element_count(shape) == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string_view dtype_of_torch(std::string_view global) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const auto& type) { return type.first == global; });
  return found == kTypes.end() ? std::string_view() : found->second;
}

std::vector<TorchTensor> parse_torch_file(const ByteRange& bytes, const std::string& name) {
  const TorchFile file(bytes, fmt::format("[torch] {}", name));
  const PickleValue& dict = find_state_dict(file);
  std::vector<TorchTensor> tensors;
  const auto named = entries(dict, file.where());
  if (2 * named.size() != dict.items.size()) {
    throw UsageError(fmt::format("{}: the state dict has keys that are no names", file.where()));
  }
  for (const auto& [key, value] : named) {
    if (value->is(Kind::none)) continue;
    const auto call = tensor_call(*value);
    if (!call) {
      throw UsageError(
          fmt::format("{}: '{}' of the state dict is no tensor but {}{}; save tensors alone",
                      file.where(), key, describe(value->kind),
                      value->is(Kind::object) ? fmt::format(", {}", value->items[0]->text) : ""));
    }
    tensors.push_back(file.tensor(std::string(key), *call));
  }
  std::ranges::sort(tensors, [](const TorchTensor& a, const TorchTensor& b) {
    return std::tie(a.offset, a.name) < std::tie(b.offset, b.name);
  });
  return tensors;
}

TorchTensor parse_torch_tensor(const ByteRange& bytes, const std::string& where) {
  const TorchFile file(bytes, where);
  const auto call = tensor_call(file.root());
  if (!call) {
    throw CorruptFile(Corruption::bad_entry, fmt::format("{}: one tensor was expected, found {}",
                                                         where, describe(file.root().kind)));
  }
  return file.tensor("", *call);
}

bool is_torch_file(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  // A pickle of torch's magic number.
  constexpr std::string_view kOld = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  const std::string extension = path.extension().string();
  if (extension == ".distcp" || path.filename() == ".metadata") {
    throw UsageError(fmt::format("[open] {}: a part of a distributed checkpoint; name its folder",
                                 path.string()));
  }
  if (begins_as_zip(bytes)) return true;
  const bool old =
      bytes.size() >= kOld.size() && std::memcmp(bytes.data(), kOld.data(), kOld.size()) == 0;
  if (old) {
    throw UsageError(fmt::format(
        "[open] {}: written as torch.save did before 1.6, which is not read; in Python: "
        "torch.save(torch.load(path, weights_only=True), path)",
        path.string()));
  }
  if (begins_as_pickle(bytes)) {
    throw UsageError(
        fmt::format("[open] {}: a bare pickle, which torch.save does not write; save the weights "
                    "as safetensors",
                    path.string()));
  }
  if (extension == ".pt" || extension == ".pth" || extension == ".ckpt") {
    throw UsageError(fmt::format(
        "[open] {}: not what torch.save writes, a zip archive; save the weights as safetensors",
        path.string()));
  }
  return false;
}

}  // namespace regauge::io
