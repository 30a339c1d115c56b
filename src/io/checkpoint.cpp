#include "regauge/io/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <utility>

#include "adapter.h"
#include "checked.h"
#include "close_names.h"
#include "corrupt.h"
#include "gguf.h"
#include "json.h"
#include "llama2c.h"
#include "mapping.h"
#include "packings/join.h"
#include "packings/join_adapter.h"
#include "regauge/base/error.h"
#include "regauge/io/packing.h"
#include "safetensors.h"
#include "sha256.h"
#include "shard_index.h"

namespace regauge {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool starts_with(std::span<const std::byte> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() &&
         std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

// A length and an opening brace, which no other format begins with.
bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[8] == std::byte{'{'} && bytes[7] == std::byte{0};
}

Format recognise(const fs::path& path, std::span<const std::byte> bytes) {
  const std::string extension = path.extension().string();
  if (extension == ".safetensors") return Format::safetensors;
  if (extension == ".gguf" || starts_with(bytes, io::kGgufMagic)) return Format::gguf;
  if (looks_like_safetensors(bytes)) return Format::safetensors;
  const bool pickle = starts_with(bytes, "PK\x03\x04") || starts_with(bytes, "\x80\x02");
  if (pickle || extension == ".pt" || extension == ".pth" || extension == ".ckpt") {
    throw UsageError(
        fmt::format("[open] {}: a PyTorch pickle is not read, since loading one runs "
                    "code; save it as safetensors",
                    path.string()));
  }
  if (extension == ".bin") return Format::llama2c;
  throw UsageError(
      fmt::format("[open] {}: neither safetensors, GGUF nor llama2.c (.bin)", path.string()));
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

struct Checkpoint::Metadata {
  void read_config(const fs::path& path);
  void read_config_beside(const fs::path& file);

  json config;
  std::optional<std::string> config_text;  // of a config.json
  std::vector<std::string> adapters;       // the adapter_config.json of each
  std::vector<json> files;
};

void Checkpoint::Metadata::read_config(const fs::path& path) {
  const std::string where = "[config] " + path.string();
  config_text = io::read_json_text(path, where);
  config = io::parse_json_object(*config_text, where);
}

void Checkpoint::Metadata::read_config_beside(const fs::path& file) {
  const fs::path path = file.parent_path() / "config.json";
  if (is_file(path)) read_config(path);
}

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

Checkpoint Checkpoint::open(const fs::path& path) {
  io::require_utf8(path, "open");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (const auto pair = io::base_and_adapter(path)) {
      Checkpoint checkpoint = open(pair->first);
      checkpoint.add_adapter(pair->second);
      checkpoint.path_ = path;
      return checkpoint;
    }
    throw FileError(fmt::format("[open] {}: no such file or folder", path.string()));
  }
  Checkpoint checkpoint;
  if (fs::is_directory(status)) {
    checkpoint = open_folder(path);
    checkpoint.folder_ = path;
  } else if (path.string().ends_with(".safetensors.index.json")) {
    checkpoint = open_index(path);
    checkpoint.metadata_->read_config_beside(path);
  } else {
    checkpoint = open_file(path);
    if (checkpoint.format_ == Format::safetensors) checkpoint.metadata_->read_config_beside(path);
  }
  checkpoint.path_ = path;
  if (checkpoint.format_ == Format::safetensors) checkpoint.join_packed();
  return checkpoint;
}

void Checkpoint::add_adapter(const fs::path& folder) {
  io::AdapterFiles adapter = io::open_adapter(folder);
  if (format_ != Format::safetensors) {
    throw UsageError(fmt::format(
        "[adapter] {}: the base, {}, is {}; PEFT's adapters are read with a safetensors model",
        folder.string(), path_.string(), format_name(format_)));
  }
  for (StoredTensor& tensor : adapter.tensors) {
    tensor.shard = static_cast<std::int64_t>(files_.size());
  }
  tensors_ = io::join_adapter(adapter.settings, adapter.tensors, tensors_, metadata_->config);
  files_.push_back(adapter.path);
  metadata_->files.push_back(json::object());
  mappings_.push_back(std::move(adapter.mapping));
  metadata_->adapters.push_back(std::move(adapter.settings_text));
  index_tensors();
}

Checkpoint Checkpoint::repacked(const Repack& other) const {
  Checkpoint copy = *this;
  for (StoredTensor& tensor : copy.tensors_) {
    if (!tensor.packing) continue;
    if (auto packing = other(tensor)) tensor.packing = std::move(packing);
  }
  return copy;
}

void Checkpoint::join_packed() {
  io::join_packed(metadata_->config, tensors_);
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
  for (const MemoryTensor& given : tensors) {
    StoredTensor tensor;
    tensor.name = given.name;
    tensor.dtype = given.dtype;
    tensor.shape = given.shape;
    tensor.offset = static_cast<std::int64_t>(checkpoint.tensors_.size());
    tensor.bytes = static_cast<std::int64_t>(given.bytes.size());
    if (stored_bytes(tensor.dtype, tensor.elements()) != tensor.bytes) {
      throw UsageError(fmt::format("[checkpoint] tensor '{}': {} bytes are not {} numbers of {}",
                                   tensor.name, tensor.bytes, tensor.elements(),
                                   dtype_name(tensor.dtype)));
    }
    if (!checkpoint.index_.emplace(tensor.name, checkpoint.tensors_.size()).second) {
      throw UsageError(fmt::format("[checkpoint] tensor '{}' is there twice", tensor.name));
    }
    checkpoint.tensors_.push_back(std::move(tensor));
  }
  checkpoint.memory_ = std::move(tensors);
  checkpoint.join_packed();
  return checkpoint;
}

Checkpoint Checkpoint::open_file(const fs::path& path) {
  auto mapping = std::make_shared<const io::MappedFile>(path);
  const auto bytes = mapping->bytes();
  const std::string name = path.filename().string();
  Checkpoint checkpoint;
  checkpoint.format_ = recognise(path, bytes);
  if (checkpoint.format_ == Format::safetensors) {
    auto contents = io::parse_safetensors(bytes, name);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors),
                        std::move(contents.metadata));
  } else if (checkpoint.format_ == Format::gguf) {
    auto contents = io::parse_gguf(bytes, name);
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors), json::object());
  } else {
    auto contents = io::parse_llama2c(bytes, name);
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors), json::object());
  }
  return checkpoint;
}

Checkpoint Checkpoint::open_folder(const fs::path& path) {
  if (!is_file(path / "config.json")) {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() != ".gguf") continue;
      throw UsageError(fmt::format("[open] {}: the folder has no config.json; for its GGUF name {}",
                                   path.string(), entry.path().string()));
    }
    throw UsageError(fmt::format("[open] {}: the folder has no config.json", path.string()));
  }
  const bool single = is_file(path / io::kSingleFile);
  if (!single && !is_file(path / io::kIndexFile)) {
    throw UsageError(
        fmt::format("[open] {}: the folder has neither {} nor {}; convert other weights "
                    "to safetensors",
                    path.string(), io::kSingleFile, io::kIndexFile));
  }
  Checkpoint checkpoint =
      single ? open_file(path / io::kSingleFile) : open_index(path / io::kIndexFile);
  checkpoint.metadata_->read_config(path / "config.json");
  return checkpoint;
}

Checkpoint Checkpoint::open_index(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string where = fmt::format("[shard index] {}", name);
  const io::ShardIndex index = io::parse_shard_index(io::read_json_text(path, where), name);

  Checkpoint checkpoint;
  for (const std::string& shard : index.files()) {
    const fs::path shard_path = path.parent_path() / shard;
    if (!is_file(shard_path)) {
      throw CorruptFile(
          Corruption::missing_shard,
          fmt::format("{}: {} is not there; was the download cut short?", where, shard));
    }
    auto mapping = std::make_shared<const io::MappedFile>(shard_path);
    auto contents = io::parse_safetensors(mapping->bytes(), shard);
    for (const StoredTensor& tensor : contents.tensors) {
      if (const StoredTensor* other = checkpoint.find(tensor.name)) {
        throw CorruptFile(
            Corruption::tensor_in_two_shards,
            fmt::format(
                "{}: tensor '{}' is in {} and in {}", where, tensor.name,
                checkpoint.files_[static_cast<std::size_t>(other->shard)].filename().string(),
                shard));
      }
    }
    checkpoint.add_file(shard_path, std::move(mapping), std::move(contents.tensors),
                        std::move(contents.metadata));
  }
  for (const auto& [tensor, shard] : index.file_of) {
    const StoredTensor* found = checkpoint.find(tensor);
    if (!found || checkpoint.files_[static_cast<std::size_t>(found->shard)].filename() != shard) {
      throw CorruptFile(Corruption::missing_tensor,
                        fmt::format("{}: tensor '{}' is not in {}", where, tensor, shard));
    }
  }
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path, std::shared_ptr<const io::MappedFile> mapping,
                          std::vector<StoredTensor> tensors, json metadata) {
  for (StoredTensor& tensor : tensors) {
    tensor.shard = static_cast<std::int64_t>(files_.size());
    index_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }
  mapping->require_read();
  files_.push_back(path);
  metadata_->files.push_back(std::move(metadata));
  mappings_.push_back(std::move(mapping));
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

std::span<const std::byte> Checkpoint::bytes(const StoredTensor& tensor) const {
  return numbers(tensor).bytes();
}

Numbers Checkpoint::held(const StoredTensor& tensor) const {
  if (tensor.packing) {
    std::vector<Numbers> parts;
    for (const StoredTensor& part : tensor.parts) parts.push_back(held(part));
    return {tensor.packing, std::move(parts), tensor.elements()};
  }
  if (!memory_.empty()) {
    return {tensor.dtype, memory_[static_cast<std::size_t>(tensor.offset)].bytes};
  }
  const io::MappedFile& file = *mappings_[static_cast<std::size_t>(tensor.shard)];
  file.require_read();
  return {tensor.dtype, file.bytes().subspan(static_cast<std::size_t>(tensor.offset),
                                             static_cast<std::size_t>(tensor.bytes))};
}

std::vector<std::pair<std::string, std::span<const std::byte>>> Checkpoint::mapped_files() const {
  std::vector<std::pair<std::string, std::span<const std::byte>>> files;
  // Of several adapters, which all have the same names, the second is
  // "2/adapter_model.safetensors".
  const std::size_t adapters = metadata_->adapters.size(), own = own_files();
  const auto numbered = [](std::size_t adapter, const std::string& name) {
    return adapter == 0 ? name : fmt::format("{}/{}", adapter + 1, name);
  };
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::string name = files_[i].filename().string();
    files.emplace_back(i < own ? name : numbered(i - own, name), mappings_[i]->bytes());
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
  const auto files = mapped_files();
  std::vector<std::span<const std::byte>> messages;
  std::size_t total = 0;
  for (const auto& [name, bytes] : files) {
    messages.push_back(bytes);
    total += bytes.size();
  }
  progress.start("hashing " + path_.filename().string(), static_cast<std::int64_t>(total));
  const auto found =
      sha256_of_each(messages, [&](std::size_t file, std::size_t offset, std::size_t length) {
        if (file < mappings_.size()) mappings_[file]->release(offset, length);
        progress.advance(static_cast<std::int64_t>(length));
      });
  progress.finish();
  require_intact();
  std::map<std::string, std::string> digests;
  for (std::size_t i = 0; i < files.size(); ++i) digests[files[i].first] = found[i];
  return digests;
}

void Checkpoint::release(const StoredTensor& tensor) const {
  if (memory_.empty()) release_held(at(tensor.name));
}

void Checkpoint::release_held(const StoredTensor& tensor) const {
  for (const StoredTensor& part : tensor.parts) release_held(part);
  if (tensor.packing) return;
  const io::MappedFile& file = *mappings_[static_cast<std::size_t>(tensor.shard)];
  file.release(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
  file.require_read();
}

void Checkpoint::require_intact() const {
  for (const auto& file : mappings_) file->require_intact();
}

}  // namespace regauge
