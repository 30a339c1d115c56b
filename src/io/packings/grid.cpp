#include "grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "io/float8.h"

namespace regauge::io {
namespace {

// Where two codes are as near quantisers take either, and they divide in float.
constexpr double kTie = 1e-3;  // of the distance

}  // namespace

Grid::Grid(std::vector<float> numbers, double beyond)
    : values(std::move(numbers)),
      below(values.size(), 0),
      above(values.size(), 0),
      ends(values.size(), 0) {
  std::vector<double> sorted;
  for (const float value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (sorted.size() < 2) return;
  for (std::size_t code = 0; code < values.size(); ++code) {
    if (!std::isfinite(values[code])) continue;
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), double{values[code]});
    const bool first = at == sorted.begin(), last = at + 1 == sorted.end();
    const double down = first ? at[1] - at[0] : at[0] - at[-1];
    const double up = last ? at[0] - at[-1] : at[1] - at[0];
    below[code] = (0.5 + kTie) * down + (first ? beyond : 0);
    above[code] = (0.5 + kTie) * up + (last ? beyond : 0);
    ends[code] = static_cast<signed char>(first ? -1 : last ? 1 : 0);
  }
}

Grid Grid::unsigned_integers(int bits, double beyond) {
  std::vector<float> values;
  for (int code = 0; code < 1 << bits; ++code) values.push_back(static_cast<float>(code));
  return Grid(std::move(values), beyond);
}

Grid Grid::integers_around(int bits, double beyond) {
  std::vector<float> values;
  const int middle = 1 << (bits - 1);
  for (int code = 0; code < 1 << bits; ++code) values.push_back(static_cast<float>(code - middle));
  return Grid(std::move(values), beyond);
}

Grid Grid::two_complement(double beyond) {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    values.push_back(static_cast<float>(code < 128 ? code : code - 256));
  }
  return Grid(std::move(values), beyond);
}

Grid Grid::floats8(DType dtype) {
  std::vector<float> values(256);
  for (std::size_t code = 0; code < values.size(); ++code) {
    const auto byte = static_cast<std::byte>(code);
    read_f8(dtype, &byte, &values[code], 1);
  }
  return Grid(std::move(values));
}

Grid Grid::e2m1(double beyond) {
  std::vector<float> values = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (std::size_t code = 0; code < 8; ++code) values.push_back(-values[code]);
  return Grid(std::move(values), beyond);
}

}  // namespace regauge::io
