#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "adapter.h"
#include "checkpoint_metadata.h"
#include "corrupt.h"
#include "distributed.h"
#include "file_bytes.h"
#include "gguf.h"
#include "gguf_split.h"
#include "hub_cache.h"
#include "json.h"
#include "llama2c.h"
#include "not_read.h"
#include "packings/join_adapter.h"
#include "pieces.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"
#include "remote/remote_file.h"
#include "remote/url.h"
#include "safetensors.h"
#include "shard_index.h"
#include "torch_file.h"

// How a Checkpoint is opened: which file goes to which parser.
namespace regauge {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What formats are told by.
Bytes beginning(const ByteRange& file) {
  constexpr std::size_t kBeginning = 64;
  return file.bytes(0, std::min(kBeginning, file.size()));
}

bool starts_with(std::span<const std::byte> bytes, std::string_view prefix) {
  return bytes.size() >= prefix.size() &&
         std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

// A length and an opening brace, which no other format begins with.
bool looks_like_safetensors(std::span<const std::byte> bytes) {
  return bytes.size() > 8 && bytes[8] == std::byte{'{'} && bytes[7] == std::byte{0};
}

Format recognise(const fs::path& path, const ByteRange& file) {
  const Bytes bytes = beginning(file);
  io::refuse_file(path, bytes);
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
WeightFile read_weights(ByteRange bytes, const fs::path& path) {
  const std::string name = path.filename().string();
  if (path.extension() != ".safetensors" && io::is_torch_file(beginning(bytes), path)) {
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

using io::is_file;

// One that a URL names as a file of weights or an index; any other is a folder.
bool names_file(const fs::path& url) {
  static constexpr const char* kFiles[] = {".gguf", ".safetensors", ".json", ".bin",
                                           ".pt",   ".pth",         ".ckpt"};
  return std::ranges::find(kFiles, url.extension()) != std::end(kFiles);
}

}  // namespace
void Checkpoint::Metadata::read_config(const fs::path& path) {
  const std::string where = "[config] " + path.string();
  config_text = io::read_json_text(path, where);
  config = io::parse_json_object(*config_text, where);
}

void Checkpoint::Metadata::read_config_beside(const fs::path& file) {
  const fs::path path = file.parent_path() / "config.json";
  if (is_file(path)) read_config(path);
}

Checkpoint Checkpoint::open(const fs::path& given) {
  io::require_utf8(given, "open");
  std::error_code error;
  const bool remote = io::is_url(given);
  if (!remote && !fs::exists(given, error)) {
    if (const auto pair = io::base_and_adapter(given)) {
      Checkpoint checkpoint = open(pair->first);
      checkpoint.add_adapter(pair->second);
      checkpoint.path_ = given;
      return checkpoint;
    }
  }
  const fs::path path = remote ? io::remote_model(given.string()) : io::find_model(given);
  Checkpoint checkpoint;
  if (remote ? !names_file(path) : fs::is_directory(path, error)) {
    checkpoint = open_folder(path);
    if (!remote) checkpoint.folder_ = path;
  } else if (path.string().ends_with(".safetensors.index.json") ||
             path.string().ends_with(".bin.index.json")) {
    checkpoint = open_index(path);
    checkpoint.metadata_->read_config_beside(path);
  } else {
    checkpoint = open_file(path);
    if (checkpoint.format_ == Format::safetensors) checkpoint.metadata_->read_config_beside(path);
  }
  checkpoint.path_ = remote && io::is_hub_address(given) ? given : path;
  if (checkpoint.format_ == Format::safetensors) {
    checkpoint.join_packed();
  }
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
  bytes_.push_back(std::move(adapter.bytes));
  metadata_->adapters.push_back(std::move(adapter.settings_text));
  index_tensors();
}

Checkpoint Checkpoint::open_file(const fs::path& path) {
  auto file = io::open_bytes(path);
  const auto bytes = file->all();
  const std::string name = path.filename().string();
  Checkpoint checkpoint;
  checkpoint.format_ = recognise(path, bytes);
  if (checkpoint.format_ == Format::safetensors) {
    auto contents = read_weights(bytes, path);
    checkpoint.add_file(path, std::move(file), std::move(contents.tensors),
                        std::move(contents.metadata));
  } else if (checkpoint.format_ == Format::gguf) {
    auto contents = io::parse_gguf(bytes, name);
    if (const auto parts = io::gguf_parts(path, contents.config); !parts.empty()) {
      return open_gguf_parts(parts);
    }
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(file), std::move(contents.tensors), json::object());
  } else {
    auto contents = io::parse_llama2c(bytes, name);
    checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(path, std::move(file), std::move(contents.tensors), json::object());
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
    auto file = io::open_bytes(parts[i]);
    auto contents = io::parse_gguf(file->all(), name);
    io::require_gguf_part(parts[i], contents.config, i, parts.size());
    for (const StoredTensor& tensor : contents.tensors) checkpoint.require_new(tensor, name);
    if (i == 0) checkpoint.metadata_->config = std::move(contents.config);
    checkpoint.add_file(parts[i], std::move(file), std::move(contents.tensors), json::object());
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
  throw CorruptFile(
      Corruption::tensor_in_two_shards,
      fmt::format("[open] tensor '{}' is in {} and in {}", tensor.name,
                  files_[static_cast<std::size_t>(other->shard)].filename().string(), file));
}

Checkpoint Checkpoint::open_folder(const fs::path& path) {
  const bool remote = io::is_url(path);
  if (!remote && is_file(path / io::kDistributedFile) && !is_file(path / io::kSingleFile) &&
      !is_file(path / io::kIndexFile)) {
    return open_distributed(path);
  }
  if (!is_file(path / "config.json")) {
    if (remote) {
      throw UsageError(fmt::format("[open] {}: there is no config.json; name a GGUF file in full",
                                   path.string()));
    }
    if (const fs::path part = io::first_gguf_part(path); !part.empty()) return open_file(part);
    io::refuse_folder(path);
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
    io::refuse_folder(path);
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
    auto file = io::open_bytes(shard_path);
    auto contents = read_weights(file->all(), shard_path);
    for (const StoredTensor& tensor : contents.tensors) checkpoint.require_new(tensor, shard);
    checkpoint.add_file(shard_path, std::move(file), std::move(contents.tensors),
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
  Checkpoint checkpoint = open_distributed_tensors(path);
  checkpoint.metadata_->read_config(config);
  return checkpoint;
}

Checkpoint Checkpoint::open_distributed_tensors(const fs::path& path) {
  io::require_utf8(path, "open");
  if (!is_file(path / io::kDistributedFile)) {
    throw UsageError(fmt::format(
        "[open] {}: there is no {}, which torch.distributed.checkpoint and Megatron write",
        path.string(), io::kDistributedFile));
  }
  const std::string where = fmt::format("[torch] {}", io::kDistributedFile);
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  auto metadata = io::open_bytes(path / io::kDistributedFile);
  const auto tensors = io::parse_distributed(metadata->all().bytes(), where);
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
    checkpoint.add_file(path / name, io::open_bytes(path / name), {}, json::object());
  }
  for (const auto& tensor : tensors) {
    std::vector<io::PieceInFile> pieces;
    for (const auto& chunk : tensor.chunks) {
      const std::int64_t shard = files.at(chunk.file);
      const auto bytes = checkpoint.bytes_[static_cast<std::size_t>(shard)]->all();
      pieces.push_back({chunk.offsets, io::parse_chunk(bytes, chunk, tensor.name), shard});
    }
    checkpoint.tensors_.push_back(io::stored_tensor(
        tensor.name, tensor.shape, pieces, fmt::format("{}: tensor '{}'", where, tensor.name)));
    checkpoint.index_.emplace(tensor.name, checkpoint.tensors_.size() - 1);
  }
  for (const auto& file : checkpoint.bytes_) file->require_read();
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path, std::shared_ptr<const io::FileBytes> file,
                          std::vector<StoredTensor> tensors, json metadata) {
  for (StoredTensor& tensor : tensors) {
    tensor.shard = static_cast<std::int64_t>(files_.size());
    for (StoredTensor& part : tensor.parts) part.shard = tensor.shard;
    index_.emplace(tensor.name, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }
  file->require_read();
  files_.push_back(path);
  metadata_->files.push_back(std::move(metadata));
  bytes_.push_back(std::move(file));
}

}  // namespace regauge
