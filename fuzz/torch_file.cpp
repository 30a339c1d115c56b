#include "io/torch_file.h"

#include <algorithm>

#include "regauge/base/error.h"
#include "require.h"

// A file is refused with an Error, or each element of each of its tensors lies inside it.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  try {
    for (const io::TorchTensor& tensor : io::parse_torch_file(file, "input")) {
      const bool empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
      std::int64_t last = tensor.offset;
      const std::int64_t width = stored_bytes(tensor.dtype, 1);
      for (std::size_t i = 0; i < tensor.shape.size() && !empty; ++i) {
        REGAUGE_REQUIRE(tensor.strides[i] >= 0);
        last += (tensor.shape[i] - 1) * tensor.strides[i] * width;
      }
      const std::int64_t end = empty ? last : last + width;
      REGAUGE_REQUIRE(tensor.offset >= 0 && end <= static_cast<std::int64_t>(size));
      const std::int64_t bytes = tensor.bytes();
      REGAUGE_REQUIRE(!tensor.is_contiguous() || empty || tensor.offset + bytes == end);
    }
  } catch (const Error&) {
  }
  return 0;
}
