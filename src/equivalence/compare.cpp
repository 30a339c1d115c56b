#include "regauge/equivalence/compare.h"

#include <algorithm>
#include <cmath>

#include "comparison.h"
#include "whiteness.h"

namespace regauge {
namespace {

// The element applied to all of B.
class Plainly : public Comparison {
 public:
  using Comparison::Comparison;

 private:
  void judge(const TensorPlan& tensor, const MovedMatrix<float>& moved,
             TensorResidual& result) override {
    matrix(tensor, moved, result);
  }
  void judge(const TensorPlan& tensor, const MovedMatrix<double>& moved,
             TensorResidual& result) override {
    matrix(tensor, moved, result);
  }

  template <class Scalar>
  void matrix(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved, TensorResidual& result) {
    const std::string& name = tensor.spec.name;
    Matrix<Scalar> expected = a_.read<Scalar>(name);
    Matrix<Scalar> off = b_.read<Scalar>(name);
    Whiteness whiteness;
    whiteness.size_b = rms(off);
    const auto with_gain = [&](const ParameterSource& source, const Matrix<Scalar>& value) {
      const auto share = static_cast<Scalar>(gain_variance(source, name));
      Matrix<Scalar> variances = source.variances<Scalar>(name);
      variances *= static_cast<Scalar>(constant_share(tensor));
      if (share > 0) variances += share * value.cwiseAbs2();
      return variances;
    };
    Matrix<Scalar> of_a = with_gain(a_, expected);
    Matrix<Scalar> of_b = with_gain(b_, off);
    moved.replay_squared(of_b);
    moved.replay(off);
    off = expected - off;
    expected = read_part_.of(name, std::move(expected));
    off = read_part_.of(name, std::move(off));
    whiteness.size = rms(expected);
    whiteness.most_hidden = most_hidden(a_, b_, name);
    whiteness.digits = std::is_same_v<Scalar, float> ? kFloatDigits : kDoubleDigits;
    const auto weighed_twice = [&](Matrix<Scalar> variances) {
      return read_part_.weighed(name, read_part_.weighed(name, std::move(variances)));
    };
    of_a = weighed_twice(std::move(of_a));
    of_b = weighed_twice(std::move(of_b));
    whiteness.judge(std::move(expected), off, of_a, of_b, result);
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

std::string_view relation_name(Relation relation) {
  switch (relation) {
    case Relation::equal:
      return "equal";
    case Relation::b_rounds_a:
      return "b-rounds-a";
    case Relation::a_rounds_b:
      return "a-rounds-b";
    case Relation::both_round:
      return "both-round";
    case Relation::hidden:
      return "hidden";
    case Relation::differs:
      return "differs";
  }
  return "";
}

std::vector<TensorResidual> compare(const Symmetry& symmetry, const Element& a_from_b,
                                    const ParameterSource& a, const ParameterSource& b,
                                    Progress& progress) {
  return Plainly(symmetry, a_from_b, a, b).run(progress);
}

std::int64_t disagreeing(const std::vector<TensorResidual>& residuals) {
  return std::count_if(residuals.begin(), residuals.end(),
                       [](const TensorResidual& r) { return !r.agrees(); });
}

bool all_agree(const std::vector<TensorResidual>& residuals) { return disagreeing(residuals) == 0; }

}  // namespace regauge
