#include "element_noise.h"

#include <algorithm>
#include <map>

namespace regauge {
namespace {

constexpr double kNoiseMargin =
    50;                          // times rounding: an element is known about as well as its numbers
constexpr int kFewMatrices = 3;  // fewer may be the same by being zero
constexpr double kLeastNoise = 1e-9, kMostNoise = 0.1;

// Every number is 0, 1 or -1 within the tolerance, and rows and columns have one of the latter.
bool is_signed_permutation(const Matrix<double>& block, double tolerance) {
  const Matrix<double> size = block.cwiseAbs();
  if ((size.array() * (size.array() - 1)).abs().maxCoeff() > tolerance) return false;
  const auto large = (size.array() > 0.5).cast<double>();
  return (large.rowwise().sum() == 1).all() && (large.colwise().sum() == 1).all();
}

}  // namespace

std::set<std::string> spaces_that_stay(const Symmetry& symmetry,
                                       const std::vector<TensorResidual>& in_place) {
  struct Count {
    int same = 0, all = 0;
  };
  std::map<std::string, Count> counts;
  for (const auto& r : in_place) {
    const auto axes = symmetry.tensors.find(r.tensor);
    if (r.single_row || axes == symmetry.tensors.end()) continue;
    for (const Axis* axis : {&axes->second.rows, &axes->second.cols}) {
      for (const AxisPart& part : *axis) {
        if (part.take != AxisPart::Take::whole) continue;
        Count& count = counts[part.space];
        ++count.all;
        if (r.relation <= Relation::a_rounds_b) ++count.same;
      }
    }
  }
  std::set<std::string> stay;
  for (const auto& space : symmetry.spaces) {
    const Count count = counts[space.name];
    const bool alone = space.follows.empty() && !symmetry.index->followers.contains(space.name);
    if (alone && count.all >= kFewMatrices && 2 * count.same > count.all) stay.insert(space.name);
  }
  return stay;
}

Element without_noise(const Symmetry& symmetry, const Element& element, double rounding,
                      const std::set<std::string>& stay) {
  const double tolerance = std::clamp(kNoiseMargin * rounding, kLeastNoise, kMostNoise);
  Element result = element;
  for (const auto& space : stay) result.maps.erase(space);
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
