#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "regauge/io/packing.h"

namespace regauge::io {

// number = code * scale: codes of any type as a matrix of `rows` x `cols` (or several, one below
// another) and a scale for each block of `block_rows` x `block_cols` of it, row-major; the blocks
// at the right and at the bottom edge may be cut. Parts: codes, scales.
class Scaled : public Packing {
 public:
  struct Blocks {
    std::int64_t rows, cols;  // of the matrix
    std::int64_t block_rows, block_cols;
    std::int64_t across() const { return (cols + block_cols - 1) / block_cols; }
    std::int64_t down() const { return (rows + block_rows - 1) / block_rows; }
  };
  Scaled(DType codes, Blocks blocks) : codes_(codes), blocks_(blocks) {}

  std::string name() const override;
  double typical_rounding() const override;
  using Packing::decode;
  void decode(std::span<const Numbers> parts, std::int64_t first,
              std::span<float> values) const override;
  void rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                       std::span<const double> values, std::span<double> below,
                       std::span<double> above) const override;

 private:
  DType codes_;
  Blocks blocks_;
};

}  // namespace regauge::io
