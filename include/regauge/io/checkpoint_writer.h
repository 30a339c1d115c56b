#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge {

// Writes a checkpoint whole or not at all: bytes go to a hidden file or folder beside `path`, which
// finish() renames; the destructor removes what was not finished. A path that exists is never
// overwritten: UsageError, at the start or in finish(). Deterministic: the same tensors and
// metadata give the same bytes. Tensors may be written in any order, in pieces, by several threads.
class CheckpointWriter {
 public:
  // GGUF and llama2.c are single files. Safetensors is a single file if `path` ends in
  // .safetensors, else a folder with config.json, the shards, and an index unless model.safetensors
  // holds all.
  struct Plan {
    Format format = Format::safetensors;
    // Of a folder: the file of each shard ("model-00001-of-00002.safetensors"); empty:
    // model.safetensors.
    std::vector<std::string> files;
    // Name, dtype, shape and shard are read; the rest is computed. Of a llama2.c file,
    // freq_cis_real and freq_cis_imag may be left out: the tables for theta = 10000 are written.
    std::vector<StoredTensor> tensors;
    // config.json / GGUF key-values / llama2.c header, as in Checkpoint::config(). GGUF has types
    // that JSON has not: integers become u32 (u64 if too large, i32 or i64 if negative), other
    // numbers f32.
    nlohmann::json config;
    // __metadata__ by shard. Shards beyond its end get {"format": "pt"} in a folder, which
    // transformers asks for, and none in a single file.
    std::vector<nlohmann::json> file_metadata;
    // A folder whose files come along into a folder, other than weights and config.json; may be
    // empty. A link among them that leads out of the folder is a UsageError, but for those of a
    // Hugging Face cache to its blobs.
    std::filesystem::path companions_from;
    // If not empty, only these shards are written, into a folder without config and index; what is
    // written of tensors of others is dropped.
    std::set<std::int64_t> only = {};
  };
  // Throws UsageError where no checkpoint of this format can be written: something is there, or the
  // name ends as another format's does; FileError where there is no folder for it.
  static void check_path(const std::filesystem::path& path, Format format);
  // Puts shards in their place that were written with `only`, which are linked or copied, and
  // writes what lies beside them. Throws UsageError for a file that is not that shard of the plan.
  static void join(const std::filesystem::path& path, Plan plan,
                   const std::vector<std::filesystem::path>& shards);
  // Throws for those, and UsageError for a plan that the format cannot hold.
  CheckpointWriter(const std::filesystem::path& path, Plan plan);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  const std::vector<StoredTensor>& tensors() const;
  // `offset` in bytes from the tensor's start.
  void write(std::string_view name, std::span<const std::byte> bytes, std::int64_t offset = 0);
  // Throws UsageError, naming each tensor of which a byte was never written; writing may then go
  // on.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace regauge
