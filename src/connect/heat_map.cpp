#include <algorithm>
#include <cmath>

#include "io/page.h"
#include "svg.h"

namespace regauge::connect {
namespace {

constexpr double kCell = 34, kRow = 20, kFont = 11;

// ".93", "1.2", "12": three letters at most for what residuals are.
std::string short_number(double value) {
  if (value == 0) return "0";
  if (std::abs(value) >= 9.95) return fmt::format("{:.0f}", value);
  if (std::abs(value) >= 0.995) return fmt::format("{:.2f}", value);
  const std::string text = fmt::format("{:.2f}", value);
  return text.starts_with("0.") ? text.substr(1) : text;
}

}  // namespace

std::string heat_map(const HeatMap& map, Medium placement) {
  double label = 0;
  for (const auto& row : map.rows) label = std::max(label, text_width(row, kFont));
  const bool titled = placement == Medium::file && !map.title.empty();
  const double left = std::ceil(label) + 8, top = titled ? 44 : 22;
  const double across = kCell * static_cast<double>(std::max<std::size_t>(map.columns.size(), 1));
  Svg svg(left + across + 2, top + kRow * static_cast<double>(map.rows.size()) + 4, "heat",
          map.title, placement);
  if (titled) svg.text(0, 16, "class=\"title\"", map.title);
  for (std::size_t i = 0; i < map.columns.size(); ++i) {
    svg.text(left + kCell * (static_cast<double>(i) + 0.5), top - 6, "class=\"soft\"",
             map.columns[i]);
  }
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const double y = top + kRow * static_cast<double>(i);
    svg.text(left - 6, y + 14, "text-anchor=\"end\"", map.rows[i]);
    const auto& values = map.values.at(i);
    const double width = values.size() == 1 ? across : kCell;
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (!std::isfinite(values[j])) continue;
      const double where = map.high > map.low ? (values[j] - map.low) / (map.high - map.low) : 0;
      const double x = left + kCell * static_cast<double>(j);
      svg.line(
          "<g><title>{}{}: {}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" "
          "height=\"{:.0f}\" fill=\"{}\"/><text class=\"{}\" x=\"{:.0f}\" "
          "y=\"{:.0f}\">{}</text></g>",
          io::escaped(map.rows[i]),
          values.size() > 1 && j < map.columns.size() ? ", " + io::escaped(map.columns[j]) : "",
          shown(values[j]), x + 1, y + 1, width - 2, kRow - 2, scale_colour(where),
          colour_on_scale(where), x + width / 2, y + 14, short_number(values[j]));
    }
  }
  return std::move(svg).finished();
}

std::string scale_key(double low, double high) {
  constexpr int kSteps = 20;
  Svg svg(260, 20, "key", fmt::format("Colours from {} to {}", shown(low), shown(high)),
          Medium::page);
  svg.text(0, 14, "class=\"soft\"", fmt::format("{:.3g}", low));
  for (int i = 0; i < kSteps; ++i) {
    svg.line("<rect x=\"{}\" y=\"4\" width=\"9\" height=\"12\" fill=\"{}\"/>", 14 + 9 * i,
             scale_colour(i / (kSteps - 1.0)));
  }
  svg.text(20 + 9 * kSteps, 14, "class=\"soft\"", fmt::format("{:.3g}", high));
  return std::move(svg).finished();
}

}  // namespace regauge::connect
