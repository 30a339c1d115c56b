#include "adam.h"

#include <cmath>

namespace regauge {
namespace {

constexpr double kMean = 0.9, kSquare = 0.99;
// Slopes below this are noise of the loss's own rounding and must not be blown up to steps.
constexpr double kSmall = 1e-5;

}  // namespace

Matrix<double> Adam::direction(const Matrix<double>& slope) {
  if (mean.size() == 0) {
    mean.setZero(slope.rows(), slope.cols());
    square.setZero(slope.rows(), slope.cols());
  }
  ++steps;
  mean = kMean * mean + (1 - kMean) * slope;
  square = kSquare * square + (1 - kSquare) * slope.cwiseAbs2();
  if (one_square_) square.setConstant(square.mean());
  const double bias = 1 - std::pow(kMean, static_cast<double>(steps));
  const double square_bias = 1 - std::pow(kSquare, static_cast<double>(steps));
  return -(mean.array() / bias) / ((square.array() / square_bias).sqrt() + kSmall);
}

}  // namespace regauge
