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
  is_even_ = true;
  for (std::size_t i = 2; i < sorted.size(); ++i) {
    is_even_ = is_even_ && sorted[i] - sorted[i - 1] == sorted[1] - sorted[0];
  }
  for (const double number : sorted) {
    const auto at = std::find_if(values.begin(), values.end(),
                                 [&](float value) { return double{value} == number; });
    ascending_.push_back(static_cast<std::size_t>(at - values.begin()));
  }
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

double Grid::needed(std::size_t code, double share) const {
  const auto half = [&](std::size_t at) { return std::max(below[at], above[at]); };
  if (is_even_ || !(share > 0) || !std::isfinite(values[code])) return half(code) * share;
  const double scaled = values[code] / share;
  const auto behind =
      std::lower_bound(ascending_.begin(), ascending_.end(), scaled,
                       [&](std::size_t at, double number) { return values[at] < number; });
  if (behind == ascending_.begin()) return half(*behind) * share;
  const auto before = behind - 1;
  const bool after =
      behind != ascending_.end() && values[*behind] - scaled < scaled - values[*before];
  return half(after ? *behind : *before) * share;
}

double Grid::reach() const {
  if (ascending_.empty()) return 0;
  const double least = values[ascending_.front()], most = values[ascending_.back()];
  return least < 0 ? std::min(-least, most) : most;
}

Grid Grid::unsigned_integers(int bits, double beyond) {
  std::vector<float> values;
  for (int code = 0; code < 1 << bits; ++code) values.push_back(static_cast<float>(code));
  Grid grid(std::move(values), beyond);
  grid.integers = Integers::from_first;
  return grid;
}

Grid Grid::integers_around(int bits, double beyond) {
  std::vector<float> values;
  const int middle = 1 << (bits - 1);
  for (int code = 0; code < 1 << bits; ++code) values.push_back(static_cast<float>(code - middle));
  Grid grid(std::move(values), beyond);
  grid.integers = Integers::from_first;
  return grid;
}

Grid Grid::two_complement(double beyond) {
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    values.push_back(static_cast<float>(code < 128 ? code : code - 256));
  }
  Grid grid(std::move(values), beyond);
  grid.integers = Integers::with_sign;
  return grid;
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
