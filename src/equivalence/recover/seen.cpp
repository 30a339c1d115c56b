#include "seen.h"

#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>

#include "regauge/base/error.h"

namespace regauge {
namespace {

using nlohmann::json;

constexpr std::size_t kDigits = 16;  // hexadecimal ones, of the 64 bits of a number

json as_json(const Matrix<double>& matrix) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  digits.reserve(kDigits * static_cast<std::size_t>(matrix.size()));
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    const auto bits = std::bit_cast<std::uint64_t>(matrix.data()[i]);
    for (std::size_t digit = kDigits; digit-- > 0;) digits += kHex[bits >> (4 * digit) & 15U];
  }
  return {{"rows", matrix.rows()}, {"cols", matrix.cols()}, {"bits", std::move(digits)}};
}

[[noreturn]] void refuse() {
  throw UsageError("[parts] what a part found of a layer is damaged; make it again");
}

Matrix<double> matrix_from(const json& value) {
  const auto rows = value.at("rows").get<std::int64_t>(),
             cols = value.at("cols").get<std::int64_t>();
  const auto& digits = value.at("bits").get_ref<const std::string&>();
  const auto numbers = static_cast<std::int64_t>(digits.size() / kDigits);
  const bool fits = rows >= 0 && cols >= 0 && digits.size() % kDigits == 0 &&
                    (cols == 0 ? numbers == 0 : numbers / cols == rows && numbers % cols == 0);
  if (!fits) refuse();
  Matrix<double> matrix(rows, cols);
  for (Eigen::Index i = 0; i < matrix.size(); ++i) {
    const char* const first = digits.data() + kDigits * static_cast<std::size_t>(i);
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(first, first + kDigits, bits, 16);
    if (error != std::errc() || end != first + kDigits) refuse();
    matrix.data()[i] = std::bit_cast<double>(bits);
  }
  return matrix;
}

}  // namespace

void to_json(json& value, const Seen& seen) {
  json maps = json::object(), shifts = json::object();
  for (const auto& [name, map] : seen.found.maps) {
    maps[name] = {{"count", map.count()},
                  {"width", map.width()},
                  {"permutation", map.permutation()},
                  {"blocks", as_json(map.blocks())}};
  }
  for (const auto& [name, shift] : seen.found.shifts) shifts[name] = as_json(shift);
  value = {{"maps", maps}, {"shifts", shifts}};
}

void from_json(const json& value, Seen& seen) {
  for (const auto& [name, map] : value.at("maps").items()) {
    seen.found.maps[name] = BlockMap<double>(
        map.at("count").get<std::int64_t>(), map.at("width").get<std::int64_t>(),
        map.at("permutation").get<std::vector<std::int64_t>>(), matrix_from(map.at("blocks")));
  }
  for (const auto& [name, shift] : value.at("shifts").items()) {
    seen.found.shifts[name] = matrix_from(shift);
  }
}

}  // namespace regauge
