#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "regauge/io/checkpoint.h"
#include "require.h"

namespace regauge::fuzz {

// Every tensor lies inside the file and can be decoded.
inline void check_tensors(std::span<const StoredTensor> tensors, std::span<const std::byte> file) {
  for (const StoredTensor& tensor : tensors) {
    const auto size = static_cast<std::int64_t>(file.size());
    REGAUGE_REQUIRE(tensor.offset >= 0 && tensor.bytes >= 0 && tensor.offset <= size);
    REGAUGE_REQUIRE(tensor.bytes <= size - tensor.offset);
    REGAUGE_REQUIRE(stored_bytes(tensor.dtype, tensor.elements()) == tensor.bytes);
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    decode<float>(tensor.dtype,
                  file.subspan(static_cast<std::size_t>(tensor.offset),
                               static_cast<std::size_t>(tensor.bytes)),
                  values);
  }
}

inline std::vector<StoredTensor*> pointers(std::vector<StoredTensor>& tensors) {
  std::vector<StoredTensor*> result;
  for (StoredTensor& tensor : tensors) result.push_back(&tensor);
  return result;
}

}  // namespace regauge::fuzz
