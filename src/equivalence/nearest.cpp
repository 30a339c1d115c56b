#include "nearest.h"

#include <algorithm>

#include "directions.h"
#include "element_noise.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/recover.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr double kNearer = 2;  // times: what an element has to bring a tensor
constexpr double kNear = 0.5;  // of a size: nearer than what is unrelated
// Multiplications that a verdict may take to apply the element to all of B: about a second's.
constexpr double kPlainWork = 5e10;

bool brings_a_matrix_near(const std::vector<TensorResidual>& in_place,
                          const std::vector<TensorResidual>& moved) {
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const bool nearer = in_place[i].residual > kNearer * moved[i].residual;
    if (!moved[i].single_row && nearer) return true;
  }
  return false;
}

double plain_work(const Architecture& a) {
  return static_cast<double>(parameter_count(a)) * static_cast<double>(a.width);
}

struct Found {
  Recovery recovery;
  std::vector<TensorResidual> residuals;
};

Found find(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
           double rounding, Progress& progress) {
  Found found{recover(symmetry, a, b, rounding, progress), {}};
  found.recovery.a_from_b = without_noise(symmetry, found.recovery.a_from_b, rounding);
  const Element& element = found.recovery.a_from_b;
  found.residuals =
      plain_work(symmetry.architecture) <= kPlainWork
          ? compare(symmetry, element, a, b, progress)
          : estimate(symmetry, element, a, b, directions_seed(a, b, progress), progress);
  return found;
}

}  // namespace

Nearest bring_near(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   Progress& progress) {
  Nearest result;
  result.residuals = compare_in_place(a, b, progress);
  if (all_agree(result.residuals)) return result;
  try {
    // One of the two was made from the other, or both from a third: the noise is that of the one
    // that is coarser only if the finer one was not made from it.
    const double rounding_a = coarsest_rounding(a), rounding_b = coarsest_rounding(b);
    const double finer = std::min(rounding_a, rounding_b),
                 coarser = std::max(rounding_a, rounding_b);
    Found found = find(symmetry, a, b, finer, progress);
    if (!all_agree(found.residuals) && coarser > finer) {
      Found other = find(symmetry, a, b, coarser, progress);
      if (disagreeing(other.residuals) < disagreeing(found.residuals)) found = std::move(other);
    }
    result.limits = found.recovery.limits;
    if (disagreeing(found.residuals) >= disagreeing(result.residuals)) return result;
    // Of a model that was changed where it stands, single rows may fit another element by chance.
    if (!all_agree(found.residuals) && !brings_a_matrix_near(result.residuals, found.residuals)) {
      return result;
    }
    // An element that moves nothing beyond rounding explains nothing.
    auto movements = describe(symmetry, found.recovery.a_from_b, found.residuals, a, b);
    if (movements.empty()) return result;
    result.residuals = std::move(found.residuals);
    result.a_from_b = std::move(found.recovery.a_from_b);
    result.movements = std::move(movements);
  } catch (const NoStandardForm& error) {
    result.limits.emplace_back(error.what());
  }
  return result;
}

bool mostly_near(const std::vector<TensorResidual>& residuals) {
  std::int64_t near = 0, all = 0;
  for (const auto& r : residuals) {
    if (r.single_row) continue;
    ++all;
    if (r.agrees() || r.residual <= kNear * r.size) ++near;
  }
  return 2 * near > all;
}

}  // namespace regauge
