#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "regauge/io/numbers.h"

namespace regauge {

// How several stored tensors hold the numbers of one: codes and their scales, a matrix and what an
// adapter adds to it, the pieces that several processes have written. `parts` are those tensors,
// whole, in the order that the packing expects; shapes are checked when it is made. Row-major.
class Packing {
 public:
  virtual ~Packing() = default;

  // What it is, in words that go behind a tensor's shape: "F8_E4M3 with a scale for each block of
  // 128 x 128". Two packings of one name round alike.
  virtual std::string name() const = 0;
  // A typical relative root mean square error of the rounding.
  virtual double typical_rounding() const = 0;
  // The plain type that holds the numbers as well as this does; none if a quantiser rounded them.
  virtual std::optional<DType> plain_type() const { return std::nullopt; }
  // The numbers are calculated from what is stored, so that equal ones may be stored in many ways,
  // each rounded by itself.
  virtual bool is_calculated() const { return false; }
  // The numbers are wider than a float.
  virtual bool in_double() const { return false; }

  // The numbers from `first` on, bit for bit as the format's own reader makes them in float.
  virtual void decode(std::span<const Numbers> parts, std::int64_t first,
                      std::span<float> values) const = 0;
  virtual void decode(std::span<const Numbers> parts, std::int64_t first,
                      std::span<double> values) const;
  // As Numbers::rounding_bounds.
  virtual void rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                               std::span<const double> values, std::span<double> below,
                               std::span<double> above) const = 0;
  // As Numbers::rounding_variances, which count where an element mixes numbers; from the bounds
  // unless a packing says otherwise.
  virtual void rounding_variances(std::span<const Numbers> parts, std::int64_t first,
                                  std::span<const double> values,
                                  std::span<double> variances) const;
  // As Numbers::block_ends; nothing is cut off unless a packing says so.
  virtual void block_ends(std::span<const Numbers> parts, std::int64_t first,
                          std::span<const double> values, std::span<signed char> ends) const;
};

}  // namespace regauge
