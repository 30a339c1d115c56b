#pragma once

#include <cstdint>
#include <span>

#include "regauge/arch/parameters.h"

namespace regauge::lab {

// Sound as frames of 32 ms that begin every 16 ms. The numbers of a frame are log(a^2 + 1e-8) at
// `bands` frequencies, equally spaced on the mel scale between 0 and rate / 2, both excluded; a is
// the amplitude of a sine of that frequency, by the DFT under a Hann window. They are centred and
// scaled by fixed numbers, which bring speech to about mean 0 and deviation 1.
class Spectrum {
 public:
  Spectrum(std::int64_t rate, std::int64_t bands);

  // `frames` holds one frame per row. Samples in [-1, 1] that no frame reaches are left out; past
  // their end is silence.
  void operator()(std::span<const float> samples, Eigen::Ref<Matrix<float>> frames) const;

 private:
  std::int64_t window_, step_;  // samples
  Matrix<float> waves_;         // window x (cosines | sines), under the Hann window
};

}  // namespace regauge::lab
