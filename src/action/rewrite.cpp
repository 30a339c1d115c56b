#include "regauge/action/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "arch/reading.h"
#include "base/jobs.h"
#include "io/companions.h"
#include "io/shard_index.h"
#include "moved_slices.h"
#include "regauge/arch/apart.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::int64_t kEncoded = std::int64_t{1} << 20;  // elements encoded at a time

}  // namespace

DType writable_dtype(std::string_view name) {
  if (name == "f32" || name == "float32") return DType::f32;
  if (name == "f16" || name == "fp16" || name == "float16") return DType::f16;
  if (name == "bf16" || name == "bfloat16") return DType::bf16;
  throw UsageError(fmt::format("matrices are stored as f32, f16 or bf16 and not as '{}'", name));
}

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
  converts_ = target_.family != model.layout.family() || target_.format != model.layout.format();
  files_.format = target_.format;
  if (!converts_ && source.architecture() == model.architecture) {
    layout_ = model.layout;
    files_.config = model.checkpoint.config();
  } else {
    const nlohmann::json base = converts_ ? nlohmann::json() : model.checkpoint.config();
    layout_ = layout_for(target_.family, target_.format, source.architecture(), base,
                         converts_ ? nullptr : &model.checkpoint);
    files_.config = config_for(target_.family, target_.format, source.architecture(), base);
  }
  if (target_.dtype && target_.format == Format::safetensors) {
    declare_dtype(files_.config, *target_.dtype);
  }
  plan_files();
}

Rewrite::Decision Rewrite::decide(const Layout::Stored& stored) const {
  const StoredTensor* original = converts_ ? nullptr : source_.model().checkpoint.find(stored.name);
  Decision decision;
  bool untouched = original != nullptr && original->shape == stored.shape;
  const StoredTensor* origin = nullptr;
  bool moved = false;
  for (const auto& parameter : stored.parameters) {
    const StoredTensor* held = source_.stored(parameter);
    moved = moved || plan_.touches(parameter) || source_.is_patched(parameter);
    untouched = untouched && held != nullptr && !moved;
    if (held == nullptr) continue;
    if (origin == nullptr) origin = held;
    decision.in_double = decision.in_double || works_in_double(*held);
  }
  decision.in_double = decision.in_double || origin == nullptr;
  const bool vector = stored.shape.size() < 2;
  // GGUF's readers expect vectors as F32; llama2.c knows nothing else.
  const bool narrow = target_.format != Format::llama2c &&
                      !(vector && target_.format == Format::gguf && (converts_ || target_.dtype));
  if (narrow && target_.dtype) {
    decision.dtype = *target_.dtype;
  } else if (narrow && origin != nullptr && origin->plain_type()) {
    decision.dtype = *origin->plain_type();
  }
  // What is stored wide is to show its own rounding alone, not that of sums in float.
  decision.in_double = decision.in_double || (moved && works_in_double(decision.dtype));
  decision.copied = untouched && !original->packing &&
                    (original->dtype == decision.dtype ||
                     (is_quantised(original->dtype) && !target_.dtype.has_value()));
  if (decision.copied) decision.dtype = original->dtype;
  return decision;
}

void Rewrite::plan_files() {
  const Model& model = source_.model();
  const Checkpoint& original = model.checkpoint;
  const bool folder = target_.format == Format::safetensors;
  if (!converts_ && folder) {
    files_.files = io::names_as_safetensors(
        {original.files().begin(),
         original.files().begin() + static_cast<std::ptrdiff_t>(original.own_files())});
    files_.file_metadata = original.file_metadata();
    files_.file_metadata.resize(std::min(files_.file_metadata.size(), original.own_files()));
  } else {
    files_.files = {folder ? "model.safetensors" : "model"};
  }
  const auto last = std::max<std::int64_t>(static_cast<std::int64_t>(files_.files.size()), 1) - 1;
  const auto add = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    StoredTensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    const StoredTensor* before = converts_ ? nullptr : original.find(name);
    tensor.shard = before != nullptr && folder ? std::min(before->shard, last) : last;
    files_.tensors.push_back(std::move(tensor));
  };
  for (const auto& stored : layout_.stored()) {
    const Decision decision = decisions_[stored.name] = decide(stored);
    add(stored.name, decision.dtype, stored.shape);
    (decision.copied ? copied_ : changed_).push_back(stored.name);
  }
  // Constants that follow from the architecture are made anew where it says other ones.
  const auto frequencies = [](const Architecture& architecture) {
    std::vector<std::vector<double>> result;
    for (const auto& kind : architecture.kinds) result.push_back(kind.attention.rotary_frequencies);
    return result;
  };
  const bool other_constants =
      converts_ || frequencies(source_.architecture()) != frequencies(model.architecture);
  std::set<std::string> outdated;
  if (other_constants) {
    for (const auto& constant : model.layout.constants()) outdated.insert(constant.name);
    for (const auto& constant : layout_.constants()) {
      outdated.insert(constant.name);
      add(constant.name, DType::f32, {static_cast<std::int64_t>(constant.values.size())});
      changed_.push_back(constant.name);
    }
  }
  if (converts_) {
    dropped_ = model.unclaimed;
    return;
  }
  const bool stream_moves = element_.maps.contains("residual") ||
                            element_.maps.contains("residual.sign") ||
                            element_.maps.contains("residual.scale");
  const std::vector<std::string> of_others = apart_of(model).tensors;
  const std::set<std::string> apart(of_others.begin(), of_others.end());
  for (const auto& name : model.unclaimed) {
    if (outdated.contains(name)) continue;
    const StoredTensor& tensor = original.at(name);
    add(name, tensor.packing ? unpacked_type(tensor) : tensor.dtype, tensor.shape);
    copied_.push_back(name);
    if (apart.contains(name)) continue;
    const bool wide = std::find(tensor.shape.begin(), tensor.shape.end(),
                                source_.architecture().width) != tensor.shape.end();
    if (stream_moves && wide && (is_floating(tensor.dtype) || tensor.packing))
      unadapted_.push_back(name);
  }
  // The source's own order, so that an untouched file comes out as it went in; what is new behind.
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < files_.tensors.size(); ++i) places[files_.tensors[i].name] = i;
  std::vector<std::size_t> order;
  for (const auto& tensor : original.tensors()) {
    if (const auto found = places.find(tensor.name); found != places.end()) {
      order.push_back(found->second);
      places.erase(found);
    }
  }
  for (std::size_t i = 0; i < files_.tensors.size(); ++i) {
    if (places.contains(files_.tensors[i].name)) order.push_back(i);
  }
  std::vector<StoredTensor> ordered;
  for (const std::size_t i : order) ordered.push_back(std::move(files_.tensors[i]));
  files_.tensors = std::move(ordered);
}

std::int64_t Rewrite::bytes() const {
  std::int64_t sum = 0;
  for (const auto& tensor : files_.tensors) sum += stored_bytes(tensor.dtype, tensor.elements());
  return sum;
}

std::int64_t Rewrite::peak_memory(int jobs) const {
  // A tensor, or a slice of it, as read, in canonical order, moved, and on its way out; the maps in
  // double, and as the work needs them.
  std::int64_t largest = 0;
  for (const auto& stored : layout_.stored()) {
    const Decision& decision = decisions_.at(stored.name);
    if (decision.copied) continue;
    std::int64_t elements = stored.slice_elements();
    for (const auto& parameter : stored.parameters) {
      const ParameterSpec& spec = symmetry_.index->tensors.at(parameter);
      elements = std::max(elements, spec.rows * spec.cols / slices(parameter));
    }
    largest = std::max(largest, 3 * (decision.in_double ? 8 : 4) * elements);
  }
  std::int64_t maps = 0;
  for (const auto& [name, map] : element_.maps) maps += map.blocks().size() * 8;
  const auto residual = element_.maps.find("residual");
  if (residual != element_.maps.end()) maps += 2 * residual->second.blocks().size() * 8;
  return jobs * (largest + 4 * kEncoded * 8) + maps;
}

// Collects the parameters of each stored tensor, or of a slice of it, and writes it when it is
// complete. Several threads may put parameters at a time, none twice.
struct Rewrite::Sink {
  template <class Scalar>
  struct Buffer {
    std::vector<Scalar> values;
    std::size_t parameters = 0;  // that it has
  };
  template <class Scalar>
  using Buffers = std::map<std::pair<std::string, std::int64_t>, Buffer<Scalar>>;

  const Rewrite& rewrite;
  const Write& write;
  std::mutex mutex{};  // of the buffers' lists; numbers of each parameter have places of their own
  Buffers<float> floats{};
  Buffers<double> doubles{};
  std::vector<const Layout::Stored*> copies{};  // of other tensors: a tied head written out

  template <class Scalar>
  auto& buffers() {
    if constexpr (std::is_same_v<Scalar, float>) {
      return floats;
    } else {
      return doubles;
    }
  }

  // All of a parameter.
  template <class Scalar>
  void put(const std::string& parameter, const Matrix<Scalar>& value, Progress& progress) {
    for (std::int64_t slice = 0; slice < rewrite.layout_.slices(parameter); ++slice) {
      put(parameter, slice, value, progress);
    }
  }

  // A slice, of which `value` may hold all of the parameter.
  template <class Scalar>
  void put(const std::string& parameter, std::int64_t slice, const Matrix<Scalar>& value,
           Progress& progress) {
    const auto [holder, place] = rewrite.layout_.home(parameter, slice);
    if (rewrite.decisions_.at(holder.name).copied) return;
    std::unique_lock lock(mutex);
    const auto at = buffers<Scalar>().try_emplace({holder.name, place}).first;
    auto& [values, parameters] = at->second;
    if (values.empty()) {
      values.resize(static_cast<std::size_t>(holder.slice_elements()));
      const bool whole = holder.parameters.size() > 1 || value.size() >= std::ssize(values);
      if (!whole && !rewrite.converts_) keep_unread_rows<Scalar>(holder, values);
    }
    lock.unlock();
    rewrite.layout_.insert_slice<Scalar>(parameter, slice, value, values);
    lock.lock();
    if (++parameters < holder.parameters.size()) return;
    const auto complete = buffers<Scalar>().extract(at);
    lock.unlock();
    encode_to<Scalar>(holder, place, values, progress);
    for (const auto* copy : copies) {
      const bool wanted = copy->copy_of == holder.name && !rewrite.decisions_.at(copy->name).copied;
      if (wanted) encode_to<Scalar>(*copy, place, values, progress);
    }
  }

  // A table may have rows that only padding reads: they stay as they are.
  template <class Scalar>
  void keep_unread_rows(const Layout::Stored& holder, std::vector<Scalar>& buffer) {
    const Checkpoint& original = rewrite.source_.model().checkpoint;
    const StoredTensor* before = original.find(holder.name);
    if (before == nullptr || before->shape != holder.shape) return;
    original.numbers(*before).decode<Scalar>(buffer);
  }

  template <class Scalar>
  void encode_to(const Layout::Stored& stored, std::int64_t slice,
                 const std::vector<Scalar>& values, Progress& progress) const {
    const DType dtype = rewrite.decisions_.at(stored.name).dtype;
    const auto total = static_cast<std::int64_t>(values.size());
    if (!Eigen::Map<const Eigen::ArrayX<Scalar>>(values.data(), total).isFinite().all()) {
      throw UsageError(fmt::format(
          "[rewrite] {}: some of its entries are no numbers (NaN or infinite), or become so here; "
          "`regauge diff` with a good copy shows where",
          stored.name));
    }
    std::vector<std::byte> bytes;
    for (std::int64_t at = 0; at < total; at += kEncoded) {
      const std::int64_t count = std::min(kEncoded, total - at);
      bytes.resize(static_cast<std::size_t>(stored_bytes(dtype, count)));
      encode<Scalar>(
          dtype,
          std::span(values).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)),
          bytes);
      write(stored.name, bytes, stored_bytes(dtype, slice * total + at));
      progress.advance(static_cast<std::int64_t>(bytes.size()));
    }
  }
};

CheckpointWriter::Plan Rewrite::files_at(const std::filesystem::path& path) const {
  CheckpointWriter::Plan files = files_;
  const bool folder = target_.format == Format::safetensors;
  if (folder && path.extension() == ".safetensors") {
    throw UsageError(fmt::format(
        "[rewrite] {}: a safetensors model is written as a folder with its config.json; name one",
        path.string()));
  }
  if (!folder) files.files = {path.filename().string()};
  if (folder) files.companions_from = source_.model().checkpoint.folder();
  return files;
}

void Rewrite::run(const std::filesystem::path& path, Progress& progress) const {
  CheckpointWriter writer(path, files_at(path));
  progress.start("writing " + path.filename().string(), bytes());
  write_all([&](const std::string& name, std::span<const std::byte> piece,
                std::int64_t offset) { writer.write(name, piece, offset); },
            progress);
  writer.finish();
  progress.finish();
}

std::vector<std::string> Rewrite::left_out() const {
  const Checkpoint& original = source_.model().checkpoint;
  if (original.folder().empty()) return {};
  std::vector<std::string> names = io::left_out(original.folder());
  std::erase_if(names, [&](const std::string& name) {
    return name == io::kIndexFile || name == io::kTorchIndexFile ||
           std::ranges::any_of(original.files(),
                               [&](const auto& file) { return file.filename() == name; });
  });
  return names;
}

Model Rewrite::run_in_memory(Progress& progress) const {
  if (target_.format != Format::safetensors) {
    throw UsageError("[rewrite] only safetensors models are held in memory; name a file");
  }
  std::vector<MemoryTensor> tensors;
  std::map<std::string, std::byte*> begins;
  for (const auto& planned : files_.tensors) {
    const auto size = static_cast<std::size_t>(stored_bytes(planned.dtype, planned.elements()));
    const auto bytes = std::make_shared<std::vector<std::byte>>(size);
    begins[planned.name] = bytes->data();
    tensors.push_back({planned.name, planned.dtype, planned.shape, *bytes, bytes});
  }
  progress.start("rewriting", bytes());
  write_all(
      [&](const std::string& name, std::span<const std::byte> piece, std::int64_t offset) {
        std::copy(piece.begin(), piece.end(), begins.at(name) + offset);
      },
      progress);
  progress.finish();
  Model model = Model::open(Checkpoint::in_memory(files_.config, std::move(tensors)));
  // A folder's modules.json says so, and there is no folder here.
  if (source_.architecture().output.has(Output::hidden)) {
    model.architecture.output.add(Output::hidden);
  }
  return model;
}

std::int64_t Rewrite::slices(const std::string& parameter) const {
  const std::int64_t slices = source_.slices(parameter);
  return layout_.slices(parameter) == slices ? slices : 1;
}

template <class Scalar>
void Rewrite::move(std::span<const TensorPlan> fused, Executor& executor, Sink& sink,
                   Progress& progress) const {
  const std::int64_t slices = this->slices(fused.front().spec.name);
  if (slices == 1) {
    for (const auto& tensor : fused) {
      Matrix<Scalar> value = source_.read<Scalar>(tensor.spec.name);
      executor.transform(tensor, value);
      sink.put<Scalar>(tensor.spec.name, value, progress);
    }
    return;
  }
  std::vector<MovedSlices<Scalar>> moved;
  for (const auto& tensor : fused) moved.emplace_back(source_, tensor, slices, executor);
  for (std::int64_t slice = 0; slice < slices; ++slice) {
    for (std::size_t i = 0; i < fused.size(); ++i) {
      sink.put<Scalar>(fused[i].spec.name, slice, moved[i].read(slice), progress);
    }
    progress.advance(0);
  }
}

DType Rewrite::unpacked_type(const StoredTensor& tensor) const {
  return target_.dtype.value_or(tensor.plain_type().value_or(DType::f32));
}

// One that holds no parameter, number by number.
void Rewrite::write_unpacked(const StoredTensor& tensor, const Write& write,
                             Progress& progress) const {
  const DType dtype = unpacked_type(tensor);
  const Numbers stored = source_.model().checkpoint.numbers(tensor);
  std::vector<double> values;
  std::vector<std::byte> bytes;
  for (std::int64_t at = 0; at < stored.count(); at += kEncoded) {
    const std::int64_t count = std::min(kEncoded, stored.count() - at);
    values.resize(static_cast<std::size_t>(count));
    bytes.resize(static_cast<std::size_t>(stored_bytes(dtype, count)));
    stored.range(at, count).decode<double>(values);
    encode<double>(dtype, values, bytes);
    write(tensor.name, bytes, stored_bytes(dtype, at));
    progress.advance(static_cast<std::int64_t>(bytes.size()));
  }
}

void Rewrite::write_copy(const std::string& name, const Write& write, Progress& progress) const {
  const Checkpoint& original = source_.model().checkpoint;
  const StoredTensor& tensor = original.at(name);
  if (tensor.packing) return write_unpacked(tensor, write, progress);
  const Numbers all = original.numbers(tensor);
  constexpr std::int64_t kChunk = 1 << 24;  // bytes
  const std::int64_t chunk = kChunk / block_bytes(tensor.dtype) * block_elements(tensor.dtype);
  std::vector<std::byte> buffer;
  for (std::int64_t at = 0; at < all.count(); at += chunk) {
    const auto piece = all.range(at, std::min(chunk, all.count() - at)).bytes_in(buffer);
    write(name, piece, stored_bytes(tensor.dtype, at));
    progress.advance(static_cast<std::int64_t>(piece.size()));
    original.release(tensor);
  }
}

void Rewrite::write_all(const Write& write, Progress& outer,
                        const std::set<std::int64_t>& shards) const {
  Reading progress(outer, source_);
  const std::vector<std::string> copied = copied_in(shards);
  for_each_job(std::ssize(copied), progress, [&](std::int64_t i, Progress& own) {
    write_copy(copied[static_cast<std::size_t>(i)], write, own);
  });
  for (const auto& constant : layout_.constants()) {
    if (std::find(changed_.begin(), changed_.end(), constant.name) == changed_.end()) continue;
    std::vector<std::byte> bytes(constant.values.size() * 4);
    encode<double>(DType::f32, constant.values, bytes);
    write(constant.name, bytes, 0);
  }

  Sink sink{*this, write};
  for (const auto& stored : layout_.stored()) {
    if (!stored.copy_of.empty()) sink.copies.push_back(&stored);
  }
  const Executor executor(symmetry_, element_);
  const std::vector<const LayerPlan*> layers = layers_in(shards);
  for_each_job(std::ssize(layers), progress, [&](std::int64_t i, Progress& own) {
    write_layer(*layers[static_cast<std::size_t>(i)], executor, sink, own);
  });
  source_.model().checkpoint.require_intact();
}

void Rewrite::write_layer(const LayerPlan& layer, Executor executor, Sink& sink,
                          Progress& progress) const {
  executor.begin(layer,
                 [&](const TensorPlan& tensor) { return source_.read<double>(tensor.spec.name); });
  const auto holder = [&](const TensorPlan& tensor) -> const std::string& {
    return layout_.holder(tensor.spec.name).name;
  };
  for (auto first = layer.matrices.begin(); first != layer.matrices.end();) {
    const auto last = std::find_if(first, layer.matrices.end(), [&](const TensorPlan& tensor) {
      return holder(tensor) != holder(*first);
    });
    const Decision& decision = decisions_.at(holder(*first));
    if (!decision.copied && decision.in_double) {
      move<double>({first, last}, executor, sink, progress);
    }
    if (!decision.copied && !decision.in_double) {
      move<float>({first, last}, executor, sink, progress);
    }
    progress.advance(0);
    first = last;
  }
  for (const auto& [name, value] : executor.finish(layer)) sink.put<double>(name, value, progress);
}

}  // namespace regauge
