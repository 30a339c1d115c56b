#include "stretches.h"

#include <algorithm>
#include <cstddef>

#include "equivalence/tolerances.h"

namespace regauge {
namespace {

constexpr std::size_t kStretch = 256;
// A scale in F16 loses up to 2^-25, times factors and levels of less than 512.
constexpr double kLeastNumber = 0x1p-16;

bool alike(std::span<const double> a, std::span<const double> b) {
  double squares = 0, product = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += a[i] * a[i] + b[i] * b[i];
    product += a[i] * b[i];
    largest = std::max({largest, a[i] - b[i], b[i] - a[i]});
  }
  return largest <= kLeastNumber || 2 * product >= kAlikeStretch * squares;
}

}  // namespace

void Stretches::add(std::span<const double> a, std::span<const double> b) {
  for (std::size_t first = 0; first < a.size(); first += kStretch) {
    const std::size_t length = std::min(kStretch, a.size() - first);
    ++count_;
    if (!alike(a.subspan(first, length), b.subspan(first, length))) ++unlike_;
  }
}

}  // namespace regauge
