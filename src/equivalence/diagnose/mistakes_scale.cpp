// Scales that were lost, or are another tensor's: numbers that are A's but for a factor of each
// block. Where the codes are known, misread.h says more.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "change.h"
#include "io/float8.h"

namespace regauge {
namespace {

constexpr double kExplains = 0.2;    // of B, what a factor may leave: no more than four bits do
constexpr double kLittleLeft = 0.3;  // of the difference
constexpr Eigen::Index kLeastInBlock =
    16;  // numbers of a block, so that one factor explains something

// ScaleBlocks of a matrix; 0: the whole side.
struct ScaleBlocks {
  Eigen::Index rows, cols;
};

// The factor of each block, one after another along the rows.
struct Factors {
  ScaleBlocks blocks;
  Matrix<double> values;

  double at(Eigen::Index row, Eigen::Index col) const {
    return values(row / blocks.rows, col / blocks.cols);
  }
};

Factors factors_of(const Matrix<double>& a, const Matrix<double>& b, ScaleBlocks blocks) {
  const auto count = [](Eigen::Index side, Eigen::Index block) { return (side - 1) / block + 1; };
  Factors result{blocks, {}};
  result.values.resize(count(a.rows(), blocks.rows), count(a.cols(), blocks.cols));
  for (Eigen::Index i = 0; i < result.values.rows(); ++i) {
    for (Eigen::Index j = 0; j < result.values.cols(); ++j) {
      const Eigen::Index row = i * blocks.rows, col = j * blocks.cols;
      const Eigen::Index rows = std::min(blocks.rows, a.rows() - row);
      const Eigen::Index cols = std::min(blocks.cols, a.cols() - col);
      const auto of_a = a.block(row, col, rows, cols), of_b = b.block(row, col, rows, cols);
      const double squares = of_a.squaredNorm();
      result.values(i, j) = squares > 0 ? of_a.cwiseProduct(of_b).sum() / squares : 1;
    }
  }
  return result;
}

Matrix<double> divided(const Matrix<double>& value, const Factors& factors) {
  Matrix<double> result = value;
  for (Eigen::Index i = 0; i < value.rows(); ++i) {
    for (Eigen::Index j = 0; j < value.cols(); ++j) result(i, j) /= factors.at(i, j);
  }
  return result;
}

bool factors_explain(const Matrix<double>& a, const Matrix<double>& b, const Factors& factors) {
  if (!(factors.values.minCoeff() > 0) || !factors.values.allFinite()) return false;
  const double left = (divided(b, factors) - a).norm();
  return left <= kExplains * a.norm() && left <= kLittleLeft * (b - a).norm();
}

// The widest blocks with one factor each.
std::optional<Factors> found_factors(const Matrix<double>& a, const Matrix<double>& b) {
  std::vector<ScaleBlocks> candidates = {{a.rows(), a.cols()}, {1, a.cols()}, {a.rows(), 1}};
  for (const Eigen::Index side : {256, 128, 64, 32, 16}) {
    candidates.insert(candidates.end(), {{side, side}, {1, side}, {side, 1}});
  }
  for (const ScaleBlocks& blocks : candidates) {
    const bool fits = blocks.rows <= a.rows() && blocks.cols <= a.cols();
    if (!fits || blocks.rows * blocks.cols < kLeastInBlock) continue;
    Factors factors = factors_of(a, b, blocks);
    if (factors_explain(a, b, factors)) return factors;
  }
  return std::nullopt;
}

// Every number is one that codes stand for, and they reach as far: integers of four or eight bits,
// or floats of eight.
std::string bare_codes(const Matrix<double>& value) {
  const double most = value.cwiseAbs().maxCoeff();
  constexpr double kFar = 4, kInteger = 256;
  if (!(most >= kFar)) return "";
  const auto all = [&](auto holds) {
    return std::all_of(value.data(), value.data() + value.size(), holds);
  };
  if (most <= kInteger && all([](double x) { return x == std::nearbyint(x); })) return "integers";
  std::vector<float> known(256);
  for (std::size_t code = 0; code < known.size(); ++code) {
    const auto byte = static_cast<std::byte>(code);
    io::read_f8(DType::f8_e4m3, &byte, &known[code], 1);
  }
  std::erase_if(known, [](float x) { return std::isnan(x); });
  std::ranges::sort(known);
  const bool floats =
      all([&](double x) { return std::ranges::binary_search(known, static_cast<float>(x)); });
  return floats ? "floats of eight bits" : "";
}

std::string how_scaled(const Matrix<double>& a, const Factors& factors) {
  const double least = factors.values.minCoeff(), most = factors.values.maxCoeff();
  if (factors.values.size() == 1) return fmt::format("all numbers are {:.3g} times A's", most);
  const auto& [rows, cols] = factors.blocks;
  const std::string block = rows == a.rows()   ? "column"
                            : cols == a.cols() ? "row"
                                               : fmt::format("block of {} x {}", rows, cols);
  return fmt::format("each {} has a factor of its own, {:.2g} to {:.2g}", block, least, most);
}

}  // namespace

void add_scale_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (!pair.misread) return;  // in recovered coordinates factors may be the element's
  for (const auto& spec : parameter_specs(pair.architecture, layer)) {
    if (spec.rows == 1 || spec.cols == 1) continue;
    if (auto change = pair.misread(spec)) {
      changes.push_back(std::move(*change));
      continue;
    }
    const Matrix<double> a = pair.a(spec.name), b = pair.b(spec.name);
    if (a.rows() != b.rows() || a.cols() != b.cols() || !b.allFinite() || a == b) continue;
    const auto factors = found_factors(a, b);
    if (!factors) continue;
    Change change;
    const std::string codes = bare_codes(b);
    change.mistake = codes.empty() ? Mistake::scale_other : Mistake::scale_missing;
    change.what = codes.empty() ? how_scaled(a, *factors)
                                : fmt::format("the scales are missing: its numbers are {}", codes);
    change.repair = codes.empty() ? "divide by the factors" : "multiply by the scales";
    Patch patch = changed(spec.name, [factors = *factors](const Matrix<double>& value) {
      return divided(value, factors);
    });
    patch.does = Patch::Does::scale;
    change.undo[spec.name] = std::move(patch);
    changes.push_back(std::move(change));
  }
}

}  // namespace regauge
