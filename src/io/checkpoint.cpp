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
#include "distributed.h"
#include "gguf.h"
#include "gguf_split.h"
#include "json.h"
#include "llama2c.h"
#include "mapping.h"
#include "packings/join.h"
#include "packings/join_adapter.h"
#include "pieces.h"
#include "regauge/base/error.h"
#include "regauge/io/packing.h"
#include "safetensors.h"
#include "sha256.h"
#include "shard_index.h"
#include "torch_file.h"

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
  if (io::is_torch_file(bytes, path)) return Format::safetensors;
  if (extension == ".bin") return Format::llama2c;
  throw UsageError(fmt::format(
      "[open] {}: neither safetensors, GGUF, torch.save nor llama2.c (.bin)", path.string()));
}

struct WeightFile {
  std::vector<StoredTensor> tensors;
  json metadata;
};

// One file of a model of Hugging Face.
WeightFile read_weights(std::span<const std::byte> bytes, const fs::path& path) {
  const std::string name = path.filename().string();
  if (path.extension() != ".safetensors" && io::is_torch_file(bytes, path)) {
    std::vector<StoredTensor> tensors;
    for (io::TorchTensor& tensor : io::parse_torch_file(bytes, name)) {
      const std::string where = fmt::format("[torch] {}: tensor '{}'", name, tensor.name);
      const auto shape = tensor.shape;
      const std::vector<std::int64_t> start(shape.size(), 0);
      const std::string called = tensor.name;
      tensors.push_back(io::stored_tensor(called, shape, {{start, std::move(tensor), 0}}, where));
    }
    return {std::move(tensors), {{"format", "pt"}}};
  }
  auto contents = io::parse_safetensors(bytes, name);
  return {std::move(contents.tensors), std::move(contents.metadata)};
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
    const bool may_be_id = path.is_relative() && std::distance(path.begin(), path.end()) == 2 &&
                           !fs::exists(path.parent_path(), error);
    throw FileError(fmt::format(
        "[open] {}: no such file or folder{}", path.string(),
        may_be_id ? fmt::format("; if it is a model on the Hugging Face Hub, `hf download {}` "
                                "prints the folder to give here",
                                path.string())
                  : ""));
  }
  Checkpoint checkpoint;
  if (fs::is_directory(status)) {
    checkpoint = open_folder(path);
    checkpoint.folder_ = path;
  } else if (path.string().ends_with(".safetensors.index.json") ||
             path.string().ends_with(".bin.index.json")) {
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
    auto contents = read_weights(bytes, path);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors),
                        std::move(contents.metadata));
  } else if (checkpoint.format_ == Format::gguf) {
    auto contents = io::parse_gguf(bytes, name);
    if (const auto parts = io::gguf_parts(path, contents.config); !parts.empty()) {
      return open_gguf_parts(parts);
    }
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors), json::object());
  } else {
    auto contents = io::parse_llama2c(bytes, name);
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(mapping), std::move(contents.tensors), json::object());
  }
  return checkpoint;
}

Checkpoint Checkpoint::open_gguf_parts(const std::vector<fs::path>& parts) {
  Checkpoint checkpoint;
  checkpoint.format_ = Format::gguf;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = parts[i].filename().string();
    if (!is_file(parts[i])) {
      throw CorruptFile(Corruption::missing_shard,
                        fmt::format("[gguf] {} is not there: the model is split into {} files, "
                                    "which belong in one folder; was it downloaded?",
                                    name, parts.size()));
    }
    auto mapping = std::make_shared<const io::MappedFile>(parts[i]);
    auto contents = io::parse_gguf(mapping->bytes(), name);
    io::require_gguf_part(parts[i], contents.config, i, parts.size());
    for (const StoredTensor& tensor : contents.tensors) checkpoint.require_new(tensor, name);
    if (i == 0) checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(parts[i], std::move(mapping), std::move(contents.tensors), json::object());
  }
  json& config = checkpoint.metadata_->config;
  const auto total = config.find("split.tensors.count");
  if (total != config.end() && *total != checkpoint.tensors_.size()) {
    throw CorruptFile(Corruption::missing_tensor,
                      fmt::format("[gguf] {}: the parts hold {} tensors, but split.tensors.count "
                                  "is {}",
                                  parts[0].filename().string(), checkpoint.tensors_.size(),
                                  total->dump(-1, ' ', false, json::error_handler_t::replace)));
  }
  for (const char* key : {"split.no", "split.count", "split.tensors.count"}) config.erase(key);
  return checkpoint;
}

void Checkpoint::require_new(const StoredTensor& tensor, const std::string& file) const {
  const StoredTensor* other = find(tensor.name);
  if (other == nullptr) return;
  throw CorruptFile(Corruption::tensor_in_two_shards,
                    fmt::format("[open] tensor '{}' is in {} and in {}", tensor.name,
                                files_[static_cast<std::size_t>(other->shard)].filename().string(),
                                file));
}

Checkpoint Checkpoint::open_folder(const fs::path& path) {
  if (is_file(path / io::kDistributedFile) && !is_file(path / io::kSingleFile) &&
      !is_file(path / io::kIndexFile)) {
    return open_distributed(path);
  }
  if (!is_file(path / "config.json")) {
    if (const fs::path part = io::first_gguf_part(path); !part.empty()) return open_file(part);
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().extension() != ".gguf") continue;
      throw UsageError(fmt::format("[open] {}: the folder has no config.json; for its GGUF name {}",
                                   path.string(), entry.path().string()));
    }
    throw UsageError(fmt::format("[open] {}: the folder has no config.json", path.string()));
  }
  Checkpoint checkpoint;
  if (is_file(path / io::kSingleFile)) {
    checkpoint = open_file(path / io::kSingleFile);
  } else if (is_file(path / io::kIndexFile)) {
    checkpoint = open_index(path / io::kIndexFile);
  } else if (is_file(path / io::kTorchFile)) {
    checkpoint = open_file(path / io::kTorchFile);
  } else if (is_file(path / io::kTorchIndexFile)) {
    checkpoint = open_index(path / io::kTorchIndexFile);
  } else {
    throw UsageError(fmt::format(
        "[open] {}: the folder has none of {}, {}, {} and {}; convert other weights to safetensors",
        path.string(), io::kSingleFile, io::kIndexFile, io::kTorchFile, io::kTorchIndexFile));
  }
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
    auto contents = read_weights(mapping->bytes(), shard_path);
    for (const StoredTensor& tensor : contents.tensors) checkpoint.require_new(tensor, shard);
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

Checkpoint Checkpoint::open_distributed(const fs::path& path) {
  const fs::path folder = fs::canonical(path);
  const fs::path config = is_file(folder / "config.json") ? folder / "config.json"
                                                          : folder.parent_path() / "config.json";
  if (!is_file(config)) {
    throw UsageError(fmt::format(
        "[open] {}: a distributed checkpoint does not say what it computes; put the model's "
        "config.json into the folder or beside it",
        path.string()));
  }
  const auto map = [](const fs::path& file) {
    return std::make_shared<const io::MappedFile>(file);
  };
  const std::string where = fmt::format("[torch] {}", io::kDistributedFile);
  Checkpoint checkpoint;
  auto metadata = map(path / io::kDistributedFile);
  const auto tensors = io::parse_distributed(metadata->bytes(), where);
  checkpoint.add_file(path / io::kDistributedFile, std::move(metadata), {}, {{"format", "pt"}});

  std::map<std::string, std::int64_t> files;
  for (const auto& tensor : tensors) {
    for (const auto& chunk : tensor.chunks) files[chunk.file];
  }
  for (auto& [name, shard] : files) {
    if (!is_file(path / name)) {
      throw CorruptFile(
          Corruption::missing_shard,
          fmt::format("{}: {} is not there; was the download cut short?", where, name));
    }
    shard = static_cast<std::int64_t>(checkpoint.files_.size());
    checkpoint.add_file(path / name, map(path / name), {}, json::object());
  }
  for (const auto& tensor : tensors) {
    std::vector<io::PieceInFile> pieces;
    for (const auto& chunk : tensor.chunks) {
      const std::int64_t shard = files.at(chunk.file);
      const auto bytes = checkpoint.mappings_[static_cast<std::size_t>(shard)]->bytes();
      pieces.push_back({chunk.offsets, io::parse_chunk(bytes, chunk, tensor.name), shard});
    }
    checkpoint.tensors_.push_back(io::stored_tensor(
        tensor.name, tensor.shape, pieces, fmt::format("{}: tensor '{}'", where, tensor.name)));
    checkpoint.index_.emplace(tensor.name, checkpoint.tensors_.size() - 1);
  }
  for (const auto& mapping : checkpoint.mappings_) mapping->require_read();
  checkpoint.metadata_->read_config(config);
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path, std::shared_ptr<const io::MappedFile> mapping,
                          std::vector<StoredTensor> tensors, json metadata) {
  for (StoredTensor& tensor : tensors) {
    tensor.shard = static_cast<std::int64_t>(files_.size());
    for (StoredTensor& part : tensor.parts) part.shard = tensor.shard;
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
  if (tensor.packing || tensor.pieces) {
    std::vector<Numbers> parts;
    for (const StoredTensor& part : tensor.parts) parts.push_back(held(part));
    if (tensor.pieces) return {tensor.pieces, std::move(parts), tensor.elements()};
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
  // Of several adapters, which all have the same names, the second is "2/adapter_model.safetensors".
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
  if (tensor.packing || tensor.pieces) return;
  const io::MappedFile& file = *mappings_[static_cast<std::size_t>(tensor.shard)];
  file.release(static_cast<std::size_t>(tensor.offset), static_cast<std::size_t>(tensor.bytes));
  file.require_read();
}

void Checkpoint::require_intact() const {
  for (const auto& file : mappings_) file->require_intact();
}

}  // namespace regauge
