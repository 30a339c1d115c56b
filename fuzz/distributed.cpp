#include "io/distributed.h"

#include "io/pieces.h"
#include "regauge/base/error.h"
#include "require.h"

// Metadata are refused with an Error, or name tensors of sizes that are counts, in files of the
// folder; where the pieces tile a tensor of bytes, any of its numbers can be gathered.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace regauge;
  try {
    const std::span<const std::byte> metadata(reinterpret_cast<const std::byte*>(data), size);
    for (const io::DistributedTensor& tensor : io::parse_distributed(metadata, "input")) {
      std::vector<io::PieceInFile> pieces;
      std::int64_t all = 0;
      for (const io::DistributedChunk& chunk : tensor.chunks) {
        REGAUGE_REQUIRE(!chunk.file.empty() && chunk.file.find('/') == std::string::npos);
        REGAUGE_REQUIRE(chunk.offset >= 0 && chunk.bytes >= 0);
        io::TorchTensor view{"", DType::u8, chunk.sizes,
                             std::vector<std::int64_t>(chunk.sizes.size()), 0};
        std::int64_t step = 1;
        for (std::size_t i = chunk.sizes.size(); i-- > 0;) {
          view.strides[i] = step;
          if (__builtin_mul_overflow(step, chunk.sizes[i], &step) || step > 10'000) return 0;
        }
        all += step;
        pieces.push_back({chunk.offsets, std::move(view), 0});
      }
      if (all > 100'000) return 0;
      const StoredTensor stored = io::stored_tensor("x", tensor.shape, pieces, "input");
      REGAUGE_REQUIRE(stored.elements() == all);
      if (stored.pieces == nullptr) continue;
      const std::vector<std::byte> bytes(static_cast<std::size_t>(all), std::byte{7});
      std::vector<Numbers> parts;
      for (const StoredTensor& part : stored.parts) {
        parts.emplace_back(DType::u8, std::span(bytes).first(static_cast<std::size_t>(part.bytes)));
      }
      std::vector<std::byte> gathered(bytes.size());
      stored.pieces->gather(parts, 0, gathered);
      REGAUGE_REQUIRE(gathered == bytes);  // each was written, once
    }
  } catch (const Error&) {
  }
  return 0;
}
