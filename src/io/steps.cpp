#include "steps.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "packings/grouped.h"
#include "quants.h"
#include "rounding.h"

namespace regauge {
namespace {

bool has_blocks(DType dtype) { return is_quantised(dtype) && block_elements(dtype) > 1; }

}  // namespace

StepCount count_steps(DType dtype, std::span<const std::byte> bytes) {
  StepCount count;
  if (!has_blocks(dtype) || codes_are_joint(dtype)) return count;
  const auto size = static_cast<std::size_t>(block_bytes(dtype));
  const std::int64_t elements = block_elements(dtype);
  std::array<io::Run, io::kMostRuns> runs;
  std::int64_t first = 0;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const std::size_t of_block = io::runs_of(dtype, bytes.subspan(at, size), runs.data());
    const std::int64_t length = elements / static_cast<std::int64_t>(of_block);
    for (std::size_t i = 0; i < of_block; ++i, first += length) {
      ++count.blocks;
      if (runs[i].step == 0 || runs[i].used >= 1) continue;
      ++count.unearned;
      if (count.first < 0) count.first = first;
    }
  }
  return count;
}

StepCount count_steps(const Checkpoint& checkpoint, const StoredTensor& tensor) {
  const Numbers numbers = checkpoint.numbers(tensor);
  if (tensor.packing) {
    const auto* grouped = dynamic_cast<const io::Grouped*>(tensor.packing.get());
    return grouped == nullptr ? StepCount{} : grouped->count_steps(numbers.parts());
  }
  StepCount all;
  if (!has_blocks(tensor.dtype)) return all;
  constexpr std::int64_t kPiece = std::int64_t{1} << 24;  // numbers
  std::vector<std::byte> buffer;
  for (std::int64_t at = 0; at < numbers.count(); at += kPiece) {
    const std::int64_t count = std::min(kPiece, numbers.count() - at);
    const StepCount found = count_steps(tensor.dtype, numbers.range(at, count).bytes_in(buffer));
    all.blocks += found.blocks;
    all.unearned += found.unearned;
    if (all.first < 0 && found.first >= 0) all.first = at + found.first;
  }
  return all;
}

}  // namespace regauge
