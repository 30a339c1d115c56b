#include "regauge/action/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "regauge/action/executor.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // elements encoded at a time

// 16-bit and quantised numbers are worked on in float, wider ones in double.
bool works_in_double(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

}  // namespace

Rewrite::Target Rewrite::same_as(const Model& model) {
  return {model.layout.family(), model.layout.format(), std::nullopt};
}

Rewrite::Rewrite(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
                 Target target)
    : source_(source),
      symmetry_(symmetry),
      element_(element),
      target_(std::move(target)),
      plan_(make_plan(symmetry, element)) {
  const Model& model = source.model();
  const bool same =
      target_.family == model.layout.family() && target_.format == model.layout.format();
  files_.format = target_.format;
  if (same && source.architecture() == model.architecture) {
    layout_ = model.layout;
    files_.config = model.checkpoint.config();
  } else {
    const nlohmann::json base = same ? model.checkpoint.config() : nlohmann::json();
    layout_ = layout_for(target_.family, target_.format, source.architecture(), base);
    files_.config = config_for(target_.family, target_.format, source.architecture(), base);
  }
  plan_files();
}

DType Rewrite::dtype_of(const Layout::Stored& stored) const {
  const StoredTensor* origin = nullptr;
  for (const auto& parameter : stored.parameters) {
    if (origin == nullptr) origin = source_.stored(parameter);
  }
  if (target_.format == Format::llama2c) return DType::f32;
  const bool vector = stored.shape.size() < 2;
  if (target_.dtype.has_value() && !(vector && target_.format == Format::gguf)) {
    return *target_.dtype;
  }
  if (origin == nullptr || is_quantised(origin->dtype)) return DType::f32;
  return origin->dtype;
}

bool Rewrite::is_copied(const Layout::Stored& stored) const {
  const Model& model = source_.model();
  if (target_.family != model.layout.family() || target_.format != model.layout.format()) {
    return false;
  }
  const StoredTensor* original = model.checkpoint.find(stored.name);
  if (original == nullptr || original->shape != stored.shape) return false;
  if (!is_quantised(original->dtype) && original->dtype != dtype_of(stored)) return false;
  if (is_quantised(original->dtype) && target_.format == Format::gguf) return false;
  return std::none_of(stored.parameters.begin(), stored.parameters.end(),
                      [&](const std::string& parameter) {
                        return plan_.touches(parameter) || source_.stored(parameter) == nullptr;
                      });
}

void Rewrite::plan_files() {
  const Model& model = source_.model();
  const Checkpoint& original = model.checkpoint;
  const bool same =
      target_.family == model.layout.family() && target_.format == model.layout.format();
  const bool folder = target_.format == Format::safetensors;
  if (same && folder) {
    for (const auto& file : original.files()) files_.files.push_back(file.filename().string());
    files_.file_metadata = original.file_metadata();
  } else {
    files_.files = {folder ? "model.safetensors" : "model"};
  }
  const auto last = static_cast<std::int64_t>(files_.files.size()) - 1;
  const auto add = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    StoredTensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    const StoredTensor* before = same ? original.find(name) : nullptr;
    tensor.shard = before != nullptr && folder ? before->shard : last;
    files_.tensors.push_back(std::move(tensor));
  };
  for (const auto& stored : layout_.stored()) {
    add(stored.name, dtype_of(stored), stored.shape);
    (is_copied(stored) ? copied_ : changed_).push_back(stored.name);
  }
  if (same) {
    for (const auto& name : model.unclaimed) {
      const StoredTensor& tensor = original.at(name);
      if (is_quantised(tensor.dtype)) {
        dropped_.push_back(name);
        continue;
      }
      add(name, tensor.dtype, tensor.shape);
      copied_.push_back(name);
    }
  } else {
    dropped_ = model.unclaimed;
    for (const auto& constant : layout_.constants()) {
      add(constant.name, DType::f32, {static_cast<std::int64_t>(constant.values.size())});
      changed_.push_back(constant.name);
    }
  }
  // The source's own order, so that an untouched file comes out as it went in.
  if (same) {
    std::map<std::string, std::size_t> order;
    for (const auto& tensor : original.tensors()) order.emplace(tensor.name, order.size());
    std::stable_sort(files_.tensors.begin(), files_.tensors.end(),
                     [&](const StoredTensor& a, const StoredTensor& b) {
                       const auto place = [&](const std::string& name) {
                         const auto found = order.find(name);
                         return found == order.end() ? order.size() : found->second;
                       };
                       return place(a.name) < place(b.name);
                     });
  }
}

std::int64_t Rewrite::bytes() const {
  std::int64_t sum = 0;
  for (const auto& tensor : files_.tensors) sum += stored_bytes(tensor.dtype, tensor.elements());
  return sum;
}

std::int64_t Rewrite::peak_memory() const {
  // A tensor as read, in canonical order, moved, and on its way out; the maps in double, and as the
  // work needs them.
  std::int64_t largest = 0;
  for (const auto& stored : layout_.stored()) {
    if (is_copied(stored)) continue;
    std::int64_t elements = 1;
    for (const auto size : stored.shape) elements *= size;
    const StoredTensor* origin = source_.stored(stored.parameters.front());
    const std::int64_t scalar = origin == nullptr || works_in_double(origin->dtype) ? 8 : 4;
    largest = std::max(largest, 3 * scalar * elements);
  }
  std::int64_t maps = 0;
  for (const auto& [name, map] : element_.maps) maps += map.blocks().size() * 8;
  const auto residual = element_.maps.find("residual");
  if (residual != element_.maps.end()) maps += 2 * residual->second.blocks().size() * 8;
  return largest + maps + 4 * kPiece * 8;
}

// Collects the parameters of each stored tensor and writes it when it is complete.
struct Rewrite::Sink {
  const Rewrite& rewrite;
  CheckpointWriter& writer;
  Progress& progress;
  std::map<std::string, std::vector<float>> floats{};
  std::map<std::string, std::vector<double>> doubles{};
  std::map<std::string, std::size_t> inserted{};

  template <class Scalar>
  auto& buffers() {
    if constexpr (std::is_same_v<Scalar, float>) {
      return floats;
    } else {
      return doubles;
    }
  }

  template <class Scalar>
  void put(const std::string& parameter, const Matrix<Scalar>& value) {
    const Layout::Stored& holder = rewrite.layout_.holder(parameter);
    if (rewrite.is_copied(holder)) return;
    auto& buffer = buffers<Scalar>()[holder.name];
    if (buffer.empty()) {
      std::size_t elements = 1;
      for (const auto size : holder.shape) elements *= static_cast<std::size_t>(size);
      buffer.resize(elements);
    }
    rewrite.layout_.insert<Scalar>(parameter, value, buffer);
    if (++inserted[holder.name] < holder.parameters.size()) return;
    // Copies of the holder (a tied head written out) follow it.
    for (const auto& stored : rewrite.layout_.stored()) {
      if (stored.parameters != holder.parameters) continue;
      encode_to<Scalar>(stored, buffer);
    }
    buffers<Scalar>().erase(holder.name);
  }

  template <class Scalar>
  void encode_to(const Layout::Stored& stored, const std::vector<Scalar>& values) {
    const DType dtype = rewrite.dtype_of(stored);
    const auto total = static_cast<std::int64_t>(values.size());
    std::vector<std::byte> bytes;
    for (std::int64_t at = 0; at < total; at += kPiece) {
      const std::int64_t count = std::min(kPiece, total - at);
      bytes.resize(static_cast<std::size_t>(stored_bytes(dtype, count)));
      encode<Scalar>(
          dtype,
          std::span(values).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)),
          bytes);
      writer.write(stored.name, bytes, stored_bytes(dtype, at));
      progress.advance(static_cast<std::int64_t>(bytes.size()));
    }
  }
};

void Rewrite::run(const std::filesystem::path& path, Progress& progress) const {
  CheckpointWriter::Plan files = files_;
  const bool folder = target_.format == Format::safetensors;
  const Checkpoint& original = source_.model().checkpoint;
  if (!folder) files.files = {path.filename().string()};
  if (folder && std::filesystem::is_directory(original.path())) {
    files.companions_from = original.path();
  }
  CheckpointWriter writer(path, std::move(files));
  progress.start("writing " + path.filename().string(), bytes());
  for (const auto& name : copied_) {
    const StoredTensor& tensor = original.at(name);
    const auto all = original.bytes(tensor);
    constexpr std::size_t kChunk = std::size_t{1} << 24;
    for (std::size_t at = 0; at < all.size(); at += kChunk) {
      const auto piece = all.subspan(at, std::min(kChunk, all.size() - at));
      writer.write(name, piece, static_cast<std::int64_t>(at));
      progress.advance(static_cast<std::int64_t>(piece.size()));
    }
    original.release(tensor);
  }
  for (const auto& constant : layout_.constants()) {
    if (std::find(changed_.begin(), changed_.end(), constant.name) == changed_.end()) continue;
    std::vector<std::byte> bytes(constant.values.size() * 4);
    encode<double>(DType::f32, constant.values, bytes);
    writer.write(constant.name, bytes);
  }

  Sink sink{*this, writer, progress};
  Executor executor(symmetry_, element_);
  for (const auto& layer : plan_.layers) {
    Executor::Vectors vectors;
    for (const auto* list : {&layer.vectors, &layer.borrowed}) {
      for (const auto& tensor : *list) {
        vectors[tensor.spec.name] = source_.read<double>(tensor.spec.name);
      }
    }
    executor.begin(layer, std::move(vectors));
    const auto process = [&]<class Scalar>(const TensorPlan& tensor, Scalar) {
      Matrix<Scalar> value = source_.read<Scalar>(tensor.spec.name);
      executor.transform(tensor, value);
      sink.put<Scalar>(tensor.spec.name, value);
    };
    for (const auto& tensor : layer.matrices) {
      const StoredTensor* origin = source_.stored(tensor.spec.name);
      // A tensor that stays may still have a constant to give to a bias.
      if (is_copied(layout_.holder(tensor.spec.name)) && !tensor.touched()) continue;
      if (origin == nullptr || works_in_double(origin->dtype)) {
        process(tensor, double{});
      } else {
        process(tensor, float{});
      }
      progress.advance(0);
    }
    for (const auto& [name, value] : executor.finish(layer)) sink.put<double>(name, value);
  }
  writer.finish();
  progress.finish();
}

}  // namespace regauge
