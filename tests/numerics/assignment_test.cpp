#include "numerics/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

struct Square {
  std::int64_t n;
  std::vector<float> numbers;
  float& at(std::int64_t i, std::int64_t j) { return numbers[static_cast<std::size_t>(i * n + j)]; }
  float at(std::int64_t i, std::int64_t j) const {
    return numbers[static_cast<std::size_t>(i * n + j)];
  }
  Similarity similarity() const { return {n, numbers.data()}; }
};

template <class F>
Square square(std::int64_t n, F entry) {
  Square result{n, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      result.numbers.push_back(static_cast<float>(entry(i, j)));
    }
  }
  return result;
}

Square uniform(std::int64_t n, std::uint64_t seed) {
  Random random(seed, "uniform");
  return square(n, [&](auto, auto) { return random.uniform(); });
}

// A^T B of two models of width d: the second has the first one's neurons in another order, times
// `kinship`, and noise.
Square neurons(std::int64_t n, std::int64_t d, double kinship, std::uint64_t seed) {
  Random random(seed, "neurons");
  const std::vector<std::int64_t> order = random.permutation(n);
  std::vector<double> a(static_cast<std::size_t>(n * d));
  std::vector<double> b(a.size());
  for (double& x : a) x = random.normal();
  for (std::int64_t i = 0; i < n * d; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i / d)] * d + i % d;
    b[static_cast<std::size_t>(i)] = kinship * a[static_cast<std::size_t>(from)] + random.normal();
  }
  return square(n, [&](std::int64_t i, std::int64_t j) {
    return std::inner_product(a.begin() + i * d, a.begin() + (i + 1) * d, b.begin() + j * d, 0.0);
  });
}

double brute_force(const Square& s) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(s.n));
  std::iota(order.begin(), order.end(), 0);
  double best = s.n == 0 ? 0 : -std::numeric_limits<double>::infinity();
  do {
    double value = 0;
    for (std::int64_t i = 0; i < s.n; ++i) value += s.at(i, order[static_cast<std::size_t>(i)]);
    best = std::max(best, value);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

// The Hungarian method as textbooks have it, O(n^3) in double; rows and columns from 1.
double hungarian(const Square& s) {
  const auto n = static_cast<std::size_t>(s.n);
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> u(n + 1);
  std::vector<double> v(n + 1);
  std::vector<std::size_t> row_of(n + 1);
  std::vector<std::size_t> way(n + 1);
  const auto cost = [&](std::size_t i, std::size_t j) { return -s.numbers[(i - 1) * n + j - 1]; };
  for (std::size_t i = 1; i <= n; ++i) {
    std::vector<double> least(n + 1, infinity);
    std::vector<bool> used(n + 1);
    std::size_t column = 0;
    row_of[0] = i;
    do {
      used[column] = true;
      double delta = infinity;
      std::size_t next = 0;
      for (std::size_t j = 1; j <= n; ++j) {
        if (used[j]) continue;
        const double reduced = cost(row_of[column], j) - u[row_of[column]] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          way[j] = column;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (std::size_t j = 0; j <= n; ++j) {
        if (used[j]) {
          u[row_of[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    for (; column != 0; column = way[column]) row_of[column] = row_of[way[column]];
  }
  double value = 0;
  for (std::size_t j = 1; j <= n; ++j) value -= cost(row_of[j], j);
  return value;
}

double largest(const Square& s) {
  double result = 0;
  for (const float x : s.numbers) result = std::max(result, std::abs(static_cast<double>(x)));
  return result;
}

// Rounding of doubles of the magnitude of s, potentials up to n times that.
double rounding(const Square& s) { return 1e-15 * largest(s) * static_cast<double>(s.n); }

void expect_certified(const Square& s, const Assignment& assignment, double gap) {
  const CertificateCheck check = check_certificate(s.similarity(), assignment);
  EXPECT_TRUE(check.permutation);
  EXPECT_LE(check.violation, rounding(s));
  EXPECT_LE(check.gap, gap);
  EXPECT_NEAR(check.gap, assignment.gap, 10 * rounding(s));
  double value = 0;
  for (std::int64_t i = 0; i < s.n; ++i) {
    value += s.at(i, assignment.column_of_row[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(value, assignment.value);
}

void expect_optimal(const Square& s, const AssignmentOptions& options = {}) {
  const Assignment assignment = assign(s.similarity(), options);
  expect_certified(s, assignment, static_cast<double>(s.n) * rounding(s));
  EXPECT_NEAR(assignment.value, hungarian(s), static_cast<double>(s.n) * rounding(s));
}

TEST(Assignment, MeetsBruteForce) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto n = static_cast<std::int64_t>(seed % 8);
    const Square s = uniform(n, seed);
    const Assignment assignment = assign(s.similarity());
    EXPECT_NEAR(assignment.value, brute_force(s), 1e-12);
    EXPECT_NEAR(hungarian(s), brute_force(s), 1e-12);
    expect_certified(s, assignment, 1e-12);
  }
}

TEST(Assignment, MeetsTheHungarianMethod) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto n = static_cast<std::int64_t>(1 + seed * 3);
    expect_optimal(uniform(n, seed));
    expect_optimal(neurons(n, 12, 0, seed));
    expect_optimal(neurons(n, 12, 0.3, seed));
  }
}

TEST(Assignment, MeetsTheHungarianMethodWithTiesEverywhere) {
  Random random(2, "ties");
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::int64_t values = 2 + random.below(9);
    const std::int64_t n = 1 + random.below(40);
    const Square s = square(n, [&](auto, auto) { return random.below(values) - 3; });
    const AssignmentOptions options{.candidates = 2 + random.below(6)};
    EXPECT_EQ(assign(s.similarity(), options).value, hungarian(s));
    expect_optimal(s, options);
  }
}

TEST(Assignment, FewCandidatesLoseNothing) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_optimal(uniform(90, seed), {.candidates = 2});
    expect_optimal(neurons(90, 12, 0.3, seed), {.candidates = 3});
    expect_optimal(neurons(90, 12, 0, seed), {.candidates = 1000});
  }
}

TEST(Assignment, FindsThePlantedOrder) {
  const std::int64_t n = 300;
  const Square s = neurons(n, 64, 3, 5);
  const std::vector<std::int64_t> order = Random(5, "neurons").permutation(n);
  const Assignment assignment = assign(s.similarity());
  for (std::int64_t j = 0; j < n; ++j) {  // neuron j of B is neuron order[j] of A
    const auto row = static_cast<std::size_t>(order[static_cast<std::size_t>(j)]);
    EXPECT_EQ(assignment.column_of_row[row], j);
  }
}

TEST(Assignment, SurvivesTiesAndStructure) {
  const std::int64_t n = 100;
  Random random(1, "structure");
  std::vector<double> x(static_cast<std::size_t>(2 * n));
  for (double& value : x) value = random.normal();
  const auto at = [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; };
  const std::vector<std::pair<std::string, Square>> cases{
      {"zero", square(n, [](auto, auto) { return 0; })},
      {"equal", square(n, [](auto, auto) { return 0.1; })},
      {"minus i*j", square(n, [](auto i, auto j) { return -(i + 1) * (j + 1); })},
      {"i*j", square(n, [](auto i, auto j) { return i * j; })},
      {"distance", square(n, [](auto i, auto j) { return -std::abs(i - j); })},
      {"rank one", square(n, [&](auto i, auto j) { return at(i) * at(n + j); })},
      {"line", square(n, [&](auto i, auto j) { return -std::abs(at(i) - at(n + j)); })},
      {"equal rows", square(n, [&](auto i, auto j) { return at(i % 5) * at(j) + at(j / 2); })},
      {"equal columns", square(n, [&](auto i, auto j) { return at(i) * at(j % 5) + at(i / 2); })},
      {"zero rows", square(n, [&](auto i, auto) { return i % 2 == 0 ? random.normal() : 0; })},
      {"zero columns", square(n, [&](auto, auto j) { return j % 2 == 0 ? random.normal() : 0; })},
      {"two values", square(n, [&](auto, auto) { return random.below(2); })},
      {"few ones", square(n, [&](auto, auto) { return random.below(n) == 0 ? 1 : 0; })},
      {"heavy tails", square(n, [&](auto, auto) { return 1 / (random.normal() + 1e-9); })},
      {"offsets", square(n, [&](auto i, auto j) { return 1e6 * at(i) + 1e4 * at(j); })},
      {"huge", square(n, [&](auto, auto) { return 3e38 * (2 * random.uniform() - 1); })},
      {"subnormal", square(n, [&](auto, auto) { return 1e-42 * random.uniform(); })},
      {"one infinite gap", square(n, [](auto i, auto j) { return i == j ? 3e38 : -3e38; })},
  };
  for (const auto& [name, s] : cases) {
    SCOPED_TRACE(name);
    expect_optimal(s);
    expect_optimal(s, {.candidates = 2});
  }
}

TEST(Assignment, SmallestSizes) {
  const Assignment none = assign(Similarity(0, nullptr));
  EXPECT_TRUE(none.column_of_row.empty());
  EXPECT_EQ(none.value, 0);
  const float number = -3;
  const Assignment one = assign(Similarity(1, &number));
  EXPECT_EQ(one.column_of_row, std::vector<std::int64_t>{0});
  EXPECT_EQ(one.value, -3);
  EXPECT_EQ(one.gap, 0);
  EXPECT_EQ(one.row_potential[0] + one.column_potential[0], -3);
}

TEST(Assignment, StopsWithinTheGapItWasGiven) {
  bool stopped_early = false;
  for (const double relative_gap : {1e-1, 1e-2, 1e-3, 1e-6}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Square s = neurons(200, 40, 0.05, seed);
      const Assignment assignment = assign(s.similarity(), {.relative_gap = relative_gap});
      expect_certified(s, assignment, relative_gap * std::abs(assignment.value));
      const double best = hungarian(s);
      EXPECT_LE(assignment.value, best + 1e-9);
      EXPECT_LE(best, assignment.value + assignment.gap + 1e-9);
      stopped_early = stopped_early || assignment.value < best - 1e-9;
    }
  }
  EXPECT_TRUE(stopped_early);
}

TEST(Assignment, KeptRecomputedAndGivenMatricesAgree) {
  for (const std::int64_t n : {1, 63, 64, 65, 200}) {
    const Square s = neurons(n, 30, 0.1, 7);
    std::int64_t produced = 0;
    const auto produce = [&](std::int64_t first, std::int64_t count, float* rows) {
      ASSERT_EQ(first % Similarity::kBlock, 0);
      ASSERT_EQ(count, std::min(Similarity::kBlock, n - first));
      produced += count;
      std::copy_n(s.numbers.data() + first * n, count * n, rows);
    };
    const Assignment given = assign(s.similarity());
    const Assignment kept = assign(Similarity(n, produce));
    EXPECT_EQ(produced, n);
    const Assignment recomputed = assign(Similarity(n, produce, Similarity::Memory::recompute));
    EXPECT_EQ(kept.column_of_row, given.column_of_row);
    EXPECT_EQ(kept.column_potential, given.column_potential);
    EXPECT_EQ(recomputed.column_of_row, given.column_of_row);  // the optimum is unique here
    expect_certified(s, recomputed, 200 * rounding(s));
  }
}

TEST(Assignment, RefusesWhatIsNoNumber) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t column : {0, 40, 69}) {
      Square s = uniform(70, 1);
      s.at(69, column) = bad;
      try {
        assign(s.similarity());
        FAIL() << "accepted " << bad;
      } catch (const UsageError& error) {
        const std::string place = "row 69 and column " + std::to_string(column);
        EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
      }
    }
  }
}

TEST(Assignment, RefusesBadArguments) {
  const Square s = uniform(3, 1);
  EXPECT_THROW(assign(s.similarity(), {.relative_gap = -1}), UsageError);
  EXPECT_THROW(assign(s.similarity(), {.relative_gap = std::nan("")}), UsageError);
  EXPECT_THROW(assign(s.similarity(), {.candidates = 1}), UsageError);
  EXPECT_THROW(Similarity(-1, s.numbers.data()), UsageError);
  EXPECT_THROW(Similarity(std::int64_t{1} << 31, s.numbers.data()), UsageError);
  EXPECT_THROW(Similarity(3, nullptr), UsageError);
  EXPECT_THROW(Similarity(3, Similarity::Produce()), UsageError);
  EXPECT_THROW(check_certificate(s.similarity(), Assignment()), UsageError);
}

// The certificate is worth something only if it fails for what is not optimal.
TEST(Assignment, CertificateSeesWhatIsWrong) {
  const Square s = neurons(80, 30, 0.1, 3);
  const Assignment good = assign(s.similarity());

  Assignment swapped = good;
  std::swap(swapped.column_of_row[3], swapped.column_of_row[4]);
  EXPECT_GT(check_certificate(s.similarity(), swapped).gap, 1e-3);

  Assignment twice = good;
  twice.column_of_row[3] = twice.column_of_row[4];
  EXPECT_FALSE(check_certificate(s.similarity(), twice).permutation);
  twice.column_of_row[3] = 80;
  EXPECT_FALSE(check_certificate(s.similarity(), twice).permutation);

  Assignment cheap = good;
  cheap.row_potential[5] -= 0.1;
  EXPECT_NEAR(check_certificate(s.similarity(), cheap).violation, 0.1, 1e-9);

  Square other = s;
  other.at(7, good.column_of_row[7] == 0 ? 1 : 0) += 100;
  EXPECT_GT(check_certificate(other.similarity(), good).violation, 1);

  // The order in which the rows come is far from optimal.
  Assignment identity = good;
  std::iota(identity.column_of_row.begin(), identity.column_of_row.end(), 0);
  EXPECT_GT(check_certificate(s.similarity(), identity).gap, 0.5 * good.value);
}

class Counting : public Progress {
 public:
  explicit Counting(std::int64_t stop_at = -1) : stop_at_(stop_at) {}
  void start(const std::string&, std::int64_t total) override { total_ = total; }
  void advance(std::int64_t units) override {
    done_ += units;
    if (stop_at_ >= 0 && done_ >= stop_at_) throw Cancelled();
  }
  void finish() override { finished_ = true; }

  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  bool finished_ = false;

 private:
  std::int64_t stop_at_;
};

TEST(Assignment, ReportsProgressAndCanBeCancelled) {
  for (const double kinship : {0.0, 3.0}) {
    const Square s = neurons(100, 30, kinship, 3);
    Counting progress;
    assign(s.similarity(), {}, progress);
    EXPECT_EQ(progress.total_, 200);
    EXPECT_EQ(progress.done_, 200);
    EXPECT_TRUE(progress.finished_);
    for (const std::int64_t stop_at : {0, 50, 150}) {
      Counting cancelling(stop_at);
      EXPECT_THROW(assign(s.similarity(), {}, cancelling), Cancelled);
    }
  }
}

}  // namespace
}  // namespace regauge
