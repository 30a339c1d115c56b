#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "io/page.h"
#include "svg.h"

namespace regauge::connect {
namespace {

constexpr double kWidth = 400, kHeight = 250, kLeft = 50, kRight = 12, kBottom = 42,
                 kLegendFont = 12;

// The smallest interval of ticks around all of it.
std::pair<double, double> range_of(const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto take = [&](const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  };
  for (const Series& one : series) {
    take(one.y);
    take(one.low);
    take(one.high);
  }
  if (!std::isfinite(low)) return {0, 1};
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high <= low) high = low + (low == 0 ? 1 : std::abs(low));
  return {low, high};
}

std::pair<double, double> x_range(const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& one : series) {
    for (const double x : one.x) {
      low = std::min(low, x);
      high = std::max(high, x);
    }
  }
  return std::isfinite(low) && high > low ? std::pair(low, high) : std::pair(0.0, 1.0);
}

class LineChart {
 public:
  LineChart(const std::vector<Series>& series, const LineLabels& labels, Medium placement)
      : series_(series),
        labels_(labels),
        top_(placement == Medium::file && !labels.title.empty() ? 42 : 24),
        plot_(kHeight - 24 - kBottom),
        svg_(kWidth, top_ + plot_ + kBottom + legend_rows() * 18, "lines",
             labels.title.empty() ? labels.y : labels.title, placement) {
    y_ticks_ = ticks(0, 1, 5);
    const auto [low, high] = labels.y_range.value_or(range_of(series));
    y_ticks_ = ticks(low, high, 5);
    std::tie(x_low_, x_high_) = x_range(series);
    if (top_ > 24) svg_.text(0, 16, "class=\"title\"", labels.title);
  }

  std::string drawn() && {
    axes();
    for (const Series& one : series_) band(one);
    for (const Series& one : series_) line(one);
    values();
    if (labels_.legend) legend();
    return std::move(svg_).finished();
  }

 private:
  double x(double value) const {
    const double part = labels_.log_x ? std::log(value / x_low_) / std::log(x_high_ / x_low_)
                                      : (value - x_low_) / (x_high_ - x_low_);
    return kLeft + part * (kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double low = y_ticks_.front(), high = y_ticks_.back();
    const double part = high > low ? (value - low) / (high - low) : 0;
    return top_ + plot_ * (1 - std::clamp(part, 0.0, 1.0));
  }

  void axes() {
    svg_.text(4, top_ - 10, "class=\"soft\"", labels_.y);
    for (const double tick : y_ticks_) {
      svg_.line("<path class=\"{}\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>",
                tick == y_ticks_.front() ? "axis" : "rule", kLeft, y(tick), kWidth - kRight);
      svg_.text(
          kLeft - 6, y(tick) + 4, "class=\"soft\" text-anchor=\"end\"",
          labels_.percent ? fmt::format("{:.3g} %", 100 * tick) : fmt::format("{:.4g}", tick));
    }
    const std::vector<double> at = labels_.log_x ? places() : ticks(x_low_, x_high_, 4);
    for (const double tick : at) {
      if (tick > x_high_ + 1e-9) break;
      svg_.text(x(tick), top_ + plot_ + 16, "class=\"soft\" text-anchor=\"middle\"",
                fmt::format("{:.4g}", tick));
    }
    svg_.text((kLeft + kWidth - kRight) / 2, top_ + plot_ + 33,
              "class=\"soft\" text-anchor=\"middle\"", labels_.x);
  }

  void band(const Series& one) {
    if (one.low.size() != one.y.size() || one.high.size() != one.y.size()) return;
    std::string path;
    for (std::size_t i = 0; i < one.y.size(); ++i) {
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(one.x[i]), y(one.high[i]));
    }
    for (std::size_t i = one.y.size(); i-- > 0;) {
      path += fmt::format("L{:.1f} {:.1f}", x(one.x[i]), y(one.low[i]));
    }
    if (!path.empty()) {
      svg_.line("<path class=\"band k{}\" d=\"{}Z\"/>", one.look % kLooks, path);
    }
  }

  void line(const Series& one) {
    std::string points, marks;
    const std::size_t stride = one.y.size() / 9 + 1;
    for (std::size_t i = 0; i < std::min(one.x.size(), one.y.size()); ++i) {
      if (!std::isfinite(one.x[i]) || !std::isfinite(one.y[i])) continue;
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x(one.x[i]), y(one.y[i]));
      if (i % stride == 0) marks += mark_path(one.look, x(one.x[i]), y(one.y[i]));
    }
    svg_.line("<polyline class=\"line k{}\" stroke-dasharray=\"{}\" points=\"{}\"/>",
              one.look % kLooks, dash_of(one.look), points);
    svg_.line("<path class=\"mark k{}\" d=\"{}\"/>", one.look % kLooks, marks);
  }

  // All x, each once.
  std::vector<double> places() const {
    std::set<double> distinct;
    for (const Series& one : series_) distinct.insert(one.x.begin(), one.x.end());
    return {distinct.begin(), distinct.end()};
  }

  // A strip for each x that tells, where the reader points, what all series are there.
  void values() {
    const std::vector<double> at = places();
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double left = i == 0 ? x(at[i]) : (x(at[i - 1]) + x(at[i])) / 2;
      const double right = i + 1 == at.size() ? x(at[i]) : (x(at[i]) + x(at[i + 1])) / 2;
      std::string told = fmt::format("{:.4g}", at[i]);
      for (const Series& one : series_) {
        const auto found = std::find(one.x.begin(), one.x.end(), at[i]);
        if (found == one.x.end()) continue;
        const auto j = static_cast<std::size_t>(found - one.x.begin());
        told += "&#10;" + io::escaped(one.name) + " " + shown(one.y[j], labels_.percent);
        if (one.low.size() == one.y.size() && one.high.size() == one.y.size()) {
          told += fmt::format(" ({} to {})", shown(one.low[j], labels_.percent),
                              shown(one.high[j], labels_.percent));
        }
      }
      svg_.line(
          "<rect class=\"over\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">"
          "<title>{}</title></rect>",
          left, top_, std::max(right - left, 1.0), plot_, told);
    }
  }

  // Calls `place(series, x, row)` for each name of the legend, as they fit in rows.
  template <class Place>
  void place_legend(Place place) const {
    double across = 0;
    int row = 0;
    for (const Series& one : series_) {
      const double width = 46 + text_width(one.name, kLegendFont);
      if (across > 0 && kLeft + across + width > kWidth) {
        across = 0;
        ++row;
      }
      place(one, kLeft + across, row);
      across += width;
    }
  }
  int legend_rows() const {
    int rows = 0;
    if (labels_.legend) place_legend([&](const Series&, double, int row) { rows = row + 1; });
    return rows;
  }
  void legend() {
    place_legend([&](const Series& one, double at, int row) {
      const double middle = top_ + plot_ + kBottom + 18 * row + 4;
      svg_.line("<path class=\"line k{}\" stroke-dasharray=\"{}\" d=\"M{:.1f} {:.1f}h26\"/>",
                one.look % kLooks, dash_of(one.look), at, middle);
      svg_.line("<path class=\"mark k{}\" d=\"{}\"/>", one.look % kLooks,
                mark_path(one.look, at + 13, middle));
      svg_.text(at + 31, middle + 4, "", one.name);
    });
  }

  const std::vector<Series>& series_;
  const LineLabels& labels_;
  double top_, plot_;
  Svg svg_;
  double x_low_ = 0, x_high_ = 1;
  std::vector<double> y_ticks_;
};

}  // namespace

std::string line_chart(const std::vector<Series>& series, const LineLabels& labels,
                       Medium placement) {
  return LineChart(series, labels, placement).drawn();
}

std::string series_swatch(int look) {
  return fmt::format(
      "<svg class=\"chart swatch\" viewBox=\"0 0 28 10\" width=\"28\" height=\"10\" "
      "aria-hidden=\"true\"><path class=\"line k{0}\" stroke-dasharray=\"{1}\" d=\"M1 5h26\"/>"
      "<path class=\"mark k{0}\" d=\"{2}\"/></svg>",
      look % kLooks, dash_of(look), mark_path(look, 14, 5));
}

}  // namespace regauge::connect
