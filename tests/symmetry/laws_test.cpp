// The laws of a group and of its action, on every block group alone and under permutations, in
// float and double.
#include <Eigen/LU>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "numerics/random_matrix.h"
#include "regauge/symmetry/space.h"

namespace regauge {
namespace {

constexpr int kCases = 100;

Space space_of(std::string name, BlockGroup group, std::int64_t count, Shuffle shuffle,
               std::int64_t group_size = 1, std::int64_t bundles = 1) {
  Space space;
  space.name = std::move(name);
  space.group = std::move(group);
  space.count = count;
  space.shuffle = shuffle;
  space.group_size = group_size;
  space.bundles = bundles;
  return space;
}

std::vector<Space> spaces() {
  using Kind = Scaling::Kind;
  Matrix<double> ones = Matrix<double>::Ones(1, 6);
  return {
      space_of("permutation", Scaling(Kind::trivial), 7, Shuffle::symmetric),
      space_of("grouped permutation", Scaling(Kind::trivial), 6, Shuffle::grouped, 2),
      space_of("permutation in bundles", Scaling(Kind::nonzero), 12, Shuffle::grouped, 2, 3),
      space_of("signed permutation", Scaling(Kind::signs), 6, Shuffle::symmetric),
      space_of("scaling", Scaling(Kind::nonzero), 5, Shuffle::none),
      space_of("monomial", Scaling(Kind::nonzero), 5, Shuffle::symmetric),
      space_of("positive monomial", Scaling(Kind::positive), 5, Shuffle::symmetric),
      space_of("orthogonal", Orthogonal(6), 1, Shuffle::none),
      space_of("orthogonal that fixes 1", Orthogonal(ones), 1, Shuffle::none),
      space_of("general linear", GeneralLinear(4), 1, Shuffle::none),
      space_of("heads of general linear", GeneralLinear(3), 3, Shuffle::symmetric),
      space_of("rotary", RotaryCommutant(6, {1.0, 0.1, 0.01}), 2, Shuffle::symmetric),
      space_of("partial rotary", RotaryCommutant(7, {1.0, 0.1}), 2, Shuffle::symmetric),
      space_of("repeated rotary", RotaryCommutant(8, {1.0, 0.5, 1.0, 3.141592653589793}), 1,
               Shuffle::none),
      space_of("mirrored rotary", RotaryCommutant(4, {1.0, 2 * 3.141592653589793 - 1.0}), 1,
               Shuffle::none),
      space_of("gain exchange", GainExchange(7, {1.0, 3.141592653589793}), 1, Shuffle::none),
      space_of("gain exchange of equal pairs",
               GainExchange(8, {1.0, 2 * 3.141592653589793 - 1.0, 0.5, 1.0}), 1, Shuffle::none),
      space_of("half turns", HalfTurns(7, {1.0, 3.141592653589793}), 3, Shuffle::symmetric),
  };
}

template <class Scalar>
class Laws : public ::testing::Test {
 protected:
  static constexpr double kTolerance = 200 * std::numeric_limits<Scalar>::epsilon();

  // Calls check(space, a, b, c, x) with random members and a random row of vectors.
  template <class Check>
  void for_all(Check check) {
    for (const auto& space : spaces()) {
      for (int i = 0; i < kCases; ++i) {
        Random random(static_cast<std::uint64_t>(i), "laws/" + space.name);
        const auto member = [&] { return space.random(random, nullptr).template cast<Scalar>(); };
        const auto a = member(), b = member(), c = member();
        Matrix<Scalar> x(3, space.size());
        for (auto& entry : x.reshaped()) entry = static_cast<Scalar>(random.normal());
        SCOPED_TRACE(space.name + ", case " + std::to_string(i));
        check(space, a, b, c, x);
        if (this->HasFailure()) return;
      }
    }
  }
};
using Scalars = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Laws, Scalars);

template <class Scalar>
Matrix<Scalar> acted(const BlockMap<Scalar>& map, Matrix<Scalar> x, int axis = 1) {
  map.apply(x, axis);
  return x;
}

template <class Scalar>
double difference(const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  return static_cast<double>((a - b).cwiseAbs().maxCoeff()) /
         (1 + static_cast<double>(a.cwiseAbs().maxCoeff()));
}

TYPED_TEST(Laws, Identity) {
  this->for_all([&](const Space& space, const auto& a, const auto&, const auto&, const auto& x) {
    const auto one = space.identity().template cast<TypeParam>();
    EXPECT_LE(distance(a * one, a), this->kTolerance);
    EXPECT_LE(distance(one * a, a), this->kTolerance);
    EXPECT_EQ(acted(one, x), x);
  });
}

TYPED_TEST(Laws, Inverse) {
  this->for_all([&](const Space& space, const auto& a, const auto&, const auto&, const auto& x) {
    const auto one = space.identity().template cast<TypeParam>();
    EXPECT_LE(distance(a * a.inverse(), one), this->kTolerance);
    EXPECT_LE(distance(a.inverse() * a, one), this->kTolerance);
    EXPECT_LE(difference<TypeParam>(acted(a.inverse(), acted(a, x)), x), this->kTolerance);
  });
}

TYPED_TEST(Laws, Associativity) {
  this->for_all([&](const Space&, const auto& a, const auto& b, const auto& c, const auto&) {
    EXPECT_LE(distance((a * b) * c, a * (b * c)), 10 * this->kTolerance);
  });
}

TYPED_TEST(Laws, LeftAction) {
  this->for_all([&](const Space&, const auto& a, const auto& b, const auto&, const auto& x) {
    EXPECT_LE(difference<TypeParam>(acted(a * b, x), acted(a, acted(b, x))), 10 * this->kTolerance);
    const Matrix<TypeParam> y = x.transpose();
    EXPECT_LE(difference<TypeParam>(acted(a * b, y, 0), acted(a, acted(b, y, 0), 0)),
              10 * this->kTolerance);
  });
}

// A gather where a scatter belongs: p(i) is where block i goes, not where it comes from.
template <class Scalar>
Matrix<Scalar> gathered(const BlockMap<Scalar>& map, const Matrix<Scalar>& x) {
  Matrix<Scalar> result(x.rows(), x.cols());
  for (std::int64_t i = 0; i < map.count(); ++i) {
    result.middleCols(i * map.width(), map.width()) =
        x.middleCols(map.target(i) * map.width(), map.width()) * map.block(i);
  }
  return result;
}

TYPED_TEST(Laws, CatchAFlippedAction) {
  int caught = 0;
  this->for_all([&](const Space& space, const auto& a, const auto& b, const auto&, const auto& x) {
    if (space.name != "permutation") return;
    const auto composed = gathered(a * b, x);
    caught += difference<TypeParam>(composed, gathered(a, gathered(b, x))) > 0.01 ? 1 : 0;
  });
  EXPECT_GT(caught, kCases / 2);
}

TYPED_TEST(Laws, MatricesAgree) {
  this->for_all([&](const Space&, const auto& a, const auto&, const auto&, const auto& x) {
    EXPECT_LE(difference<TypeParam>(acted(a, x), x * a.dense()), this->kTolerance);
    EXPECT_LE(difference<TypeParam>(a.transpose().dense(), a.dense().transpose()), 0);
    // Covectors: <x, y> does not change when x moves by a and y by the dual.
    const Matrix<TypeParam> pairing = acted(a, x) * acted(a.dual(), x).transpose();
    EXPECT_LE(difference<TypeParam>(pairing, x * x.transpose()), 10 * this->kTolerance);
  });
}

TEST(Spaces, AreClosed) {
  for (const auto& space : spaces()) {
    for (int i = 0; i < kCases; ++i) {
      Random random(static_cast<std::uint64_t>(i), "closure/" + space.name);
      const auto a = space.random(random, nullptr), b = space.random(random, nullptr);
      EXPECT_LE(space.violation(a, nullptr), 1e-12) << space.name;
      EXPECT_LE(space.violation(a * b, nullptr), 1e-11) << space.name;
      EXPECT_LE(space.violation(a.inverse(), nullptr), 1e-11) << space.name;
    }
  }
}

TEST(Spaces, RefuseOutsiders) {
  Random random(1, "outsiders");
  const auto gl = GeneralLinear(6).random(random);
  EXPECT_GT(Orthogonal(6).violation(gl), 0.1);
  EXPECT_GT(Orthogonal(Matrix<double>::Ones(1, 6)).violation(Orthogonal(6).random(random)), 0.1);
  EXPECT_GT(RotaryCommutant(6, {1.0, 0.1, 0.01}).violation(gl), 0.1);
  EXPECT_GT(GainExchange(6, {1.0, 0.1, 0.01}).violation(gl), 0.1);
  EXPECT_GT(HalfTurns(4, {1.0, 0.1}).violation(GainExchange(4, {1.0, 0.1}).random(random)), 0.1);
  Matrix<double> half_of_a_pair = Matrix<double>::Identity(4, 4);
  half_of_a_pair(1, 1) = -1;
  EXPECT_GT(HalfTurns(4, {1.0, 0.1}).violation(half_of_a_pair), 0.1);
  EXPECT_EQ(HalfTurns(4, {}).violation(half_of_a_pair), 0);
  half_of_a_pair.row(1).swap(half_of_a_pair.row(0));
  EXPECT_GT(HalfTurns(4, {}).violation(half_of_a_pair), 0.1);
  EXPECT_GT(Scaling(Scaling::Kind::positive).violation(Matrix<double>::Constant(1, 1, -2)), 0.1);
  EXPECT_GT(Scaling(Scaling::Kind::signs).violation(Matrix<double>::Constant(1, 1, 2)), 0.1);
  // A permutation across groups.
  const Space grouped = space_of("g", Scaling(Scaling::Kind::trivial), 4, Shuffle::grouped, 2);
  EXPECT_EQ(grouped.violation(BlockMap<double>(4, 1, {2, 1, 0, 3}, {}), nullptr),
            std::numeric_limits<double>::infinity());
  // Groups across bundles, which may change places as wholes.
  const Space bundled = space_of("b", Scaling(Scaling::Kind::trivial), 8, Shuffle::grouped, 2, 2);
  EXPECT_EQ(bundled.group_name(), "S(2) wr S(2) wr S(2)");
  EXPECT_EQ(bundled.violation(BlockMap<double>(8, 1, {4, 5, 2, 3, 0, 1, 6, 7}, {}), nullptr),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(bundled.violation(BlockMap<double>(8, 1, {4, 5, 7, 6, 0, 1, 2, 3}, {}), nullptr), 0);
}

// Only a pattern of signs reaches q and k, and a sign decides a gate: noise must not pass for
// either.
TEST(Spaces, RefuseNoise) {
  Random random(2, "noise");
  const GainExchange exchange(6, {1.0, 0.1});
  Matrix<double> member = exchange.random(random);
  EXPECT_EQ(exchange.violation(member), 0);
  member(0, 5) = 1e-9;
  EXPECT_GT(exchange.violation(member), 0.1);
  EXPECT_GT(Scaling(Scaling::Kind::positive).violation(Matrix<double>::Constant(1, 1, -1e-9)), 0.1);
}

// Wide enough for the products to go through BLAS.
TEST(Spaces, WideMapsObeyTheLaws) {
  const Space space = space_of("wide", Orthogonal(300), 1, Shuffle::none);
  Random random(1, "wide");
  const auto a = space.random(random, nullptr), b = space.random(random, nullptr);
  const Matrix<double> x = random_gaussian(300, random);
  EXPECT_LE(space.violation(a * b, nullptr), 1e-12);
  EXPECT_LE(distance(a * a.inverse(), space.identity()), 1e-11);
  EXPECT_LE(distance(a * a.transpose(), space.identity()), 1e-12);
  for (const int axis : {0, 1}) {
    EXPECT_LE(difference(acted(a * b, x, axis), acted(a, acted(b, x, axis), axis)), 1e-12);
  }
  EXPECT_LE(difference(acted(a, x), Matrix<double>(x * a.dense())), 1e-12);
}

TEST(Spaces, CommuteWithRotations) {
  const std::vector<double> frequencies = {1.0, 0.5, 1.0, 2 * 3.141592653589793 - 0.5};
  const RotaryCommutant group(9, frequencies);
  for (int i = 0; i < kCases; ++i) {
    Random random(static_cast<std::uint64_t>(i), "commutant");
    const Matrix<double> a = group.random(random);
    for (const int t : {1, 2, 7}) {
      Matrix<double> rotation = Matrix<double>::Identity(9, 9);
      for (std::size_t b = 0; b < frequencies.size(); ++b) {
        const auto at = static_cast<Eigen::Index>(2 * b);
        const double angle = t * frequencies[b];
        rotation.block(at, at, 2, 2) << std::cos(angle), std::sin(angle), -std::sin(angle),
            std::cos(angle);
      }
      EXPECT_LE((a * rotation - rotation * a).cwiseAbs().maxCoeff(), 1e-12);
    }
  }
  EXPECT_EQ(group.dimension(), 2 * 4 + 2 * 4 + 1);
}

// Calls visit(m) with every signed permutation matrix.
template <class Visit>
void for_signed_permutations(std::int64_t size, Visit visit) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (std::int64_t signs = 0; signs < (std::int64_t{1} << size); ++signs) {
      Matrix<double> matrix = Matrix<double>::Zero(size, size);
      for (std::int64_t i = 0; i < size; ++i) {
        matrix(i, order[static_cast<std::size_t>(i)]) = (signs >> i & 1) != 0 ? -1 : 1;
      }
      visit(matrix, order);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Behind a QK-norm each component holds one signed permutation, and those are the ones that commute
// with a rotation.
TEST(Spaces, ComponentsOfGainExchanges) {
  constexpr double kPi = 3.141592653589793;
  const std::vector<std::pair<std::int64_t, std::vector<double>>> heads = {
      {4, {1.0, 0.1}},     {4, {1.0, 1.0}}, {4, {1.0, 2 * kPi - 1.0}}, {4, {kPi, 1.0}},
      {4, {2 * kPi, 1.0}}, {5, {0.3, 0.3}}, {5, {kPi, 2 * kPi}},       {3, {}}};
  for (const auto& [size, frequencies] : heads) {
    const GainExchange group(size, frequencies);
    Matrix<double> rotation = Matrix<double>::Identity(size, size);
    for (std::size_t b = 0; b < frequencies.size(); ++b) {
      const auto at = static_cast<Eigen::Index>(2 * b);
      const double c = std::cos(frequencies[b]), s = std::sin(frequencies[b]);
      rotation.block(at, at, 2, 2) << c, s, -s, c;
    }
    std::int64_t commuting = 0;
    for_signed_permutations(size, [&](const Matrix<double>& matrix, const auto&) {
      const bool commutes = (matrix * rotation).isApprox(rotation * matrix, 1e-9);
      EXPECT_EQ(group.violation(matrix) == 0, commutes) << group.name() << "\n" << matrix;
      commuting += commutes ? 1 : 0;
    });
    EXPECT_NEAR(std::exp2(group.log2_components()), static_cast<double>(commuting), 1e-6)
        << group.name();
  }
}

TEST(Spaces, ComponentsOfMonomialMaps) {
  using Kind = Scaling::Kind;
  for (const Kind kind : {Kind::trivial, Kind::signs, Kind::positive, Kind::nonzero}) {
    for (const Shuffle shuffle : {Shuffle::none, Shuffle::symmetric, Shuffle::grouped}) {
      const Space space = space_of("monomial", Scaling(kind), 4, shuffle, 2);
      std::int64_t members = 0;
      for_signed_permutations(4, [&](const Matrix<double>& matrix, const auto& order) {
        const BlockMap<double> map(4, 1, order, matrix.rowwise().sum());
        members += space.violation(map, nullptr) == 0 ? 1 : 0;
      });
      EXPECT_NEAR(std::exp2(space.log2_components()), static_cast<double>(members), 1e-6)
          << space.group_name();
    }
  }
}

// The determinants' signs on the classes of coordinates tell the components of matrix groups apart.
TEST(Spaces, ComponentsOfMatrixGroups) {
  const auto components = [](const auto& group, const std::vector<std::pair<int, int>>& classes) {
    std::set<std::vector<bool>> seen;
    for (int i = 0; i < kCases; ++i) {
      Random random(static_cast<std::uint64_t>(i), "components");
      const Matrix<double> member = group.random(random);
      std::vector<bool> signs;
      for (const auto& [first, count] : classes) {
        signs.push_back(member.block(first, first, count, count).determinant() < 0);
      }
      seen.insert(signs);
    }
    EXPECT_EQ(std::exp2(group.log2_components()), static_cast<double>(seen.size())) << group.name();
  };
  components(GeneralLinear(3), {{0, 3}});
  components(Orthogonal(3), {{0, 3}});
  components(Orthogonal(Matrix<double>::Ones(1, 3)), {{0, 3}});
  components(Orthogonal(Matrix<double>::Identity(3, 3)), {{0, 3}});
  components(RotaryCommutant(4, {1.0, 0.1}), {{0, 2}, {2, 2}});
  components(RotaryCommutant(4, {1.0, 1.0}), {{0, 4}});
  components(RotaryCommutant(7, {1.0, 3.141592653589793}), {{0, 2}, {2, 2}, {4, 3}});
}

// exp of the algebra stays in the group, the projection is idempotent, and the algebra has the
// stated dimension.
TEST(Spaces, AlgebrasBelongToTheirGroups) {
  for (const auto& space : spaces()) {
    Random random(3, "algebra/" + space.name);
    const auto size = space.size() * space.width();
    Matrix<double> projector(size, size);
    for (std::int64_t i = 0; i < size; ++i) {
      Matrix<double> unit = Matrix<double>::Zero(space.size(), space.width());
      unit.data()[i] = 1;
      const Matrix<double> projected = space.project(unit);
      projector.row(i) = Eigen::Map<const Eigen::RowVectorXd>(projected.data(), size);
      EXPECT_LE((space.project(projected) - projected).cwiseAbs().maxCoeff(), 1e-12);
    }
    EXPECT_NEAR(projector.trace(), static_cast<double>(space.dimension()), 1e-9) << space.name;
    Matrix<double> direction(space.size(), space.width());
    for (auto& entry : direction.reshaped()) entry = 0.3 * random.normal();
    EXPECT_LE(space.violation(space.exponential(space.project(direction)), nullptr), 1e-11)
        << space.name;
  }
}

// A group that is added to BlockGroup without coming here fails this test.
TEST(Spaces, AllKindsAreTested) {
  std::set<std::size_t> tested;
  for (const auto& space : spaces()) tested.insert(space.group.index());
  EXPECT_EQ(tested.size(), std::variant_size_v<BlockGroup>);
}

}  // namespace
}  // namespace regauge
