#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "regauge/io/dtype.h"

namespace regauge::io {

// Whole blocks of a quantised type as floats, bit for bit as gguf-py's gguf.quants.dequantize, or
// as llama.cpp's dequantize_row_* where it has none (Q8_K, Q1_0; Q8_1, which is not stored, as
// Q8_0).
void dequantise(DType dtype, std::span<const std::byte> bytes, float* values);

// Consecutive numbers of a block that share a scale: number = origin + step * code, where codes are
// all integers from the first to the last or, if there are any, the `levels`, which ascend.
struct Run {
  float step = 0;
  float origin = 0;
  int first_code = 0, last_code = 0;
  std::span<const std::int8_t> levels;
  // The share of the step that the codes need: 1 where they use their range as the format's own
  // quantiser makes them do, else the share of the range that they use.
  double used = 1;
  // How far beyond the first and the last code numbers may have been cut off.
  double cut_first = 0, cut_last = 0;
  // What F16 rounds off step and origin where the codes were chosen before; 0 where they were
  // chosen after.
  double step_error = 0, origin_error = 0;
};
inline constexpr std::size_t kMostRuns = 32;
// The runs of one block, all of one length; returns how many.
std::size_t runs_of(DType dtype, std::span<const std::byte> block, Run* runs);

}  // namespace regauge::io
