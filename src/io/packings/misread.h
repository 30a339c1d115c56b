#pragma once

#include <memory>
#include <string>
#include <vector>

#include "regauge/io/packing.h"

namespace regauge::io {

// What tools are known to do wrong with codes, scales and zero points.
enum class Misread {
  no_scales,        // the codes are taken as they are
  inverted_scales,  // 1 / scale for the scale
  transposed_scales,
  other_blocks,  // the scale of another block
  other_zeros,
  other_code_order
};

// The same tensors, read with such a mistake.
struct Misreading {
  Misread mistake;
  std::string what;    // "the scales are transposed"; equal for equal mistakes
  bool undoes_itself;  // reading a file that was written with the mistake in this way is right
  std::shared_ptr<const Packing> packing;
};
// Nothing for packings that are not codes and scales. What leaves every number as it is may be
// among them.
std::vector<Misreading> misreadings_of(const Packing& packing);

}  // namespace regauge::io
