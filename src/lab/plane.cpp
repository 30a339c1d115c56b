#include "regauge/lab/plane.h"

#include <algorithm>
#include <cmath>

namespace regauge::lab {
namespace {

constexpr double kBeyond = 0.2;  // of the extent, on each side

// sum over tensors of <x - origin, y - origin>
double inner(const Parameters<float>& origin, const Parameters<float>& x,
             const Parameters<float>& y) {
  double sum = 0;
  for (const auto& [name, at] : origin) {
    sum += (x.at(name) - at).cast<double>().cwiseProduct((y.at(name) - at).cast<double>()).sum();
  }
  return sum;
}

std::vector<double> steps(std::array<double, 3> through, std::int64_t size) {
  const auto [least, most] = std::minmax_element(through.begin(), through.end());
  const double margin = kBeyond * (*most - *least), first = *least - margin;
  std::vector<double> result;
  for (std::int64_t i = 0; i < size; ++i) {
    result.push_back(first + (*most - *least + 2 * margin) * static_cast<double>(i) /
                                 static_cast<double>(size - 1));
  }
  return result;
}

}  // namespace

Plane measure_plane(const Architecture& architecture, const Parameters<float>& a,
                    const Parameters<float>& b, const Parameters<float>& c, const Data& data,
                    std::int64_t size, std::int64_t most, Progress& progress) {
  const double width = std::sqrt(inner(a, b, b));
  const double along = inner(a, b, c) / width;
  const double height = std::sqrt(std::max(0.0, inner(a, c, c) - along * along));
  Plane plane;
  plane.b = {width, 0};
  plane.c = {along, height};
  plane.x = steps({0, width, along}, size);
  plane.y = steps({0, 0, height}, size);
  plane.loss.resize(size, size);
  progress.start("the plane", size * size);
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t column = 0; column < size; ++column) {
      // (x, y) = A + of_b (B - A) + of_c (C - A)
      const double of_c = height > 0 ? plane.y[static_cast<std::size_t>(row)] / height : 0;
      const double of_b = (plane.x[static_cast<std::size_t>(column)] - of_c * along) / width;
      Parameters<float> here;
      for (const auto& [name, at] : a) {
        here[name] = at + static_cast<float>(of_b) * (b.at(name) - at) +
                     static_cast<float>(of_c) * (c.at(name) - at);
      }
      plane.loss(row, column) = evaluate(architecture, here, data, most, Progress::silent()).loss;
      progress.advance(1);
    }
  }
  progress.finish();
  return plane;
}

}  // namespace regauge::lab
