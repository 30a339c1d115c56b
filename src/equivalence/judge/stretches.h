#pragma once

#include <cstdint>
#include <span>

namespace regauge {

// Two tensors' numbers by stretches of 256, the length of the blocks whose codes are chosen
// jointly. Such a quantiser fits a scale to each block, so that what it writes points where the
// numbers point, however far a single one is off; numbers from elsewhere do not.
class Stretches {
 public:
  void add(std::span<const double> a, std::span<const double> b);
  std::int64_t unlike() const { return unlike_; }
  std::int64_t count() const { return count_; }

 private:
  std::int64_t unlike_ = 0, count_ = 0;
};

}  // namespace regauge
