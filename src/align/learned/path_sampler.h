#pragma once

#include <array>
#include <vector>

#include "regauge/base/random.h"

namespace regauge {

// Where on the line to look next: anywhere, and every second time in the tenth whose loss has been
// largest of late.
class PathSampler {
 public:
  explicit PathSampler(std::uint64_t seed);

  double draw();
  void note(double t, double loss);  // the loss found there

  static constexpr std::size_t kParts = 10;
  // Mean losses of late, by part of the line; infinite where none has been seen.
  const std::array<double, kParts>& losses() const { return losses_; }
  // As if `draws` had been drawn and these losses noted.
  void restore(std::int64_t draws, const std::array<double, kParts>& losses);

 private:
  Random random_;
  std::int64_t draws_ = 0;
  std::array<double, kParts> losses_;
};

}  // namespace regauge
