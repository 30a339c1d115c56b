#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "regauge/base/progress.h"
#include "regauge/io/bytes.h"
#include "regauge/io/dtype.h"
#include "regauge/io/numbers.h"

namespace regauge {

namespace io {
class FileBytes;
}

enum class Format { safetensors, gguf, llama2c };  // what torch saves counts as safetensors
std::string_view format_name(Format format);
Format format_from_name(std::string_view name);  // throws UsageError with the choices

// One stored tensor: `shape` is row-major as the producer's framework prints it (GGUF's reversed
// dimensions are turned round on reading).
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::int64_t shard = 0;   // index into Checkpoint::files(); in memory, of the tensor itself
  std::int64_t offset = 0;  // of the first byte in that file; in memory, which of the tensors
  std::int64_t bytes = 0;   // of all parts
  // How several tensors hold the numbers, and which; null if they lie in a row. They are then no
  // tensors of the checkpoint by themselves, and what the config said of them is taken out of it.
  std::shared_ptr<const Packing> packing = nullptr;
  // Where the numbers are in the parts if they are of a plain type and not in a row.
  std::shared_ptr<const io::Pieces> pieces = nullptr;
  std::vector<StoredTensor> parts = {};

  std::int64_t elements() const;  // throws UsageError on overflow or a negative dimension
  std::string type_name() const;  // that of its type, or of its packing
  // The plain type that holds its numbers as well; none if a quantiser rounded them.
  std::optional<DType> plain_type() const;
};

// A tensor that is in memory already, row-major; `owner` keeps its bytes there. Or one that `make`
// puts there whenever it is needed, from any thread, and that is dropped after it was read.
struct MemoryTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::function<Bytes()> make = nullptr;  // in place of bytes
};

// A checkpoint as named tensors. On disk it is lazy: opening reads headers only.
// Every file is hostile until checked; a file that fails a check throws CorruptFile, one that
// cannot be read FileError, one of a kind that is not read UsageError. A copy shares the bytes.
class Checkpoint {
 public:
  Checkpoint();
  // A safetensors, GGUF or llama2.c file, one of torch.save, a *.safetensors.index.json or
  // *.bin.index.json, a folder that holds config.json with model.safetensors, pytorch_model.bin or
  // the index of one of them, or one of torch.distributed.checkpoint with a config.json in it or
  // beside it. One part of a split GGUF file stands for all, as does a folder that holds nothing
  // but them. Or BASE+ADAPTER, one of these and a folder that PEFT wrote, unless something has that
  // very name: it holds base and adapter as one model.
  static Checkpoint open(const std::filesystem::path& path);
  // The tensors of a folder of torch.distributed.checkpoint, whatever computes with them: config()
  // is null.
  static Checkpoint open_distributed_tensors(const std::filesystem::path& path);
  // What a folder with this config.json and these tensors would hold; `files` is then empty and
  // `path` a description. Throws UsageError for a name that is there twice or bytes that are not
  // what dtype and shape need.
  static Checkpoint in_memory(nlohmann::json config, std::vector<MemoryTensor> tensors);

  Format format() const { return format_; }
  const std::filesystem::path& path() const { return path_; }
  // The folder that was opened, of base and adapter the base's; empty if it was no folder.
  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }
  std::size_t own_files() const;  // without those of adapters, which come last
  // In file order (shard by shard, by offset).
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  const StoredTensor& at(std::string_view name) const;  // throws UsageError, naming close names
  // config.json of the folder (null if a bare safetensors file has none beside it), the key/value
  // pairs of a GGUF file (strings that are not UTF-8 as json binary), or the header of a llama2.c
  // file: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, max_seq_len, shared_weights.
  const nlohmann::json& config() const;
  // __metadata__ of each safetensors file, by shard; empty objects elsewhere.
  const std::vector<nlohmann::json>& file_metadata() const;

  // A copy in which packed tensors are read otherwise, from the same parts; where `other` gives
  // null, as before.
  using Repack = std::function<std::shared_ptr<const Packing>(const StoredTensor& tensor)>;
  Checkpoint repacked(const Repack& other) const;

  // Throws FileError if a page of the tensor's file that was read was not there any more.
  Numbers numbers(const StoredTensor& tensor) const;
  // Throws UsageError besides for one that is packed or not in a row.
  Bytes bytes(const StoredTensor& tensor) const;
  // Name and bytes of each weight file as it was opened, and of config.json as it was read: what
  // the tensors and config() were taken from, even if another file has taken the name since. Empty
  // for a checkpoint in memory.
  std::vector<std::pair<std::string, ByteRange>> opened_files() const;
  // The SHA-256 of each of opened_files(), by name, as sha256sum prints it. Several files are
  // hashed side by side, and pages that have been read are released. Throws Cancelled, and
  // FileError as require_intact() does.
  std::map<std::string, std::string> digests(Progress& progress) const;
  // Tells the system that the pages of this tensor are not needed for now, which keeps resident
  // memory bounded by what is in use. Throws as bytes() does: what was read until then is good.
  void release(const StoredTensor& tensor) const;
  // Throws FileError if a file became shorter or was written to since it was opened. To be called
  // after the last tensor was read and before anything is said or kept of it. That another file has
  // taken the name does no harm.
  void require_intact() const;

 private:
  struct Metadata;
  static Checkpoint open_file(const std::filesystem::path& path);
  static Checkpoint open_folder(const std::filesystem::path& path);
  static Checkpoint open_index(const std::filesystem::path& path);
  static Checkpoint open_distributed(const std::filesystem::path& path);
  static Checkpoint open_gguf_parts(const std::vector<std::filesystem::path>& parts);
  void require_new(const StoredTensor& tensor, const std::string& file) const;
  void add_adapter(const std::filesystem::path& folder);
  void join_packed();
  void index_tensors();
  Numbers held(const StoredTensor& tensor) const;
  void release_held(const StoredTensor& tensor) const;
  void add_file(const std::filesystem::path& path, std::shared_ptr<const io::FileBytes> bytes,
                std::vector<StoredTensor> tensors, nlohmann::json metadata);

  Format format_ = Format::safetensors;
  std::filesystem::path path_, folder_;
  std::vector<std::filesystem::path> files_;
  std::vector<StoredTensor> tensors_;
  std::shared_ptr<Metadata> metadata_;
  std::vector<std::shared_ptr<const io::FileBytes>> bytes_;  // of each file, or tensor in memory
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace regauge
