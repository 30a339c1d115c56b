#include "regauge/io/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "adapter.h"
#include "checked.h"
#include "checkpoint_metadata.h"
#include "close_names.h"
#include "file_bytes.h"
#include "memory_bytes.h"
#include "packings/join.h"
#include "pieces.h"
#include "regauge/base/error.h"
#include "regauge/io/packing.h"
#include "sha256.h"

namespace regauge {

namespace fs = std::filesystem;
using nlohmann::json;

Checkpoint::Checkpoint() : metadata_(std::make_shared<Metadata>()) {}

std::size_t Checkpoint::own_files() const { return files_.size() - metadata_->adapters.size(); }

const json& Checkpoint::config() const { return metadata_->config; }

const std::vector<json>& Checkpoint::file_metadata() const { return metadata_->files; }

std::string_view format_name(Format format) {
  switch (format) {
    case Format::safetensors:
      return "safetensors";
    case Format::gguf:
      return "gguf";
    case Format::llama2c:
      return "llama2c";
  }
  return "?";
}

Format format_from_name(std::string_view name) {
  for (const Format format : {Format::safetensors, Format::gguf, Format::llama2c}) {
    if (name == format_name(format)) return format;
  }
  throw UsageError(fmt::format("format '{}' is not one of safetensors, gguf, llama2c", name));
}

std::int64_t StoredTensor::elements() const {
  const auto count = io::element_count(shape);
  if (!count) {
    throw UsageError(fmt::format("tensor '{}': the size of shape [{}] is negative or overflows",
                                 name, fmt::join(shape, ", ")));
  }
  return *count;
}

std::optional<DType> StoredTensor::plain_type() const {
  if (packing) return packing->plain_type();
  return is_quantised(dtype) ? std::nullopt : std::optional(dtype);
}

std::string StoredTensor::type_name() const {
  return packing ? packing->name() : std::string(dtype_name(dtype));
}

Checkpoint Checkpoint::repacked(const Repack& other) const {
  Checkpoint copy = *this;
  for (StoredTensor& tensor : copy.tensors_) {
    if (!tensor.packing) continue;
    if (auto packing = other(tensor)) tensor.packing = std::move(packing);
  }
  return copy;
}

namespace {

// Names as the model has them, without the modules that training wraps around others: those of
// FSDP, torch.compile and activation checkpointing anywhere, those of DDP around the whole.
void unwrap_names(std::vector<StoredTensor>& tensors) {
  constexpr std::string_view kAround = "module.";
  const bool all_around = std::ranges::all_of(
      tensors, [&](const StoredTensor& tensor) { return tensor.name.starts_with(kAround); });
  std::set<std::string_view> names;
  for (StoredTensor& tensor : tensors) {
    const std::string stored = tensor.name;
    if (all_around) tensor.name.erase(0, kAround.size());
    for (const std::string_view wrapper :
         {"_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module."}) {
      for (std::size_t at = tensor.name.find(wrapper); at != std::string::npos;
           at = tensor.name.find(wrapper, at)) {
        if (at == 0 || tensor.name[at - 1] == '.') {
          tensor.name.erase(at, wrapper.size());
        } else {
          at += wrapper.size();
        }
      }
    }
    if (!names.insert(tensor.name).second) {
      throw UsageError(fmt::format(
          "[checkpoint] '{}' is there twice, as '{}' and without a wrapper of training or in "
          "another one; save one of them",
          tensor.name, stored));
    }
  }
}

}  // namespace

void Checkpoint::join_packed() {
  unwrap_names(tensors_);
  io::join_packed(metadata_->config, tensors_,
                  [&](const StoredTensor& tensor) { return held(tensor).bytes(); });
  index_tensors();
}

void Checkpoint::index_tensors() {
  index_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

Checkpoint Checkpoint::in_memory(json config, std::vector<MemoryTensor> tensors) {
  Checkpoint checkpoint;
  checkpoint.path_ = "(in memory)";
  checkpoint.metadata_->config = std::move(config);
  for (MemoryTensor& given : tensors) {
    StoredTensor tensor;
    tensor.name = given.name;
    tensor.dtype = given.dtype;
    tensor.shape = given.shape;
    tensor.shard = static_cast<std::int64_t>(checkpoint.bytes_.size());
    tensor.bytes = stored_bytes(tensor.dtype, tensor.elements());
    const auto size = static_cast<std::size_t>(tensor.bytes);
    if (given.make != nullptr) {
      checkpoint.bytes_.push_back(std::make_shared<io::MadeBytes>(size, std::move(given.make)));
    } else if (given.bytes.size() == size) {
      checkpoint.bytes_.push_back(std::make_shared<io::HeldBytes>(given.bytes, given.owner));
    } else {
      throw UsageError(fmt::format("[checkpoint] tensor '{}': {} bytes are not {} numbers of {}",
                                   tensor.name, given.bytes.size(), tensor.elements(),
                                   dtype_name(tensor.dtype)));
    }
    if (!checkpoint.index_.emplace(tensor.name, checkpoint.tensors_.size()).second) {
      throw UsageError(fmt::format("[checkpoint] tensor '{}' is there twice", tensor.name));
    }
    checkpoint.tensors_.push_back(std::move(tensor));
  }
  checkpoint.join_packed();
  return checkpoint;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor& Checkpoint::at(std::string_view name) const {
  if (const StoredTensor* found = find(name)) return *found;
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  const auto close = io::close_names(name, names);
  throw UsageError(fmt::format("[checkpoint] {}: no tensor '{}' among {}{}{}",
                               path_.filename().string(), name, tensors_.size(),
                               close.empty() ? "" : "; is it ", fmt::join(close, " or ")));
}

Numbers Checkpoint::numbers(const StoredTensor& tensor) const { return held(at(tensor.name)); }

Bytes Checkpoint::bytes(const StoredTensor& tensor) const { return numbers(tensor).bytes(); }

Numbers Checkpoint::held(const StoredTensor& tensor) const {
  if (tensor.packing || tensor.pieces) {
    std::vector<Numbers> parts;
    for (const StoredTensor& part : tensor.parts) parts.push_back(held(part));
    if (tensor.pieces) return {tensor.pieces, std::move(parts), tensor.elements()};
    return {tensor.packing, std::move(parts), tensor.elements()};
  }
  const io::FileBytes& file = *bytes_[static_cast<std::size_t>(tensor.shard)];
  file.require_read();
  return {tensor.dtype, ByteRange(file, static_cast<std::size_t>(tensor.offset),
                                  static_cast<std::size_t>(tensor.bytes))};
}

std::vector<std::pair<std::string, ByteRange>> Checkpoint::opened_files() const {
  std::vector<std::pair<std::string, ByteRange>> files;
  // Of several adapters, which all have the same names, the second is
  // "2/adapter_model.safetensors".
  const std::size_t adapters = metadata_->adapters.size(), own = own_files();
  const auto numbered = [](std::size_t adapter, const std::string& name) {
    return adapter == 0 ? name : fmt::format("{}/{}", adapter + 1, name);
  };
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::string name = files_[i].filename().string();
    files.emplace_back(i < own ? name : numbered(i - own, name), bytes_[i]->all());
  }
  for (std::size_t i = 0; i < adapters; ++i) {
    files.emplace_back(numbered(i, io::kAdapterConfig),
                       std::as_bytes(std::span(metadata_->adapters[i])));
  }
  if (metadata_->config_text) {
    files.emplace_back("config.json", std::as_bytes(std::span(*metadata_->config_text)));
  }
  return files;
}

std::map<std::string, std::string> Checkpoint::digests(Progress& progress) const {
  const auto files = opened_files();
  std::vector<ByteRange> messages;
  std::size_t total = 0;
  for (const auto& [name, bytes] : files) {
    messages.push_back(bytes);
    total += bytes.size();
  }
  progress.start("hashing " + path_.filename().string(), static_cast<std::int64_t>(total));
  const auto found = sha256_of_each("hash files", messages, progress,
                                    [&](std::size_t file, std::size_t offset, std::size_t length) {
                                      if (file < bytes_.size())
                                        bytes_[file]->release(offset, length);
                                      progress.advance(static_cast<std::int64_t>(length));
                                    });
  progress.finish();
  require_intact();
  std::map<std::string, std::string> digests;
  for (std::size_t i = 0; i < files.size(); ++i) digests[files[i].first] = found[i];
  return digests;
}

void Checkpoint::release(const StoredTensor& tensor) const { release_held(at(tensor.name)); }

void Checkpoint::release_held(const StoredTensor& tensor) const {
  for (const StoredTensor& part : tensor.parts) release_held(part);
  if (tensor.packing || tensor.pieces) return;
  const io::FileBytes& file = *bytes_[static_cast<std::size_t>(tensor.shard)];
  file.release(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
  file.require_read();
}

void Checkpoint::require_intact() const {
  for (const auto& file : bytes_) file->require_intact();
}

}  // namespace regauge
