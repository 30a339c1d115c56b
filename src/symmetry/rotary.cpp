#include "regauge/symmetry/rotary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "numerics/decompositions.h"
#include "numerics/random_matrix.h"
#include "rotary_pairs.h"

namespace regauge {
namespace {

using Complex = std::complex<double>;
using Pair = RotaryClasses::Pair;

constexpr double kPi = std::numbers::pi;
constexpr double kSameAngle = 1e-12;

// The angle in [0, pi] with the same cosine, and the sign of its sine.
std::pair<double, double> character(double frequency) {
  const double angle = std::remainder(frequency, 2 * kPi);  // [-pi, pi]
  return {std::abs(angle), angle < 0 ? -1.0 : 1.0};
}

}  // namespace

Complex complex_part(const Matrix<double>& matrix, const Pair& p, const Pair& q) {
  const auto at = [&](int i, int j) { return matrix(p.first + i, q.first + j); };
  return {(at(0, 0) + p.sign * q.sign * at(1, 1)) / 2, (q.sign * at(0, 1) - p.sign * at(1, 0)) / 2};
}

void put_complex(Matrix<double>& matrix, const Pair& p, const Pair& q, const Complex& z) {
  matrix(p.first, q.first) = z.real();
  matrix(p.first + 1, q.first + 1) = p.sign * q.sign * z.real();
  matrix(p.first, q.first + 1) = q.sign * z.imag();
  matrix(p.first + 1, q.first) = -p.sign * z.imag();
}

RotaryClasses::RotaryClasses(std::int64_t size, const std::vector<double>& frequencies) {
  std::vector<double> angles;
  for (std::size_t b = 0; b < frequencies.size(); ++b) {
    const auto first = static_cast<std::int64_t>(2 * b);
    const auto [angle, sign] = character(frequencies[b]);
    if (angle < kSameAngle) {
      still.insert(still.end(), {first, first + 1});
    } else if (kPi - angle < kSameAngle) {
      half_turn.insert(half_turn.end(), {first, first + 1});
    } else {
      std::size_t c = 0;
      while (c < angles.size() && std::abs(angles[c] - angle) > kSameAngle * angle) ++c;
      if (c == angles.size()) {
        angles.push_back(angle);
        turning.emplace_back();
      }
      turning[c].push_back({first, sign});
    }
  }
  for (auto i = static_cast<std::int64_t>(2 * frequencies.size()); i < size; ++i)
    still.push_back(i);
}

std::vector<std::vector<std::int64_t>> RotaryClasses::real() const {
  std::vector<std::vector<std::int64_t>> classes;
  if (!still.empty()) classes.push_back(still);
  if (!half_turn.empty()) classes.push_back(half_turn);
  return classes;
}

RotaryCommutant::RotaryCommutant(std::int64_t size, const std::vector<double>& frequencies)
    : size_(size) {
  RotaryClasses classes(size, frequencies);
  real_ = classes.real();
  complex_ = std::move(classes.turning);
}

std::int64_t RotaryCommutant::dimension() const {
  std::int64_t dimension = 0;
  for (const auto& pairs : complex_) {
    const auto u = static_cast<std::int64_t>(pairs.size());
    dimension += 2 * u * u;
  }
  for (const auto& coordinates : real_) {
    const auto u = static_cast<std::int64_t>(coordinates.size());
    dimension += u * u;
  }
  return dimension;
}

std::string RotaryCommutant::name() const {
  std::map<std::size_t, std::size_t> multiplicities;
  for (const auto& pairs : complex_) ++multiplicities[pairs.size()];
  std::vector<std::string> parts;
  for (const auto& [u, count] : multiplicities) {
    parts.push_back(
        u == 1 ? fmt::format("(C*)^{}", count)
               : (count == 1 ? fmt::format("GL({},C)", u) : fmt::format("GL({},C)^{}", u, count)));
  }
  for (const auto& coordinates : real_) parts.push_back(fmt::format("GL({})", coordinates.size()));
  return fmt::format("{}", fmt::join(parts, " x "));
}

Matrix<double> RotaryCommutant::project(const Matrix<double>& matrix) const {
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  for (const auto& pairs : complex_) {
    for (const auto& p : pairs) {
      for (const auto& q : pairs) put_complex(result, p, q, complex_part(matrix, p, q));
    }
  }
  for (const auto& coordinates : real_) {
    for (const auto i : coordinates) {
      for (const auto j : coordinates) result(i, j) = matrix(i, j);
    }
  }
  return result;
}

Matrix<double> RotaryCommutant::random(Random& random) const {
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  for (const auto& pairs : complex_) {
    // A random phase of each pair times exp of a small member of the algebra.
    const auto u = static_cast<Eigen::Index>(pairs.size());
    const auto small = [&] { return 0.6 * (2 * random.uniform() - 1) / static_cast<double>(u); };
    Eigen::VectorXcd phases(u);
    Eigen::MatrixXcd algebra(u, u);
    for (Eigen::Index i = 0; i < u; ++i) {
      phases(i) = std::polar(1.0, 2 * kPi * random.uniform());
      for (Eigen::Index j = 0; j < u; ++j) {
        const double a = small(), b = small(), c = small(), d = small();
        algebra(i, j) = Complex(a + d, b - c) / 2.0;
      }
    }
    const Eigen::MatrixXcd member = phases.asDiagonal() * complex_matrix_exponential(algebra);
    for (Eigen::Index i = 0; i < u; ++i) {
      for (Eigen::Index j = 0; j < u; ++j) {
        put_complex(result, pairs[static_cast<std::size_t>(i)], pairs[static_cast<std::size_t>(j)],
                    member(i, j));
      }
    }
  }
  for (const auto& coordinates : real_) {
    const auto count = static_cast<std::int64_t>(coordinates.size());
    const Matrix<double> member = random_invertible(count, random);
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < count; ++j) {
        result(coordinates[static_cast<std::size_t>(i)], coordinates[static_cast<std::size_t>(j)]) =
            member(i, j);
      }
    }
  }
  return result;
}

double RotaryCommutant::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite() || !is_invertible(matrix)) return 1;
  return (matrix - project(matrix)).cwiseAbs().maxCoeff();
}

GainExchange::GainExchange(std::int64_t size, const std::vector<double>& frequencies)
    : size_(size) {
  RotaryClasses classes(size, frequencies);
  plain_ = classes.real();
  turning_ = std::move(classes.turning);
}

std::int64_t GainExchange::dimension() const {
  std::size_t dimension = 0;
  for (const auto& pairs : turning_) dimension += pairs.size();
  for (const auto& coordinates : plain_) dimension += coordinates.size();
  return static_cast<std::int64_t>(dimension);
}

std::string GainExchange::name() const {
  std::map<std::size_t, std::size_t> multiplicities;
  for (const auto& pairs : turning_) ++multiplicities[pairs.size()];
  std::vector<std::string> parts;
  for (const auto& [u, count] : multiplicities) {
    if (u == 1) {
      parts.push_back(fmt::format("(R>0 x Z4)^{}", count));
    } else {
      parts.push_back(count == 1 ? fmt::format("(R>0 x Z4) wr S({})", u)
                                 : fmt::format("((R>0 x Z4) wr S({}))^{}", u, count));
    }
  }
  for (const auto& coordinates : plain_) {
    parts.push_back(fmt::format("R* wr S({})", coordinates.size()));
  }
  return fmt::format("{}", fmt::join(parts, " x "));
}

double GainExchange::log2_components() const {
  double sum = 0;
  for (const auto& pairs : turning_) {
    const auto u = static_cast<std::int64_t>(pairs.size());
    sum += 2 * static_cast<double>(u) + log2_factorial(u);
  }
  for (const auto& coordinates : plain_) {
    const auto u = static_cast<std::int64_t>(coordinates.size());
    sum += static_cast<double>(u) + log2_factorial(u);
  }
  return sum;
}

Matrix<double> GainExchange::random(Random& random) const {
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  const auto modulus = [&] { return std::exp2(1.2 * random.uniform() - 0.6); };
  for (const auto& pairs : turning_) {
    const auto order = random.permutation(static_cast<std::int64_t>(pairs.size()));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      static constexpr Complex kQuarters[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
      const double scale = modulus();
      put_complex(result, pairs[i], pairs[static_cast<std::size_t>(order[i])],
                  scale * kQuarters[random.below(4)]);
    }
  }
  for (const auto& coordinates : plain_) {
    const auto order = random.permutation(static_cast<std::int64_t>(coordinates.size()));
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      const double scale = modulus();
      result(coordinates[i], coordinates[static_cast<std::size_t>(order[i])]) =
          random.coin() ? -scale : scale;
    }
  }
  return result;
}

Matrix<double> GainExchange::project(const Matrix<double>& matrix) const {
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  for (const auto& pairs : turning_) {
    for (const auto& p : pairs) put_complex(result, p, p, complex_part(matrix, p, p).real());
  }
  for (const auto& coordinates : plain_) {
    for (const auto i : coordinates) result(i, i) = matrix(i, i);
  }
  return result;
}

// Every class is carried to itself by one entry per row and column; the entry of a pair is a
// modulus times a quarter turn. Only the pattern of signs reaches q and k, so noise beside it would
// become a full entry: it must be exactly 0.
double GainExchange::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  Matrix<double> rest = matrix;
  std::vector<bool> taken(static_cast<std::size_t>(size_));
  const auto take = [&](std::int64_t column) {
    const bool first = !taken[static_cast<std::size_t>(column)];
    taken[static_cast<std::size_t>(column)] = true;
    return first;
  };
  double largest = 0;
  for (const auto& pairs : turning_) {
    for (const auto& p : pairs) {
      const auto size_at = [&](const Pair& q) { return std::abs(complex_part(matrix, p, q)); };
      const Pair q =
          *std::max_element(pairs.begin(), pairs.end(),
                            [&](const Pair& a, const Pair& b) { return size_at(a) < size_at(b); });
      const Matrix<double> block = matrix.block(p.first, q.first, 2, 2);
      const bool upright = block(0, 1) == 0 && block(1, 0) == 0;
      const bool turned = block(0, 0) == 0 && block(1, 1) == 0;
      if (turned == upright || size_at(q) == 0 || !take(q.first)) return 1;
      largest = std::max({largest, std::abs(block(0, 0) - p.sign * q.sign * block(1, 1)),
                          std::abs(q.sign * block(0, 1) + p.sign * block(1, 0))});
      rest.block(p.first, q.first, 2, 2).setZero();
    }
  }
  for (const auto& coordinates : plain_) {
    for (const auto i : coordinates) {
      std::int64_t column = coordinates.front();
      for (const auto j : coordinates) {
        if (std::abs(matrix(i, j)) > std::abs(matrix(i, column))) column = j;
      }
      if (matrix(i, column) == 0 || !take(column)) return 1;
      rest(i, column) = 0;
    }
  }
  return rest.isZero(0) ? largest : 1;
}

HalfTurns::HalfTurns(std::int64_t size, const std::vector<double>& frequencies) : size_(size) {
  const RotaryClasses classes(size, frequencies);
  for (const auto& pairs : classes.turning) {
    for (const auto& pair : pairs) runs_.push_back({pair.first, 2});
  }
  for (const auto& coordinates : classes.real()) {
    for (const std::int64_t i : coordinates) runs_.push_back({i, 1});
  }
}

std::string HalfTurns::name() const {
  return runs_.size() == 1 ? "±1" : fmt::format("±1^{}", runs_.size());
}

Matrix<double> HalfTurns::random(Random& random) const {
  Matrix<double> result = Matrix<double>::Identity(size_, size_);
  for (const Run& run : runs_) {
    if (random.coin()) result.diagonal().segment(run.first, run.size) *= -1;
  }
  return result;
}

Matrix<double> HalfTurns::project(const Matrix<double>& matrix) const {
  return Matrix<double>::Zero(matrix.rows(), matrix.cols());
}

double HalfTurns::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  Matrix<double> nearest = Matrix<double>::Zero(size_, size_);
  for (const Run& run : runs_) {
    const auto signs = matrix.diagonal().segment(run.first, run.size);
    nearest.diagonal().segment(run.first, run.size).setConstant(signs.sum() < 0 ? -1 : 1);
  }
  return (matrix - nearest).cwiseAbs().maxCoeff();
}

}  // namespace regauge
