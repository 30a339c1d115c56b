#include "regauge/equivalence/compare.h"

#include <algorithm>
#include <cmath>
#include <memory>

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
             TensorResidual& result) const override {
    matrix(tensor, moved, result);
  }
  void judge(const TensorPlan& tensor, const MovedMatrix<double>& moved,
             TensorResidual& result) const override {
    matrix(tensor, moved, result);
  }

  template <class Scalar>
  void matrix(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
              TensorResidual& result) const {
    const std::string& name = tensor.spec.name;
    Whiteness whiteness;
    whiteness.most_hidden = most_hidden(a_, b_, name);
    whiteness.digits = std::is_same_v<Scalar, float> ? kFloatDigits : kDoubleDigits;
    const int axis = axis_of_pieces(tensor.spec, moved);
    if (axis >= 0) {
      whiteness.judge(pieces(tensor, moved, axis), result);
    } else if (const std::int64_t count = slices(tensor.spec); count > 1) {
      whiteness.judge(by_slices(tensor, moved, count), result);
    } else {
      whiteness.judge(slice_of(tensor, moved, moved.variances(), 1, 0), result);
    }
  }

  // One of `count` slices of A, and what is left of it; the only one is all of the matrix.
  template <class Scalar>
  Difference<Scalar> slice_of(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
                              const MovedMatrix<Scalar>& moved_variances, std::int64_t count,
                              std::int64_t slice) const {
    const std::string& name = tensor.spec.name;
    const int axis = tensor.spec.sliced_rows ? 0 : 1;
    const std::int64_t from = moved.source_of(axis, count, slice);
    const std::int64_t at_a = or_all(count, slice), at_b = or_all(count, from);
    Difference<Scalar> result;
    result.a = a_.read<Scalar>(name, at_a);
    result.off = b_.read<Scalar>(name, at_b);
    const auto with_gain = [&](const ParameterSource& source, std::int64_t at,
                               const Matrix<Scalar>& value) {
      const auto share = static_cast<Scalar>(gain_variance(source, name));
      Matrix<Scalar> variances = source.variances<Scalar>(name, at);
      if (share > 0) variances += share * value.cwiseAbs2();
      return variances;
    };
    result.of_a = with_gain(a_, at_a, result.a);
    result.of_b = with_gain(b_, at_b, result.off);
    result.squares_b = result.off.template cast<double>().squaredNorm();
    moved_variances.replay_slice(axis, count, from, result.of_b);
    moved.replay_slice(axis, count, from, result.off);
    take_read_part(tensor, result);
    return result;
  }

  template <class Scalar>
  Pieces<Scalar> by_slices(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
                           std::int64_t count) const {
    const ParameterSpec& spec = tensor.spec;
    const auto variances = std::make_shared<const MovedMatrix<Scalar>>(moved.variances());
    Pieces<Scalar> result;
    result.transposed = !spec.sliced_rows;
    result.rows = spec.sliced_rows ? spec.rows : spec.cols;
    result.cols = spec.sliced_rows ? spec.cols : spec.rows;
    result.for_each = [=, this, &tensor, &moved](const auto& visit) {
      for (std::int64_t slice = 0; slice < count; ++slice) {
        Difference<Scalar> piece = slice_of(tensor, moved, *variances, count, slice);
        if (!tensor.spec.sliced_rows) transpose(piece);
        piece.first = slice * piece.a.rows();
        visit(piece);
      }
    };
    return result;
  }

  template <class Scalar>
  static void transpose(Difference<Scalar>& piece) {
    for (auto* part : {&piece.a, &piece.off, &piece.of_a, &piece.of_b}) part->transposeInPlace();
  }

  // From A and the moved B to what is left of them, as far as it is read.
  template <class Scalar>
  void take_read_part(const TensorPlan& tensor, Difference<Scalar>& difference) const {
    const std::string& name = tensor.spec.name;
    difference.off = difference.a - difference.off;
    difference.a = read_part_.of(name, std::move(difference.a));
    difference.off = read_part_.of(name, std::move(difference.off));
    const double share = constant_share(tensor);
    for (auto* variances : {&difference.of_a, &difference.of_b}) {
      if (share != 1) *variances *= static_cast<Scalar>(share);
      *variances = read_part_.weighed(name, read_part_.weighed(name, std::move(*variances)));
    }
  }

  // The same by pieces of vectors of this axis.
  template <class Scalar>
  Pieces<Scalar> pieces(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
                        int axis) const {
    const ParameterSpec& spec = tensor.spec;
    using Stored = StoredMatrix<Scalar>;
    struct Sources {
      Stored a, b, of_a, of_b;
      MovedMatrix<Scalar> moved_variances;
    };
    const auto variances = [&](const ParameterSource& source) {
      return Stored(source, spec, Stored::Of::variances, gain_variance(source, spec.name));
    };
    const auto from = std::make_shared<const Sources>(Sources{
        Stored(a_, spec), Stored(b_, spec), variances(a_), variances(b_), moved.variances()});
    Pieces<Scalar> result;
    result.transposed = axis == 1;
    result.rows = axis == 0 ? spec.rows : spec.cols;
    result.cols = axis == 0 ? spec.cols : spec.rows;
    result.for_each = [=, this, &tensor, &moved, rows = result.rows](const auto& visit) {
      const std::int64_t most = vectors_in_a_piece(tensor.spec, axis);
      for (std::int64_t first = 0; first < rows; first += most) {
        const std::int64_t count = std::min(most, rows - first);
        Difference<Scalar> piece;
        piece.first = first;
        piece.a = from->a.vectors(first, count);
        piece.off = from->b.vectors(first, count);
        piece.of_a = from->of_a.vectors(first, count);
        piece.of_b = from->of_b.vectors(first, count);
        piece.squares_b = piece.off.template cast<double>().squaredNorm();
        moved.replay(axis, first, piece.off);
        from->moved_variances.replay(axis, first, piece.of_b);
        if (axis == 1) transpose(piece);
        take_read_part(tensor, piece);
        if (axis == 1) transpose(piece);
        visit(piece);
      }
    };
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
    case DType::f8_e4m3:
      return 2.6e-2;
    case DType::f8_e5m2:
      return 5.2e-2;
    case DType::q8_0:
    case DType::q8_1:
    case DType::q8_k:
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
    case DType::iq4_nl:
    case DType::iq4_xs:
      return 9e-2;
    case DType::mxfp4:
    case DType::nvfp4:
      return 0.12;
    case DType::q3_k:
    case DType::iq3_xxs:
    case DType::iq3_s:
      return 0.17;
    case DType::q2_k:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
      return 0.3;
    case DType::q1_0:
    case DType::iq1_s:
    case DType::iq1_m:
      return 0.6;
    case DType::tq1_0:
    case DType::tq2_0:
      return 0.8;
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
  return compare_layers(symmetry, a_from_b, a, b, {}, progress);
}

std::vector<TensorResidual> compare_layers(const Symmetry& symmetry, const Element& a_from_b,
                                           const ParameterSource& a, const ParameterSource& b,
                                           const Layers& only, Progress& progress) {
  return Plainly(symmetry, a_from_b, a, b).run(progress, only);
}

std::int64_t disagreeing(const std::vector<TensorResidual>& residuals) {
  return std::count_if(residuals.begin(), residuals.end(),
                       [](const TensorResidual& r) { return !r.agrees(); });
}

bool all_agree(const std::vector<TensorResidual>& residuals) { return disagreeing(residuals) == 0; }

}  // namespace regauge
