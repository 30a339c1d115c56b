#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "torch_file.h"

namespace regauge::io {

inline constexpr const char* kDistributedFile = ".metadata";

// A box of a tensor that one process has written: bytes of a file beside, which are what torch.save
// writes of it alone.
struct DistributedChunk {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::string file;  // a plain name
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
struct DistributedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<DistributedChunk> chunks;
};

// The state dict of the model of a checkpoint of torch.distributed.checkpoint, of whose folder this
// is the file .metadata: the tensors at its top, or else those under a key that trainers use.
// Values that are no tensors are left. Whether the chunks make up the tensors is not checked.
// Throws CorruptFile, and UsageError for what is not read.
std::vector<DistributedTensor> parse_distributed(std::span<const std::byte> metadata,
                                                 const std::string& where);

// What a chunk of the tensor of this name holds; `file` is the whole file. Throws CorruptFile, and
// UsageError for what is not read.
TorchTensor parse_chunk(const ByteRange& file, const DistributedChunk& chunk,
                        const std::string& name);

}  // namespace regauge::io
