#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "contour.h"
#include "svg.h"

namespace regauge::connect {
namespace {

constexpr double kSide = 268, kInset = 2, kTop = 4, kLegend = 76, kKey = 204;

class PlaneChart {
 public:
  PlaneChart(const RecordedPlane& plane, const std::vector<double>& levels,
             const std::string& title, Medium placement)
      : plane_(plane),
        levels_(levels),
        titled_(placement == Medium::file && !title.empty()),
        top_(kTop + (titled_ ? 20 : 0)),
        tall_(kSide *
              std::clamp((plane.y.back() - plane.y.front()) / (plane.x.back() - plane.x.front()),
                         0.5, 1.3)),
        svg_(kInset + kSide + kLegend, top_ + std::max(tall_, kKey) + 8, "plane", title,
             placement) {
    if (titled_) svg_.text(0, 16, "class=\"title\"", title);
  }

  std::string drawn() && {
    svg_.line("<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"{}\"/>", kInset,
              top_, kSide, tall_, band_colour(0));
    for (std::size_t band = 1; band + 1 < levels_.size(); ++band) fill(band);
    places();
    legend();
    return std::move(svg_).finished();
  }

 private:
  double x(double value) const {
    return kInset + kSide * (value - plane_.x.front()) / (plane_.x.back() - plane_.x.front());
  }
  double y(double value) const {
    return top_ + tall_ * (1 - (value - plane_.y.front()) / (plane_.y.back() - plane_.y.front()));
  }
  std::string band_colour(std::size_t band) const {
    return scale_colour(static_cast<double>(band) /
                        std::max(1.0, static_cast<double>(levels_.size()) - 2));
  }
  // All of the plane where the loss is at least the band's lower level.
  void fill(std::size_t band) {
    const std::string path = contour_path(
        plane_, levels_[band], levels_.back(), [this](double value) { return x(value); },
        [this](double value) { return y(value); });
    if (path.empty()) return;
    svg_.line(
        "<path class=\"contour\" fill-rule=\"evenodd\" fill=\"{}\" d=\"{}\">"
        "<title>loss {} or more</title></path>",
        band_colour(band), path, shown(levels_[band]));
  }

  void places() {
    const auto &a = plane_.a, &b = plane_.b, &aligned = plane_.aligned;
    svg_.line("<path class=\"way\" stroke-dasharray=\"4 4\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>",
              x(a[0]), y(a[1]), x(b[0]), y(b[1]));
    svg_.line("<path class=\"way\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", x(a[0]), y(a[1]),
              x(aligned[0]), y(aligned[1]));
    place("A", 0, a);
    place("B", 0, b);
    place("B aligned", 3, aligned);
  }
  void place(const char* name, int mark, const std::array<double, 2>& at) {
    const double loss = loss_at(plane_, at[0], at[1]);
    svg_.line(
        "<path class=\"spot\" transform=\"translate({:.1f} {:.1f}) scale(1.6)\" d=\"{}\">"
        "<title>{}{}</title></path>",
        x(at[0]), y(at[1]), mark_path(mark, 0, 0), name,
        std::isfinite(loss) ? ": loss " + shown(loss) : "");
    const bool right = x(at[0]) > kInset + kSide * 0.7;
    svg_.text(x(at[0]) + (right ? -9 : 9), y(at[1]) - 7,
              right ? "class=\"halo\" text-anchor=\"end\"" : "class=\"halo\"", name);
  }

  void legend() {
    const double x = kInset + kSide + 10;
    svg_.text(x, top_ + 10, "class=\"soft\"", "loss");
    for (std::size_t band = 0; band + 1 < levels_.size(); ++band) {
      const double y = top_ + 20 + 18 * static_cast<double>(levels_.size() - 2 - band);
      svg_.line("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"16\" height=\"18\" fill=\"{}\"/>", x, y,
                band_colour(band));
      svg_.text(x + 21, y + 22, "class=\"soft\" font-size=\"11\"",
                fmt::format("{:.3g}", levels_[band]));
    }
    if (levels_.size() > 1) {
      svg_.text(x + 21, top_ + 24, "class=\"soft\" font-size=\"11\"",
                fmt::format("{:.3g}", levels_.back()));
    }
  }

  const RecordedPlane& plane_;
  const std::vector<double>& levels_;
  bool titled_;
  double top_, tall_;
  Svg svg_;
};

}  // namespace

std::vector<double> plane_levels(const std::vector<const RecordedPlane*>& planes, int bands) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const RecordedPlane* plane : planes) {
    for (const auto& row : plane->loss) {
      for (const double loss : row) {
        if (!std::isfinite(loss)) continue;
        low = std::min(low, loss);
        high = std::max(high, loss);
      }
    }
  }
  if (!(high > low)) return {0, 1};
  std::vector<double> levels;
  for (int i = 0; i <= bands; ++i) {
    const double part = static_cast<double>(i) / bands;
    levels.push_back(low + (high - low) * part * part);
  }
  return levels;
}

double loss_at(const RecordedPlane& plane, double x, double y) {
  const auto square = [](const std::vector<double>& axis, double value) {
    const auto after = std::upper_bound(axis.begin() + 1, axis.end() - 1, value);
    return static_cast<std::size_t>(after - axis.begin()) - 1;
  };
  if (x < plane.x.front() || x > plane.x.back() || y < plane.y.front() || y > plane.y.back()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::size_t column = square(plane.x, x), row = square(plane.y, y);
  const double u = (x - plane.x[column]) / (plane.x[column + 1] - plane.x[column]);
  const double v = (y - plane.y[row]) / (plane.y[row + 1] - plane.y[row]);
  double sum = 0;
  for (const bool right : {false, true}) {
    for (const bool up : {false, true}) {
      const double weight = (right ? u : 1 - u) * (up ? v : 1 - v);
      if (weight > 0) sum += weight * plane.loss[row + up][column + right];
    }
  }
  return sum;
}

std::string plane_chart(const RecordedPlane& plane, const std::vector<double>& levels,
                        const std::string& title, Medium placement) {
  return PlaneChart(plane, levels, title, placement).drawn();
}

}  // namespace regauge::connect
