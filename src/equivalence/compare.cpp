#include "regauge/equivalence/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "comparison.h"

namespace regauge {
namespace {

// Residuals of rewritten models stay below 3 times the rounding of a matrix, and 8 times that of a
// single row, which may take up the errors of several matrices.
constexpr double kAccepted = 6;
constexpr double kAcceptedRow = 16;
constexpr double kAcceptedInPlace = 3;  // of a matrix that no element moves
constexpr double kMostAccepted = 0.6;   // of a moved matrix' size, however large its rounding

// The element applied to all of B.
class Plainly : public Comparison {
 public:
  using Comparison::Comparison;

 private:
  TensorResidual in_float(const TensorPlan& tensor) override { return matrix<float>(tensor); }
  TensorResidual in_double(const TensorPlan& tensor) override { return matrix<double>(tensor); }

  template <class Scalar>
  TensorResidual matrix(const TensorPlan& tensor) {
    Matrix<Scalar> value = models_.b.read<Scalar>(tensor.spec.name);
    const double rounding = models_.rounding_b.of(tensor);
    const double stored = rms(value);
    if (!tensor.touched()) {
      TensorResidual result = residual(tensor, value, rounding * stored);
      result.in_place = true;
      result.blind = is_mostly_rounding(result, stored);
      return result;
    }
    Matrix<Scalar> noisy = shaken(tensor.spec.name, draw_, value, rounding);
    exact_.transform(tensor, value);
    shaken_.transform(tensor, noisy);
    noisy -= value;
    noisy = models_.read_part.of(tensor.spec.name, std::move(noisy));
    TensorResidual result = residual(tensor, value, rms(noisy));
    result.blind = is_mostly_rounding(result, stored);
    return result;
  }

  template <class Scalar>
  TensorResidual residual(const TensorPlan& tensor, const Matrix<Scalar>& moved,
                          double moved_rounding) const {
    const std::string& name = tensor.spec.name;
    const Matrix<Scalar> expected = models_.a.read<Scalar>(name);
    TensorResidual result;
    result.tensor = name;
    double stored = 0;
    if (tensor.touched()) {
      const ReadPart& read = models_.read_part;
      stored = rms(read.weighed(name, expected));
      result.size = rms(read.of(name, expected));
      result.residual = rms(read.of<Scalar>(name, expected - moved));
    } else {
      result.size = stored = rms(expected);
      result.residual = rms<Scalar>(expected - moved);
    }
    result.rounding = std::hypot(models_.rounding_a.of(tensor) * stored, moved_rounding);
    return result;
  }
};

}  // namespace

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;  // not its rounding but that of the arithmetic
    case DType::f32:
      return 1.7e-8;
    case DType::f16:
      return 1.4e-4;
    case DType::bf16:
      return 1.1e-3;
    case DType::q8_0:
      return 6e-3;
    case DType::q6_k:
      return 2e-2;
    case DType::q5_0:
    case DType::q5_1:
    case DType::q5_k:
      return 4e-2;
    case DType::q4_0:
    case DType::q4_1:
    case DType::q4_k:
      return 9e-2;
    default:
      return 0;
  }
}

double TensorResidual::excess() const {
  if (residual == 0) return 0;
  if (!std::isfinite(residual) || !std::isfinite(rounding) || blind) {
    return std::numeric_limits<double>::infinity();
  }
  if (single_row) return residual / (kAcceptedRow * rounding);
  if (in_place) return residual / (kAcceptedInPlace * rounding);
  const double accepted = kAccepted * rounding;
  return residual / (size > 0 ? std::min(accepted, kMostAccepted * size) : accepted);
}

std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress) {
  return compare_by<Plainly>(symmetry, a_from_b, a, b, progress);
}

std::int64_t disagreeing(const std::vector<TensorResidual>& residuals) {
  return std::count_if(residuals.begin(), residuals.end(),
                       [](const TensorResidual& r) { return !r.agrees(); });
}

bool all_agree(const std::vector<TensorResidual>& residuals) { return disagreeing(residuals) == 0; }

}  // namespace regauge
