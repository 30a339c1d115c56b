#include "regauge/io/quantisation.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "quants.h"
#include "regauge/base/error.h"

namespace regauge {

double quantisation_error(DType dtype, std::span<const std::byte> bytes) {
  if (!is_quantised(dtype)) {
    throw UsageError(fmt::format("[dtype] {} has no blocks", dtype_name(dtype)));
  }
  const auto block = static_cast<std::size_t>(block_bytes(dtype));
  std::vector<float> values(static_cast<std::size_t>(block_elements(dtype)));
  double squares = 0;
  for (std::size_t at = 0; at + block <= bytes.size(); at += block) {
    io::dequantise(dtype, bytes.subspan(at, block), values.data());
    for (const float value : values) squares += static_cast<double>(value) * value;
  }
  return squares > 0 ? std::sqrt(io::squared_steps(dtype, bytes) / (12 * squares)) : 0;
}

}  // namespace regauge
