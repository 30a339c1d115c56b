#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "arch/fields.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"
#include "regauge/symmetry/element.h"

namespace regauge {
namespace {

constexpr const char* kKind = "regauge.element";
// 2: fields of the architecture may be left out; certificates name their tensors.
constexpr const char* kVersion = "2";
constexpr std::array<std::string_view, 2> kReadable = {"1", kVersion};
constexpr std::string_view kPermutation = ".permutation";
constexpr std::string_view kBlocks = ".blocks";
constexpr std::string_view kShift = ".shift_vector";
constexpr std::string_view kNote = "note.";

template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
std::span<const std::byte> raw(const Matrix<double>& values) {
  return std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
}

// Fields that the file does not name have their defaults: its program did not know them yet, or
// left them out.
bool is_architecture(const nlohmann::json& found, const Architecture& architecture) {
  return found.is_object() &&
         same_value(complete_json(unchecked_from_json(found)), complete_json(architecture));
}

Matrix<double> read_matrix(const Checkpoint& file, const StoredTensor& tensor) {
  const bool vector = tensor.shape.size() == 1;
  if (tensor.dtype != DType::f64 || (!vector && tensor.shape.size() != 2)) {
    throw UsageError(fmt::format("[element] {}: '{}' is not a matrix or vector of F64",
                                 file.path().string(), tensor.name));
  }
  Matrix<double> matrix(vector ? 1 : tensor.shape[0], tensor.shape.back());
  decode<double>(tensor.dtype, file.bytes(tensor),
                 std::span(matrix.data(), static_cast<std::size_t>(matrix.size())));
  return matrix;
}

std::vector<std::int64_t> read_permutation(const Checkpoint& file, const StoredTensor* tensor) {
  if (tensor == nullptr) return {};
  if (tensor->dtype != DType::i64 || tensor->shape.size() != 1) {
    throw UsageError(fmt::format("[element] {}: '{}' is not a vector of I64", file.path().string(),
                                 tensor->name));
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor->elements()));
  const auto bytes = file.bytes(*tensor);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

}  // namespace

void check_element_path(const std::filesystem::path& path) {
  if (path.extension() != ".safetensors") {
    throw UsageError(
        fmt::format("[element] {}: an element file ends in .safetensors", path.string()));
  }
  CheckpointWriter::check_path(path, Format::safetensors);
}

void save_element(const Symmetry& symmetry, const Element& element,
                  const std::filesystem::path& path, const ElementNotes& notes) {
  check_element_path(path);
  CheckpointWriter::Plan plan;
  plan.files = {path.filename().string()};
  plan.file_metadata = {{{"kind", kKind},
                         {"version", kVersion},
                         {"architecture", to_json(symmetry.architecture).dump()}}};
  for (const auto& [key, text] : notes.metadata) plan.file_metadata.front()[key] = text;
  const auto add = [&](std::string name, DType dtype, std::vector<std::int64_t> shape) {
    StoredTensor tensor;
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    plan.tensors.push_back(std::move(tensor));
  };
  for (const auto& [name, map] : element.maps) {
    if (map.permutes()) add(name + std::string(kPermutation), DType::i64, {map.count()});
    if (map.has_blocks()) add(name + std::string(kBlocks), DType::f64, {map.size(), map.width()});
  }
  for (const auto& [name, vector] : element.shifts) {
    add(name + std::string(kShift), DType::f64, {vector.cols()});
  }
  for (const auto& [name, matrix] : notes.tensors) {
    add(std::string(kNote) + name, DType::f64, {matrix.rows(), matrix.cols()});
  }
  CheckpointWriter writer(path, std::move(plan));
  for (const auto& [name, map] : element.maps) {
    if (map.permutes()) writer.write(name + std::string(kPermutation), raw(map.permutation()));
    if (map.has_blocks()) writer.write(name + std::string(kBlocks), raw(map.blocks()));
  }
  for (const auto& [name, vector] : element.shifts) {
    writer.write(name + std::string(kShift), raw(vector));
  }
  for (const auto& [name, matrix] : notes.tensors) {
    writer.write(std::string(kNote) + name, raw(matrix));
  }
  writer.finish();
}

Element load_element(const Symmetry& symmetry, const std::filesystem::path& path) {
  const Checkpoint file = Checkpoint::open(path);
  const auto& metadata = file.file_metadata();
  const bool known = !metadata.empty() && metadata.front().is_object() &&
                     metadata.front().value("kind", "") == kKind;
  if (!known) {
    throw UsageError(
        fmt::format("[element] {} is not an element file; `regauge act --save-element` writes one",
                    path.string()));
  }
  if (const auto version = metadata.front().value("version", "?");
      std::ranges::find(kReadable, version) == kReadable.end()) {
    throw UsageError(fmt::format("[element] {} is of version {}; this program reads up to {}",
                                 path.string(), version, kVersion));
  }
  const auto architecture =
      nlohmann::json::parse(metadata.front().value("architecture", ""), nullptr, false);
  if (!is_architecture(architecture, symmetry.architecture)) {
    throw UsageError(fmt::format(
        "[element] {} belongs to another architecture; was the model untied or converted since?",
        path.string()));
  }
  Element element;
  auto claimed = static_cast<std::size_t>(
      std::count_if(file.tensors().begin(), file.tensors().end(),
                    [](const StoredTensor& tensor) { return tensor.name.starts_with(kNote); }));
  for (const auto& space : symmetry.spaces) {
    const StoredTensor* permutation = file.find(space.name + std::string(kPermutation));
    const StoredTensor* blocks = file.find(space.name + std::string(kBlocks));
    claimed += (permutation != nullptr ? 1U : 0U) + (blocks != nullptr ? 1U : 0U);
    if (permutation == nullptr && blocks == nullptr) continue;
    element.maps[space.name] =
        BlockMap<double>(space.count, space.width(), read_permutation(file, permutation),
                         blocks != nullptr ? read_matrix(file, *blocks) : Matrix<double>());
  }
  for (const auto& shift : symmetry.shifts) {
    if (const StoredTensor* vector = file.find(shift.name + std::string(kShift))) {
      element.shifts[shift.name] = read_matrix(file, *vector);
      ++claimed;
    }
  }
  if (claimed != file.tensors().size()) {
    throw UsageError(
        fmt::format("[element] {} holds {} tensors that this architecture has no place for",
                    path.string(), file.tensors().size() - claimed));
  }
  check_member(symmetry, element);
  return element;
}

}  // namespace regauge
