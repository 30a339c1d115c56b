#include "nearest.h"

#include <algorithm>

#include "regauge/base/error.h"
#include "regauge/equivalence/recover.h"

namespace regauge {
namespace {

constexpr double kNearer = 2;  // times: what an element has to bring a tensor
constexpr double kNear = 0.5;  // of a size: nearer than what is unrelated

// Of what the element brings no nearer than it stood, no more is accepted than of what nothing
// moves: a change is no move.
void hold_what_stood(const std::vector<TensorResidual>& in_place,
                     std::vector<TensorResidual>& moved) {
  for (std::size_t i = 0; i < moved.size(); ++i) {
    // A moved map is weighed as it is read.
    const bool sized = in_place[i].size > 0 && moved[i].size > 0;
    const double unit = sized ? moved[i].size / in_place[i].size : 1;
    const bool nearer = in_place[i].residual * unit > kNearer * moved[i].residual;
    if (nearer) continue;
    if (!moved[i].single_row) {
      moved[i].in_place = true;
    } else if (!in_place[i].agrees()) {
      moved[i] = in_place[i];
    }
  }
}

bool brings_a_matrix_near(const std::vector<TensorResidual>& held) {
  return std::any_of(held.begin(), held.end(),
                     [](const TensorResidual& r) { return !r.single_row && !r.in_place; });
}

}  // namespace

Nearest bring_near(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   Progress& progress) {
  Nearest result;
  result.residuals = compare_in_place(a, b, progress);
  if (all_agree(result.residuals)) return result;
  try {
    Recovery recovery = recover(symmetry, a, b, progress);
    result.limits = recovery.limits;
    auto residuals = estimate(symmetry, recovery.a_from_b, a, b, progress);
    hold_what_stood(result.residuals, residuals);
    if (disagreeing(residuals) >= disagreeing(result.residuals)) return result;
    // Of a model that was changed where it stands, single rows may fit another element by chance.
    if (!all_agree(residuals) && !brings_a_matrix_near(residuals)) return result;
    // An element that moves nothing beyond rounding explains nothing.
    auto movements = describe(symmetry, recovery.a_from_b, residuals, a, b);
    if (movements.empty()) return result;
    result.residuals = std::move(residuals);
    result.a_from_b = std::move(recovery.a_from_b);
    result.movements = std::move(movements);
  } catch (const UsageError& error) {
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
