#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "regauge/equivalence/compare.h"

namespace regauge {

// Numbers of two tensors, one by one, each with what its rounding leaves open.
class Entries {
 public:
  struct Number {
    double value = 0;
    double below = 0, above = 0;  // what was rounded lies in [value - below, value + above]
  };

  void add(const Number& a, const Number& b);
  void add_equal(const Matrix<double>& values);
  // No relation holds by far, whatever else comes: then numbers do without their rounding.
  bool certainly_differ() const;
  void add_values(std::span<const double> a, std::span<const double> b);
  // Sets everything but the tensor's name. Of one type, the two are equal or they differ. Roundings
  // of a third that are more than `most_hidden` of the tensor say too little.
  void judge(bool one_type, double most_hidden, TensorResidual& result) const;

 private:
  std::int64_t count_ = 0, unequal_ = 0;
  double squares_ = 0, squared_residual_ = 0;
  std::int64_t with_room_ = 0;      // numbers that came with their rounding
  double room_a_ = 0, room_b_ = 0;  // variances of these
  // The largest difference in units of what each relation allows.
  double b_rounds_a_ = 0, a_rounds_b_ = 0, both_round_ = 0;
};

}  // namespace regauge
