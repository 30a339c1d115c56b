#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "summary.h"

namespace regauge::connect {
namespace {

template <std::size_t Size>
auto rank(const std::array<std::string_view, Size>& known, const std::string& name) {
  return std::pair(std::find(known.begin(), known.end(), name) - known.begin(), name);
}

// (is no number, its value, the text): what values are ordered by.
auto rank_of_value(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && *end == '\0' && std::isfinite(number);
  return std::tuple(!is_number, is_number ? number : 0, text);
}

}  // namespace

bool method_before(const std::string& left, const std::string& right) {
  static constexpr std::array<std::string_view, 7> kMethods = {
      "naive", "stage one", "orthogonal", "two_stage", "weights", "activations", "learned"};
  return rank(kMethods, left) < rank(kMethods, right);
}

bool scope_before(const std::string& left, const std::string& right) {
  static constexpr std::array<std::string_view, 4> kScopes = {"attention:0", "attention", "block:0",
                                                              "all"};
  return rank(kScopes, left) < rank(kScopes, right);
}

bool value_before(const std::string& left, const std::string& right) {
  return rank_of_value(left) < rank_of_value(right);
}

}  // namespace regauge::connect
