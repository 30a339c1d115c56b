#pragma once

#include <array>
#include <vector>

#include "regauge/arch/parameters.h"
#include "regauge/lab/objective.h"

namespace regauge::lab {

// Losses on the plane through three models, in coordinates of equal length: A is (0, 0), B (x, 0).
struct Plane {
  std::vector<double> x, y;
  Matrix<double> loss;  // y.size() rows, x.size() columns
  std::array<double, 2> a{}, b{}, c{};
};

// `size` points along each side, which reach beyond the models by a fifth. Progress counts points.
Plane measure_plane(const Architecture& architecture, const Parameters<float>& a,
                    const Parameters<float>& b, const Parameters<float>& c, const Data& data,
                    std::int64_t size, std::int64_t most, Progress& progress);

}  // namespace regauge::lab
