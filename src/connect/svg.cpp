#include "svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "io/page.h"

namespace regauge::connect {
namespace {

struct Colour {
  int red, green, blue;
};

// cividis (Nunez, Anderton and Renslow 2018) at ten equal distances.
constexpr std::array<Colour, 10> kScale = {{{0x00, 0x22, 0x4e},
                                            {0x12, 0x35, 0x70},
                                            {0x3b, 0x49, 0x6c},
                                            {0x57, 0x5d, 0x6d},
                                            {0x70, 0x71, 0x73},
                                            {0x8a, 0x86, 0x78},
                                            {0xa5, 0x9c, 0x74},
                                            {0xc3, 0xb3, 0x69},
                                            {0xe1, 0xcc, 0x55},
                                            {0xfe, 0xe8, 0x38}}};

constexpr char kStyle[] = R"css(
.chart { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.chart text { fill: #1d2026; } .chart .title { font-size: 14px; font-weight: 600; } .heat text { font-size: 11px; }
.heat g text, .heat .soft { text-anchor: middle; } .heat rect { rx: 2px; }
.chart .soft { fill: #626873; } .chart .rule { stroke: #dcd9d1; } .chart .axis { stroke: #8a8f98; }
.chart .k0 { color: #6b7280; } .chart .k1 { color: #9a7d00; } .chart .k2 { color: #d98200; } .chart .k3 { color: #c4421a; }
.chart .k4 { color: #2f86cf; } .chart .k5 { color: #a8508a; } .chart .k6 { color: #007a5a; } .chart .k7 { color: #24459a; }
.chart .k8 { color: #7a5230; } .chart .k9 { color: #0b7f8c; } .chart .k10 { color: #5f7a12; } .chart .k11 { color: #c2185b; }
@media (prefers-color-scheme: dark) {
.chart text { fill: #e8e6e1; } .chart .soft { fill: #9aa0ab; } .chart .rule { stroke: #33373f; } .chart .axis { stroke: #6b7078; }
.chart .k0 { color: #a7adb8; } .chart .k1 { color: #e6d84a; } .chart .k2 { color: #f2a33a; } .chart .k3 { color: #ff8359; }
.chart .k4 { color: #74bdf5; } .chart .k5 { color: #e39ccb; } .chart .k6 { color: #35cc9f; } .chart .k7 { color: #90a8ff; }
.chart .k8 { color: #c9a27a; } .chart .k9 { color: #4fd0dd; } .chart .k10 { color: #b3cf5a; } .chart .k11 { color: #ff7fb0; } }
.chart .line { stroke: currentColor; fill: none; stroke-width: 2; stroke-linejoin: round; }
.chart .mark { fill: currentColor; } .chart .band { fill: currentColor; opacity: .16; }
.chart .over { fill: transparent; } .chart .over:hover { fill: #8a8f98; opacity: .18; }
.chart .dark { fill: #15171b; } .chart .light { fill: #ffffff; }
.chart .contour { stroke: #ffffff; stroke-opacity: .45; stroke-width: .7; }
.chart .way { stroke: #ffffff; stroke-width: 1.6; fill: none; } .chart .spot { fill: #ffffff; stroke: #15171b; stroke-width: 1; }
.chart .halo { fill: #ffffff; stroke: #15171b; stroke-width: 3px; paint-order: stroke; font-weight: 600; }
)css";

}  // namespace

const char* chart_style() { return kStyle; }

Svg::Svg(double width, double height, std::string_view kind, std::string_view name,
         Medium placement) {
  line(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart {}\" role=\"img\" "
      "aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\">",
      kind, io::escaped(name), width, height, width, height);
  if (placement == Medium::file) line("<style>{}</style>", kStyle);
}

void Svg::text(double x, double y, std::string_view attributes, std::string_view raw) {
  line("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>", x, y, attributes.empty() ? "" : " ",
       attributes, io::escaped(raw));
}

std::string Svg::finished() && {
  out_ += "</svg>\n";
  return std::move(out_);
}

namespace {

// Enough for three figures of `size`, within reason.
int decimals_of(double size) {
  if (size >= 100) return 1;
  return size >= 0.1 ? 3 : size >= 0.01 ? 4 : 5;
}

}  // namespace

std::string shown(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 || (size < 1e-4 && size > 0)) return fmt::format("{:.2e}", value);
  return fmt::format("{:.{}f}", value, decimals_of(size == 0 ? 1 : size));
}

std::string shown_spread(double value, double of) {
  const double size = std::abs(of);
  if (size >= 1e6 || size < 1e-4) return shown(value);
  return fmt::format("{:.{}f}", value, decimals_of(size));
}

std::string shown(double value, bool percent) {
  return percent ? fmt::format("{:.1f} %", 100 * value) : shown(value);
}

std::string scale_colour(double where) {
  const double at = std::clamp(where, 0.0, 1.0) * (kScale.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(at), kScale.size() - 2);
  const double part = at - static_cast<double>(i);
  const auto mixed = [&](int from, int to) {
    return static_cast<int>(std::lround(from + part * (to - from)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(kScale[i].red, kScale[i + 1].red),
                     mixed(kScale[i].green, kScale[i + 1].green),
                     mixed(kScale[i].blue, kScale[i + 1].blue));
}

const char* colour_on_scale(double where) { return where > 0.5 ? "dark" : "light"; }

std::string mark_path(int look, double x, double y) {
  const auto polygon = [&](std::initializer_list<std::pair<double, double>> corners) {
    std::string path;
    for (const auto& [dx, dy] : corners) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x + dx, y + dy);
    }
    return path + "Z";
  };
  switch (look % 8) {
    case 0:
      return fmt::format("M{:.1f} {:.1f}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", x - 3, y);
    case 1:
      return polygon({{-3, -3}, {3, -3}, {3, 3}, {-3, 3}});
    case 2:
      return polygon({{0, -4}, {3.6, 3}, {-3.6, 3}});
    case 3:
      return polygon({{0, -4}, {4, 0}, {0, 4}, {-4, 0}});
    case 4:
      return polygon({{0, 4}, {3.6, -3}, {-3.6, -3}});
    case 5:
      return polygon({{-4, -1.2}, {4, -1.2}, {4, 1.2}, {-4, 1.2}});
    case 6:
      return polygon({{-1.3, -4},
                      {1.3, -4},
                      {1.3, -1.3},
                      {4, -1.3},
                      {4, 1.3},
                      {1.3, 1.3},
                      {1.3, 4},
                      {-1.3, 4},
                      {-1.3, 1.3},
                      {-4, 1.3},
                      {-4, -1.3},
                      {-1.3, -1.3}});
    default:
      return polygon({{-1.2, -4}, {1.2, -4}, {1.2, 4}, {-1.2, 4}});
  }
}

const char* dash_of(int look) {
  static constexpr std::array<const char*, kLooks> kDashes = {"none", "2 3",     "5 3",  "9 3 2 3",
                                                              "none", "6 2",     "none", "1 3",
                                                              "3 2",  "7 2 1 2", "4 4",  "2 2"};
  return kDashes[static_cast<std::size_t>(look % kLooks)];
}

int look_of(const std::string& method, int other) {
  static constexpr std::array<std::string_view, 7> kMethods = {
      "naive", "stage one", "orthogonal", "two_stage", "weights", "activations", "learned"};
  const auto found = std::find(kMethods.begin(), kMethods.end(), method);
  const auto known = static_cast<int>(kMethods.size());
  if (found == kMethods.end()) return known + other % (kLooks - known);
  return static_cast<int>(found - kMethods.begin());
}

double text_width(std::string_view text, double font_size) {
  const auto letters =
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
  return 0.56 * font_size * static_cast<double>(letters);
}

std::vector<double> ticks(double low, double high, int most) {
  if (!(high > low)) return {low};
  const double rough = (high - low) / std::max(most, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= rough * 0.999) step = factor * power;
  }
  std::vector<double> result;
  const double first = std::floor(low / step + 1e-9);
  for (double i = first; result.size() < 100; ++i) {
    result.push_back(i * step);
    if (i * step >= high - 1e-9 * step) break;
  }
  return result;
}

}  // namespace regauge::connect
