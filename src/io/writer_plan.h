#pragma once

#include <string>

#include "partial.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge::io {

// A folder, not a single file, is written at this path.
bool is_folder(const CheckpointWriter::Plan& plan, const std::filesystem::path& path);

// Names of shards, tensors and config, as CheckpointWriter says. Throws UsageError.
void check_plan(CheckpointWriter::Plan& plan, bool folder);

// What precedes the tensors of a shard; they get their offsets. And the length of the whole file.
std::string lay_out_shard(CheckpointWriter::Plan& plan, std::int64_t shard, bool folder);
std::int64_t shard_bytes(const CheckpointWriter::Plan& plan, std::int64_t shard,
                         std::size_t header);

// The config, the index and the companions of a folder whose shards are there.
void write_beside_shards(const CheckpointWriter::Plan& plan, const PartialPath& folder);

}  // namespace regauge::io
