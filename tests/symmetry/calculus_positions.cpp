#include "calculus_positions.h"

#include <Eigen/SVD>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace regauge::calculus_system {
namespace {

bool close(double f, double g) { return std::abs(f - g) < 1e-12; }

// A frequency counts modulo 2 pi; its sign only mirrors the pair.
double wrapped(double frequency) { return std::remainder(frequency, 2 * std::numbers::pi); }

// T5's bucket of (key position - query position).
std::int64_t bucket(const Attention& a, bool causal, std::int64_t relative) {
  std::int64_t buckets = a.relative_buckets, offset = 0;
  if (!causal) {
    buckets /= 2;
    if (relative > 0) offset = buckets;
  }
  const std::int64_t distance = std::abs(relative), exact = buckets / 2;
  if (distance < exact) return offset + distance;
  if (exact == 0 || a.relative_max_distance <= exact)
    return offset + std::max<std::int64_t>(buckets - 1, 0);
  const auto ratio = [&](std::int64_t d) {
    return std::log(static_cast<double>(d) / static_cast<double>(exact));
  };
  const double share = ratio(distance) / ratio(a.relative_max_distance);
  const auto large =
      exact + static_cast<std::int64_t>(share * static_cast<double>(buckets - exact));
  return offset + std::min(large, buckets - 1);
}

}  // namespace

std::vector<Rotation> rotations(const Attention& a) {
  const Index d = a.qk_width;
  std::vector<Rotation> result;
  // A turn by a place of real coordinates does not come round; far apart what turns by a column.
  const auto of_pair = [&](std::size_t b) {
    const double raw = a.rotary_frequencies[b];
    if (!a.grid) return wrapped(raw);
    return raw != 0 && b >= a.rotary_frequencies.size() / 2 ? raw + 1e4 : raw;
  };
  Dense fixed = Dense::Zero(d, d);
  for (Index i = a.rotary_dims; i < d; ++i) fixed(i, i) = 1;
  std::vector<double> done;
  for (std::size_t pair = 0; pair < a.rotary_frequencies.size(); ++pair) {
    const double frequency = std::abs(of_pair(pair));
    if (std::any_of(done.begin(), done.end(), [&](double f) { return close(f, frequency); })) {
      continue;
    }
    done.push_back(frequency);
    Dense cosine = Dense::Zero(d, d), sine = Dense::Zero(d, d);
    for (Index b = 0; 2 * b < a.rotary_dims; ++b) {
      const double f = of_pair(static_cast<std::size_t>(b));
      if (!close(std::abs(f), frequency)) continue;
      cosine(2 * b, 2 * b) = cosine(2 * b + 1, 2 * b + 1) = 1;
      sine(2 * b, 2 * b + 1) = f < 0 ? -1 : 1;
      sine(2 * b + 1, 2 * b) = -sine(2 * b, 2 * b + 1);
    }
    if (close(frequency, 0)) {
      fixed += cosine;
      continue;
    }
    result.push_back({cosine, false});
    if (a.grid || !close(frequency, std::numbers::pi)) result.push_back({sine, false});
  }
  if (!fixed.isZero()) result.push_back({fixed, true});
  return result;
}

std::set<std::int64_t> reached_buckets(const Architecture& model, std::int64_t layer) {
  const Attention& a = model.layer(layer).attention;
  const bool causal = model.is_causal(layer);
  const std::int64_t bound = a.relative_buckets + 2 * a.relative_max_distance + 1;
  const std::int64_t positions = model.has_position_table() ? model.max_positions : bound;
  std::set<std::int64_t> reached;
  for (std::int64_t t = 0; t < positions; ++t) {
    reached.insert(bucket(a, causal, -t));
    if (!causal) reached.insert(bucket(a, causal, t));
  }
  return reached;
}

Dense sinusoidal_hull(const Architecture& a, std::int64_t first) {
  const Index rows = a.max_positions - first, d = a.width;
  Dense table(std::max<Index>(rows, 0), d);
  for (Index t = 0; t < rows; ++t) {
    for (Index j = 0; j < d; ++j) table(t, j) = sinusoid(a, first + t, j);
  }
  if (rows <= 1) return table;
  const Dense differences = table.bottomRows(rows - 1).rowwise() - table.row(0);
  const Index rank = std::min(rows - 1, d);
  Dense basis = Dense::Identity(d, d);
  if (rank < d) {
    basis = Eigen::JacobiSVD<Dense>(differences, Eigen::ComputeThinV)
                .matrixV()
                .leftCols(rank)
                .transpose();
  }
  Dense hull(rank + 1, d);
  hull << table.row(0), basis.rowwise() + table.row(0);
  return hull;
}

}  // namespace regauge::calculus_system
