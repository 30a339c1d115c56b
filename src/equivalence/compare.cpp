#include "regauge/equivalence/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "regauge/action/executor.h"
#include "rounding.h"

namespace regauge {
namespace {

// Residuals of rewritten models stay below 3 times the rounding of a matrix, and 8 times that of a
// single row, which may take up the errors of several matrices.
constexpr double kAccepted = 6;
constexpr double kAcceptedRow = 16;
constexpr double kAcceptedInPlace = 3;  // of a matrix that no element moves

class Comparison {
 public:
  Comparison(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
             const ParameterSource& b, int draw)
      : draw_(draw),
        a_(a),
        b_(b),
        rounding_a_(a),
        rounding_b_(b),
        shaken_element_(
            shaken(a_from_b, draw, std::max(rounding_a_.coarsest(), rounding_b_.coarsest()))),
        exact_(symmetry, a_from_b),
        shaken_(symmetry, shaken_element_) {}

  void run(const LayerPlan& layer, std::map<std::string, TensorResidual>& results,
           Progress& progress) {
    const auto read = [&](const TensorPlan& tensor) { return b_.read<double>(tensor.spec.name); };
    exact_.begin(layer, read);
    shaken_.begin(layer, [&](const TensorPlan& tensor) {
      return shaken<double>(tensor.spec.name, draw_, read(tensor), rounding_b_.of(tensor));
    });
    for (const auto& tensor : layer.matrices) {
      const std::string& name = tensor.spec.name;
      const bool in_double = wide(a_.stored(name)) || wide(b_.stored(name));
      results[name] = in_double ? matrix<double>(tensor) : matrix<float>(tensor);
      progress.advance(tensor.spec.rows * tensor.spec.cols);
    }
    const auto moved = exact_.finish(layer);
    const auto moved_noisy = shaken_.finish(layer);
    for (const auto& tensor : layer.vectors) {
      const std::string& name = tensor.spec.name;
      const Matrix<double>& value = moved.at(name);
      results[name] = residual<double>(tensor, value, rms<double>(moved_noisy.at(name) - value));
    }
  }

 private:
  static bool wide(const StoredTensor* tensor) {
    return tensor == nullptr || works_in_double(tensor->dtype);
  }

  template <class Scalar>
  TensorResidual matrix(const TensorPlan& tensor) {
    Matrix<Scalar> value = b_.read<Scalar>(tensor.spec.name);
    const double rounding = rounding_b_.of(tensor);
    const double stored = rms(value);
    if (!tensor.touched()) {
      TensorResidual result = residual(tensor, value, rounding * stored);
      result.in_place = true;
      result.blind = is_mostly_rounding(result.rounding, result.size, stored);
      return result;
    }
    Matrix<Scalar> noisy = shaken(tensor.spec.name, draw_, value, rounding);
    exact_.transform(tensor, value);
    shaken_.transform(tensor, noisy);
    noisy -= value;
    TensorResidual result = residual(tensor, value, rms(noisy));
    result.blind = is_mostly_rounding(result.rounding, result.size, stored);
    return result;
  }

  template <class Scalar>
  TensorResidual residual(const TensorPlan& tensor, const Matrix<Scalar>& moved,
                          double moved_rounding) const {
    const Matrix<Scalar> expected = a_.read<Scalar>(tensor.spec.name);
    TensorResidual result;
    result.tensor = tensor.spec.name;
    result.single_row = expected.rows() == 1;
    result.size = rms(expected);
    result.residual = rms<Scalar>(expected - moved);
    result.rounding = std::hypot(rounding_a_.of(tensor) * result.size, moved_rounding);
    return result;
  }

  int draw_;
  const ParameterSource& a_;
  const ParameterSource& b_;
  Rounding rounding_a_;
  Rounding rounding_b_;
  Element shaken_element_;
  Executor exact_;
  Executor shaken_;
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
  const double accepted = single_row ? kAcceptedRow : in_place ? kAcceptedInPlace : kAccepted;
  return residual / (accepted * rounding);
}

std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress) {
  return compare_by_draws([&](int draw) {
    const Plan plan = make_plan(symmetry, a_from_b);
    Comparison comparison(symmetry, a_from_b, a, b, draw);
    std::map<std::string, TensorResidual> results;
    progress.start("comparing", parameter_count(symmetry.architecture));
    for (const auto& layer : plan.layers) comparison.run(layer, results, progress);
    progress.finish();
    std::vector<TensorResidual> ordered;
    for (const auto& spec : parameter_specs(symmetry.architecture)) {
      ordered.push_back(results.at(spec.name));
    }
    return ordered;
  });
}

bool all_agree(const std::vector<TensorResidual>& residuals) {
  for (const auto& residual : residuals) {
    if (!residual.agrees()) return false;
  }
  return true;
}

}  // namespace regauge
