// The parts of the judge, each with what it must accept and what it must not.
#include <gtest/gtest.h>

#include <stdexcept>

#include "equivalence/element_noise.h"
#include "equivalence/honest_copy.h"
#include "equivalence/judge/chance.h"
#include "equivalence/judge/whiteness.h"
#include "numerics/decompositions.h"
#include "regauge/action/act.h"
#include "symmetry/architectures.h"
#include "written.h"

namespace regauge {
namespace {

Matrix<double> noise(std::int64_t rows, std::int64_t cols, const std::string& name) {
  Random random(7, name);
  Matrix<double> result(rows, cols);
  for (auto& entry : result.reshaped()) entry = random.normal();
  return result;
}

TEST(Chance, BoundsWhatIndependentNumbersDoAndNotMuchMore) {
  double entry = 0, row = 0, singular = 0;
  constexpr std::int64_t kRows = 40, kCols = 30;
  for (int draw = 0; draw < 300; ++draw) {
    const Matrix<double> x = noise(kRows, kCols, std::to_string(draw));
    entry = std::max(entry, x.cwiseAbs().maxCoeff());
    row = std::max(row, x.rowwise().norm().maxCoeff() / std::sqrt(double{kCols}));
    singular = std::max(singular, std::sqrt(eigenvalues(x * x.transpose()).maxCoeff()));
  }
  for (const auto& [bound, seen] :
       {std::pair{largest_of(kRows * kCols), entry}, std::pair{largest_rms_of(kRows, kCols), row},
        std::pair{singular_by_chance(kRows, kCols), singular}}) {
    EXPECT_LT(seen, bound);
    EXPECT_GT(seen, bound / 1.6);
  }
}

class Edits : public ::testing::Test {
 protected:
  // A tensor of size 1 beside a copy with rounding of variance 1e-4 and `change`.
  TensorResidual judged(const Matrix<double>& change) const {
    const Difference<double> all{.a = noise(kRows, kCols, "a"),
                                 .off = 0.01 * noise(kRows, kCols, "off") + change,
                                 .of_a = nothing,
                                 .of_b = Matrix<double>::Constant(kRows, kCols, 1e-4)};
    TensorResidual result;
    Whiteness().judge(all, result);
    for (const bool transposed : {false, true}) expect_the_same_by_pieces(all, transposed, result);
    return result;
  }
  // Of rows or of columns.
  static void expect_the_same_by_pieces(const Difference<double>& all, bool transposed,
                                        const TensorResidual& expected) {
    constexpr Eigen::Index kMost = 7;
    const auto vectors = [&](const Matrix<double>& m, Eigen::Index first, Eigen::Index count) {
      return transposed ? Matrix<double>(m.middleCols(first, count).transpose())
                        : Matrix<double>(m.middleRows(first, count));
    };
    Pieces<double> pieces{kRows, kCols, transposed, {}};
    if (transposed) std::swap(pieces.rows, pieces.cols);
    pieces.for_each = [&](const auto& visit) {
      for (Eigen::Index first = 0; first < pieces.rows; first += kMost) {
        const Eigen::Index count = std::min(kMost, pieces.rows - first);
        Difference<double> piece{first,
                                 vectors(all.a, first, count),
                                 vectors(all.off, first, count),
                                 vectors(all.of_a, first, count),
                                 vectors(all.of_b, first, count),
                                 0};
        visit(piece);
      }
    };
    TensorResidual result;
    Whiteness().judge(pieces, result);
    EXPECT_EQ(result.relation, expected.relation);
    EXPECT_EQ(result.standing_out, expected.standing_out);
    if (std::isnan(expected.residual)) return;
    EXPECT_NEAR(result.residual, expected.residual, 1e-12);
    EXPECT_NEAR(result.rounding, expected.rounding, 1e-12);
    // The powers begin elsewhere.
    EXPECT_NEAR(result.excess / expected.excess, 1, 0.02);
  }
  static constexpr std::int64_t kRows = 200, kCols = 150;
  const Matrix<double> nothing = Matrix<double>::Zero(kRows, kCols);
};

TEST_F(Edits, RoundingAgrees) {
  const TensorResidual result = judged(nothing);
  EXPECT_EQ(result.relation, Relation::b_rounds_a) << result.excess << result.standing_out;
  EXPECT_NEAR(result.residual / result.rounding, 1, 0.02);
}

TEST_F(Edits, ALargeEntryStandsOut) {
  Matrix<double> change = nothing;
  change(17, 3) = 0.15;  // 0.0009 of the tensor
  EXPECT_EQ(judged(change).relation, Relation::differs);
}

TEST_F(Edits, WhatIsNoNumberDiffers) {
  Matrix<double> change = nothing;
  change(17, 3) = std::nan("");
  EXPECT_EQ(judged(change).relation, Relation::differs);
}

TEST_F(Edits, ARowStandsOut) {
  Matrix<double> change = nothing;
  change.row(5) = 0.03 * noise(1, kCols, "row");
  EXPECT_EQ(judged(change).standing_out, "row 5");
}

TEST_F(Edits, AColumnStandsOut) {
  Matrix<double> change = nothing;
  change.col(8) = 0.03 * noise(kRows, 1, "column");
  EXPECT_EQ(judged(change).standing_out, "column 8");
}

TEST_F(Edits, ADirectionStandsOutFarBelowTheRounding) {
  const Matrix<double> rank_one = noise(kRows, 1, "x") * noise(1, kCols, "y");
  const TensorResidual result = judged(0.01 * rank_one / 3);  // a third of the rounding
  EXPECT_EQ(result.relation, Relation::differs);
  EXPECT_EQ(result.standing_out, "one direction");
}

TEST_F(Edits, ADirectionAtRightAnglesToKnownVectorsStandsOut) {
  // All that powers of the rounding make of the vectors that a constant seed would give.
  const Matrix<double> off = 0.01 * noise(kRows, kCols, "off");
  Random random(0, "direction");
  Matrix<double> x(kCols, 4);
  for (auto& entry : x.reshaped()) entry = random.normal();
  Matrix<double> reached(kCols, 0);
  for (int power = 0; power < 7; ++power) {
    x = x.colwise().normalized().eval();
    reached.conservativeResize(Eigen::NoChange, reached.cols() + 4);
    reached.rightCols(4) = x;
    x = (off.transpose() * (off * x)).eval();
  }
  const auto beside = [](const Matrix<double>& vector, const Matrix<double>& columns) {
    const Matrix<double> basis = svd(columns).u;
    const Matrix<double> rest = vector - basis * (basis.transpose() * vector);
    return Matrix<double>(rest / rest.norm());
  };
  const Matrix<double> v = beside(noise(kCols, 1, "v"), reached);
  const Matrix<double> u = beside(noise(kRows, 1, "u"), off * reached);
  const double size = 3 * 0.01 * singular_by_chance(kRows, kCols);
  const TensorResidual result = judged(size * u * v.transpose());
  EXPECT_EQ(result.relation, Relation::differs);
  EXPECT_EQ(result.standing_out, "one direction");
}

TEST_F(Edits, WhatIsOfTheSizeOfTheTensorIsNeverAccepted) {
  TensorResidual result;
  Whiteness().judge(Difference<double>{.a = noise(kRows, kCols, "a"),
                                       .off = 0.1 * noise(kRows, kCols, "off"),
                                       .of_a = nothing,
                                       .of_b = Matrix<double>::Constant(kRows, kCols, 0.01)},
                    result);
  EXPECT_EQ(result.relation, Relation::hidden);
}

class HonestCopies : public ::testing::Test {
 protected:
  Architecture shape_ = known_architectures().front().architecture;
  Symmetry symmetry_ = symmetry_of(shape_);
  testing::Written files_{"judge"};
};

TEST_F(HonestCopies, HaveTheRoundingOfTheirTypesAndNothingElse) {
  const Parameters<double> original = random_parameters(shape_, 3);
  const Element a_from_b = inverse(symmetry_, random_element(symmetry_, 9));
  const Model a = files_.write(shape_, original, DType::f32);
  const Model b = files_.write(shape_, testing::moved(shape_, original, 9), DType::bf16);
  const ParameterSource from_a(a, shape_), from_b(b, shape_);
  const auto copy = [&](int draw) { return HonestCopy(symmetry_, a_from_b, from_a, from_b, draw); };
  const HonestCopy rounds_a = copy(0), rounds_b = copy(1), noisy = copy(2), other = copy(3);
  for (const auto& spec : parameter_specs(shape_)) {
    const auto read = [&](const ParameterSource& source) { return source.read<double>(spec.name); };
    const Matrix<double> exact = read(from_a), stored = read(from_b);
    // B as its file is, but where A's own rounding decides between two neighbours; A as it is.
    EXPECT_EQ(read(rounds_a.a()), exact) << spec.name;
    EXPECT_LT((read(rounds_a.b()) - stored).norm(), 1e-4 * stored.norm()) << spec.name;
    // B as it is, and A with B's rounding.
    EXPECT_EQ(read(rounds_b.b()), stored) << spec.name;
    const double off = (read(rounds_b.a()) - exact).norm() / exact.norm();
    EXPECT_GT(off, 1e-4) << spec.name;
    EXPECT_LT(off, 0.1) << spec.name;

    const Matrix<double> made = read(noisy.b());
    EXPECT_GT((made - stored).norm(), 1e-4 * stored.norm()) << spec.name;
    EXPECT_LT((made - stored).norm(), 0.01 * stored.norm()) << spec.name;
    EXPECT_GT((made - read(other.b())).norm(), 0) << spec.name;
    EXPECT_EQ(made, read(noisy.b())) << spec.name;
    EXPECT_LT((read(noisy.a()) - exact).norm(), 1e-6 * exact.norm()) << spec.name;
  }
}

// The rows of tokens that were never trained are one row: so is what rounding does to them.
TEST_F(HonestCopies, RoundAlikeWhatIsAlike) {
  Parameters<double> original = random_parameters(shape_, 3);
  Matrix<double>& table = original.at("embed.tokens");
  ASSERT_GE(table.rows(), 4);
  table.row(1) = table.row(0) * (1 + 1e-6);
  const Element a_from_b = inverse(symmetry_, random_element(symmetry_, 9));
  const Parameters<double> moved = testing::moved(shape_, original, 9);
  const Model a = files_.write(shape_, original, DType::f32);
  const Model b = files_.write(shape_, moved, DType::bf16);
  const ParameterSource from_a(a, shape_), from_b(b, shape_);
  const Matrix<double> errors =
      HonestCopy(symmetry_, a_from_b, from_a, from_b, 2).b().read<double>("embed.tokens") -
      moved.at("embed.tokens");
  EXPECT_LT((errors.row(1) - errors.row(0)).norm(), 0.1 * errors.row(0).norm());
  EXPECT_GT((errors.row(2) - errors.row(0)).norm(), errors.row(0).norm());
}

// A matrix in a coarse type leaves its precise partner in doubt, which honest copies resolve; a
// change of the partner beyond that is told.
TEST_F(HonestCopies, ResolveADoubtAndHideNoChange) {
  const Parameters<double> original = random_parameters(shape_, 3);
  const std::string coarse = "layers.0.ffn.down.weight", partner = "layers.0.ffn.up.weight";
  Parameters<double> moved = testing::moved(shape_, original, 9);
  Matrix<double>& rounded = moved.at(coarse);
  rounded = rounded.cast<Eigen::bfloat16>().cast<double>().eval();
  const Model a = files_.write(shape_, original, DType::f32);
  // Stored in F32, the coarse numbers are no rounding that the file would tell of: a change.
  EXPECT_NE(diff(a, files_.write(shape_, moved, DType::f32), Progress::silent()).verdict,
            Verdict::same);
  Parameters<double> changed = testing::moved(shape_, original, 9);
  changed.at(partner)(2, 2) *= 1.05;
  EXPECT_NE(diff(a, files_.write(shape_, changed, DType::f32), Progress::silent()).verdict,
            Verdict::same);
}

// Ends the search for an element as a mistake of the program would.
class Mistaken : public Progress {
 public:
  void start(const std::string& what, std::int64_t /*total*/) override {
    if (what == "finding the element") throw std::logic_error(what);
  }
};

TEST_F(HonestCopies, AnInternalMistakeIsNoAnswerAndNoStandardFormIsOne) {
  Parameters<double> original = random_parameters(shape_, 3);
  const Parameters<double> moved = testing::moved(shape_, original, 9);
  Mistaken mistaken;
  EXPECT_THROW(diff(files_.write(shape_, original, DType::f32),
                    files_.write(shape_, moved, DType::f32), mistaken),
               std::logic_error);
  original.at("layers.0.attn.norm.gain")(0, 0) = 0;
  const Diff found = diff(files_.write(shape_, original, DType::f32),
                          files_.write(shape_, moved, DType::f32), mistaken);
  EXPECT_EQ(found.verdict, Verdict::undecided) << testing::report(found);
}

TEST(ElementNoise, WhatStandsWhereItStoodIsLeftAlone) {
  const Architecture shape = known_architectures().front().architecture;
  const Symmetry symmetry = symmetry_of(shape);
  Element element = random_element(symmetry, 4);
  ASSERT_TRUE(element.maps.contains("residual"));
  std::vector<TensorResidual> in_place;
  for (const auto& spec : parameter_specs(shape)) {
    TensorResidual r;
    r.tensor = spec.name;
    r.single_row = spec.rows == 1;
    r.relation = spec.name.find("ffn") == std::string::npos ? Relation::equal : Relation::differs;
    in_place.push_back(r);
  }
  const auto stay = spaces_that_stay(symmetry, in_place);
  EXPECT_TRUE(stay.contains("residual"));
  EXPECT_FALSE(stay.contains("layers.0.ffn"));
  EXPECT_FALSE(without_noise(symmetry, element, 1e-8, stay).maps.contains("residual"));
  EXPECT_TRUE(without_noise(symmetry, element, 1e-8, {}).maps.contains("residual"));
}

}  // namespace
}  // namespace regauge
