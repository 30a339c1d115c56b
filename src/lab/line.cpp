#include "regauge/lab/line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "regauge/base/error.h"

namespace regauge::lab {

double Line::excess(std::size_t point) const {
  const Point& at = points.at(point);
  return at.score.loss - (1 - at.t) * points.front().score.loss - at.t * points.back().score.loss;
}

double Line::excess_error(std::size_t point) const {
  if (point == 0 || point + 1 == points.size()) return 0;
  const auto& [t, here] = points.at(point);
  const Score& a = points.front().score;
  const Score& b = points.back().score;
  const double mean = excess(point);
  double spread = 0;
  for (std::size_t i = 0; i < here.by_example.size(); ++i) {
    const double sum =
        here.by_example[i].loss - (1 - t) * a.by_example[i].loss - t * b.by_example[i].loss;
    spread += std::pow(sum - mean * static_cast<double>(here.by_example[i].targets), 2);
  }
  const auto n = static_cast<double>(here.examples);
  return std::sqrt(spread * n / (n - 1)) / static_cast<double>(here.targets);
}

template <class Scalar>
Line measure_line(const Architecture& architecture, const Parameters<Scalar>& a,
                  const Parameters<Scalar>& b, const Data& data, std::int64_t points,
                  std::int64_t most, Progress& progress) {
  if (points < 2) throw UsageError("a line has at least its two ends as points");
  Line line;
  progress.start("the line", points);
  for (std::int64_t i = 0; i < points; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(points - 1);
    Parameters<Scalar> between;
    for (const auto& [name, value] : a) {
      between[name] = static_cast<Scalar>(1 - t) * value + static_cast<Scalar>(t) * b.at(name);
    }
    line.points.push_back({t, evaluate(architecture, between, data, most, Progress::silent())});
    if (!std::isfinite(line.points.back().score.loss)) {
      throw UsageError(
          fmt::format("[line] the loss is not finite at t = {:.3g}: numbers grow too large between "
                      "these models; align them, or try --double",
                      t));
    }
    progress.advance(1);
  }
  progress.finish();
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    if (const double excess = line.excess(i); excess > line.barrier || i == 0) {
      line.barrier = excess;
      line.barrier_at = line.points[i].t;
      line.barrier_error = line.excess_error(i);
    }
  }
  // An end has no error of its own: a barrier of 0 is as uncertain as the points between.
  const bool at_an_end = line.barrier_at == 0 || line.barrier_at == 1;
  for (std::size_t i = 0; at_an_end && i < line.points.size(); ++i) {
    line.barrier_error = std::max(line.barrier_error, line.excess_error(i));
  }
  return line;
}

template Line measure_line(const Architecture&, const Parameters<float>&, const Parameters<float>&,
                           const Data&, std::int64_t, std::int64_t, Progress&);
template Line measure_line(const Architecture&, const Parameters<double>&,
                           const Parameters<double>&, const Data&, std::int64_t, std::int64_t,
                           Progress&);

}  // namespace regauge::lab
