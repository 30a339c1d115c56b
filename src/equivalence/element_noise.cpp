#include "element_noise.h"

#include <algorithm>

namespace regauge {
namespace {

constexpr double kNoiseMargin =
    50;  // times rounding: an element is known about as well as its numbers
constexpr double kLeastNoise = 1e-9, kMostNoise = 0.1;

// Every number is 0, 1 or -1 within the tolerance, and rows and columns have one of the latter.
bool is_signed_permutation(const Matrix<double>& block, double tolerance) {
  const Matrix<double> size = block.cwiseAbs();
  if ((size.array() * (size.array() - 1)).abs().maxCoeff() > tolerance) return false;
  const auto large = (size.array() > 0.5).cast<double>();
  return (large.rowwise().sum() == 1).all() && (large.colwise().sum() == 1).all();
}

}  // namespace

Element without_noise(const Symmetry& symmetry, const Element& element, double rounding) {
  const double tolerance = std::clamp(kNoiseMargin * rounding, kLeastNoise, kMostNoise);
  Element result = element;
  for (const auto& space : symmetry.spaces) {
    const auto found = result.maps.find(space.name);
    if (found == result.maps.end() || !found->second.has_blocks()) continue;
    BlockMap<double>& map = found->second;
    bool exact = true;
    Matrix<double> blocks = map.blocks();
    for (std::int64_t i = 0; i < map.count() && exact; ++i) {
      auto block = blocks.middleRows(i * map.width(), map.width());
      exact = is_signed_permutation(block, tolerance);
      if (exact) block = block.array().round().matrix().eval();
    }
    if (!exact) continue;
    const bool identity = [&] {
      for (std::int64_t i = 0; i < map.count(); ++i) {
        if (!blocks.middleRows(i * map.width(), map.width()).isIdentity(0)) return false;
      }
      return true;
    }();
    map = BlockMap<double>(map.count(), map.width(), map.permutation(),
                           identity ? Matrix<double>() : blocks);
    if (map.is_identity() && space.follows.empty()) result.maps.erase(space.name);
  }
  return result;
}

}  // namespace regauge
