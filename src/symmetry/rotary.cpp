#include "regauge/symmetry/rotary.h"

#include <Eigen/LU>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <numbers>

namespace regauge {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kSameAngle = 1e-12;

// The angle in [0, pi] with the same cosine, and the sign of its sine.
std::pair<double, double> character(double frequency) {
  const double angle = std::remainder(frequency, 2 * kPi);  // [-pi, pi]
  return {std::abs(angle), angle < 0 ? -1.0 : 1.0};
}

}  // namespace

RotaryCommutant::RotaryCommutant(std::int64_t size, const std::vector<double>& frequencies)
    : size_(size) {
  std::vector<std::int64_t> still;
  std::vector<std::int64_t> half_turn;
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
        complex_.emplace_back();
      }
      complex_[c].push_back({first, sign});
    }
  }
  for (auto i = static_cast<std::int64_t>(2 * frequencies.size()); i < size; ++i)
    still.push_back(i);
  if (!still.empty()) real_.push_back(std::move(still));
  if (!half_turn.empty()) real_.push_back(std::move(half_turn));
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
      for (const auto& q : pairs) {
        const double re =
            (matrix(p.first, q.first) + p.sign * q.sign * matrix(p.first + 1, q.first + 1)) / 2;
        const double im =
            (q.sign * matrix(p.first, q.first + 1) - p.sign * matrix(p.first + 1, q.first)) / 2;
        result(p.first, q.first) = re;
        result(p.first + 1, q.first + 1) = p.sign * q.sign * re;
        result(p.first, q.first + 1) = q.sign * im;
        result(p.first + 1, q.first) = -p.sign * im;
      }
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
  // Complex classes: exp of a small algebra element after a random phase of each pair, which
  // reaches every component.
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  for (const auto& pairs : complex_) {
    const auto u = static_cast<std::int64_t>(pairs.size());
    // A random unitary-like start from phases, then a generic factor near the identity.
    Matrix<double> small = Matrix<double>::Zero(size_, size_);
    Matrix<double> phases = Matrix<double>::Identity(size_, size_);
    for (const auto& p : pairs) {
      const double angle = 2 * kPi * random.uniform();
      phases(p.first, p.first) = phases(p.first + 1, p.first + 1) = std::cos(angle);
      phases(p.first, p.first + 1) = p.sign * std::sin(angle);
      phases(p.first + 1, p.first) = -p.sign * std::sin(angle);
      for (const auto& q : pairs) {
        for (const std::int64_t i : {p.first, p.first + 1}) {
          for (const std::int64_t j : {q.first, q.first + 1}) {
            small(i, j) = 0.6 * (2 * random.uniform() - 1) / static_cast<double>(u);
          }
        }
      }
    }
    const Matrix<double> member = phases * matrix_exponential(project(small));
    for (const auto& p : pairs) {
      for (const auto& q : pairs) {
        result.block(p.first, q.first, 2, 2) = member.block(p.first, q.first, 2, 2);
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
  if (!matrix.allFinite() || !matrix.fullPivLu().isInvertible()) return 1;
  return (matrix - project(matrix)).cwiseAbs().maxCoeff();
}

GainExchange::GainExchange(std::int64_t size, const std::vector<double>& frequencies)
    : size_(size) {
  std::vector<std::int64_t> still;
  std::vector<std::int64_t> half_turn;
  for (std::size_t b = 0; b < frequencies.size(); ++b) {
    const auto first = static_cast<std::int64_t>(2 * b);
    const double angle = character(frequencies[b]).first;
    if (angle < kSameAngle) {
      still.insert(still.end(), {first, first + 1});
    } else if (kPi - angle < kSameAngle) {
      half_turn.insert(half_turn.end(), {first, first + 1});
    } else {
      pairs_.push_back(first);
    }
  }
  for (auto i = static_cast<std::int64_t>(2 * frequencies.size()); i < size; ++i)
    still.push_back(i);
  if (!still.empty()) plain_.push_back(std::move(still));
  if (!half_turn.empty()) plain_.push_back(std::move(half_turn));
}

std::int64_t GainExchange::dimension() const {
  auto dimension = static_cast<std::int64_t>(pairs_.size());
  for (const auto& coordinates : plain_) dimension += static_cast<std::int64_t>(coordinates.size());
  return dimension;
}

std::string GainExchange::name() const {
  std::vector<std::string> parts;
  if (!pairs_.empty()) parts.push_back(fmt::format("(R>0 x Z4)^{}", pairs_.size()));
  for (const auto& coordinates : plain_) {
    parts.push_back(fmt::format("R* wr S({})", coordinates.size()));
  }
  return fmt::format("{}", fmt::join(parts, " x "));
}

double GainExchange::log2_components() const {
  double sum = 2 * static_cast<double>(pairs_.size());
  for (const auto& coordinates : plain_) {
    const auto count = static_cast<double>(coordinates.size());
    sum += count + std::lgamma(count + 1) / std::log(2.0);
  }
  return sum;
}

Matrix<double> GainExchange::random(Random& random) const {
  Matrix<double> result = Matrix<double>::Zero(size_, size_);
  const auto modulus = [&] { return std::exp2(1.2 * random.uniform() - 0.6); };
  for (const auto i : pairs_) {
    const double scale = modulus();
    const auto quarter = random.below(4);
    const double c = quarter == 0 ? 1 : (quarter == 2 ? -1 : 0);
    const double s = quarter == 1 ? 1 : (quarter == 3 ? -1 : 0);
    result(i, i) = result(i + 1, i + 1) = scale * c;
    result(i, i + 1) = scale * s;
    result(i + 1, i) = -scale * s;
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
  for (const auto i : pairs_) {
    result(i, i) = result(i + 1, i + 1) = (matrix(i, i) + matrix(i + 1, i + 1)) / 2;
  }
  for (const auto& coordinates : plain_) {
    for (const auto i : coordinates) result(i, i) = matrix(i, i);
  }
  return result;
}

// Every class of coordinates is carried to itself by one entry per row and column; pairs are a
// modulus times a quarter turn.
double GainExchange::violation(const Matrix<double>& matrix) const {
  if (!matrix.allFinite()) return 1;
  Matrix<double> rest = matrix;
  double largest = 0;
  for (const auto i : pairs_) {
    largest = std::max({largest, std::abs(matrix(i, i) - matrix(i + 1, i + 1)),
                        std::abs(matrix(i, i + 1) + matrix(i + 1, i))});
    const bool turned = matrix(i, i) == 0 && matrix(i + 1, i + 1) == 0;
    const bool upright = matrix(i, i + 1) == 0 && matrix(i + 1, i) == 0;
    if (turned == upright) return 1;
    if (matrix.block(i, i, 1, 2).cwiseAbs().maxCoeff() == 0) return 1;
    rest.block(i, i, 2, 2).setZero();
  }
  for (const auto& coordinates : plain_) {
    std::vector<bool> taken(static_cast<std::size_t>(size_));
    for (const auto i : coordinates) {
      std::int64_t column = coordinates.front();
      for (const auto j : coordinates) {
        if (std::abs(matrix(i, j)) > std::abs(matrix(i, column))) column = j;
      }
      if (matrix(i, column) == 0 || taken[static_cast<std::size_t>(column)]) return 1;
      taken[static_cast<std::size_t>(column)] = true;
      rest(i, column) = 0;
    }
  }
  // Only the pattern of signs reaches q and k, so noise beside it would become a full entry.
  return rest.isZero(0) ? largest : 1;
}

}  // namespace regauge
