#include "spectrum.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace regauge::lab {
namespace {

constexpr float kFloor = 1e-8F;
constexpr float kMean = -14.4F, kDeviation = 3.5F;  // of the Free Spoken Digit Dataset

double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

}  // namespace

Spectrum::Spectrum(std::int64_t rate, std::int64_t bands)
    : window_(rate * 32 / 1000), step_(rate * 16 / 1000), waves_(window_, 2 * bands) {
  const double turn = 2 * std::numbers::pi;
  const auto length = static_cast<double>(window_);
  for (std::int64_t k = 0; k < bands; ++k) {
    const double share = static_cast<double>(k + 1) / static_cast<double>(bands + 1);
    const double frequency = hertz(share * mel(static_cast<double>(rate) / 2));
    for (std::int64_t t = 0; t < window_; ++t) {
      const auto time = static_cast<double>(t);
      // The window adds up to length / 2, and a sine shares its amplitude with its mirror image.
      const double hann = (1 - std::cos(turn * time / length)) / 2 * 4 / length;
      const double angle = turn * frequency * time / static_cast<double>(rate);
      waves_(t, k) = static_cast<float>(hann * std::cos(angle));
      waves_(t, bands + k) = static_cast<float>(hann * std::sin(angle));
    }
  }
}

void Spectrum::operator()(std::span<const float> samples, Eigen::Ref<Matrix<float>> frames) const {
  Matrix<float> cut = Matrix<float>::Zero(frames.rows(), window_);
  const auto end = static_cast<std::int64_t>(samples.size());
  for (std::int64_t i = 0; i < frames.rows() && i * step_ < end; ++i) {
    const auto frame = samples.subspan(static_cast<std::size_t>(i * step_));
    const auto length = std::min(static_cast<std::int64_t>(frame.size()), window_);
    cut.row(i).head(length) = Eigen::Map<const Eigen::RowVectorXf>(frame.data(), length);
  }
  const Matrix<float> parts = cut * waves_;
  const auto cosines = parts.leftCols(frames.cols()), sines = parts.rightCols(frames.cols());
  const auto power = cosines.array().square() + sines.array().square();
  frames = ((power + kFloor).log() - kMean) / kDeviation;
}

}  // namespace regauge::lab
