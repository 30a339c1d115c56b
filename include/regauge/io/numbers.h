#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "regauge/io/dtype.h"

namespace regauge {

class Packing;

// A run of numbers as a checkpoint holds them: of one type in a row of bytes, or packed in several
// tensors. A view: valid as long as the checkpoint. All lengths must agree, else UsageError.
class Numbers {
 public:
  // Throws UsageError if the bytes are not whole blocks.
  Numbers(DType dtype, std::span<const std::byte> bytes);
  // `count` numbers, which the parts hold together.
  Numbers(std::shared_ptr<const Packing> packing, std::vector<Numbers> parts, std::int64_t count);

  std::int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }  // DType::packed if several tensors hold the numbers
  // Some of them, whole blocks: those from `first` on.
  Numbers range(std::int64_t first, std::int64_t count) const;

  // Instantiated for float and double.
  template <class Scalar>
  void decode(std::span<Scalar> values) const;

  // What the rounding to the stored type leaves open, number by number; `values` are the decoded
  // numbers. The number that was rounded to values[i] lies in
  // [values[i] - below[i], values[i] + above[i]]. Integers are exact.
  void rounding_bounds(std::span<const double> values, std::span<double> below,
                       std::span<double> above) const;
  // The variance of the rounding error of each number: that of an even distribution over what it
  // leaves open.
  template <class Scalar>
  void rounding_variances(std::span<Scalar> variances) const;
  // Where a number has the first or the last code of its block, the direction in which a quantiser
  // may have cut it off, by any amount: -1 below, 1 above; 0 elsewhere.
  void block_ends(std::span<const double> values, std::span<signed char> ends) const;

  // The bytes; throws UsageError if several tensors hold the numbers.
  std::span<const std::byte> bytes() const;
  // Of every tensor that holds them, whole for packed ones.
  std::vector<std::span<const std::byte>> all_bytes() const;

 private:
  DType dtype_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const Packing> packing_;
  std::shared_ptr<const std::vector<Numbers>> parts_;  // whole, whatever range this is
  std::int64_t first_ = 0;                             // of packed numbers
  std::int64_t count_ = 0;
};

}  // namespace regauge
