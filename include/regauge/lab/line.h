#pragma once

#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/lab/objective.h"

namespace regauge::lab {

// Losses on the straight line between two models, theta_t = (1 - t) A + t B.
struct Line {
  struct Point {
    double t = 0;
    Score score;
  };
  std::vector<Point> points;  // t from 0 to 1 at equal distances

  // max_t [L(t) - (1-t) L(0) - t L(1)] over the points: at least 0, which it is at the ends.
  double barrier = 0;
  double barrier_at = 0;
  // Its standard error from the spread over examples, each compared with itself at the ends: what
  // all three losses have in common counts for nothing. NaN for a single example, 0 at the ends.
  // The point is taken as given: where several are as high, the largest of them is a little more
  // than its own mean.
  double barrier_error = 0;

  // L(t) - (1-t) L(0) - t L(1) of one point, and its standard error.
  double excess(std::size_t point) const;
  double excess_error(std::size_t point) const;
};

// At `points` >= 2 points, on the same examples of the data (as evaluate takes them); A and B have
// the same tensors. Progress counts points. Instantiated for float and double.
template <class Scalar>
Line measure_line(const Architecture& architecture, const Parameters<Scalar>& a,
                  const Parameters<Scalar>& b, const Data& data, std::int64_t points,
                  std::int64_t most, Progress& progress);

}  // namespace regauge::lab
