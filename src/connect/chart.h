#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record.h"

namespace regauge::connect {

// Charts as SVG: data in, one element `svg` of well-formed XML out. All text is escaped; numbers
// that are not finite are left out. Colours are safe for colour-blind readers and come with dashes,
// marks or numbers.

// A `file` brings its colours along, for light and dark; on a `page` chart_style() must be in the
// page's style.
enum class Medium { file, page };
const char* chart_style();

// A look is a colour of its own with a dash and a mark. From 0; after kLooks they come round again.
inline constexpr int kLooks = 12;
// The look of a method, the same in every chart; methods that are not known have those from 7 on,
// as `other` counts them.
int look_of(const std::string& method, int other = 0);

struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low, high;  // a band about y, as long as y; or empty
  int look = 0;
};

struct LineLabels {
  std::string title, x, y;
  std::optional<std::pair<double, double>> y_range = {};  // else that of the series, with 0 if near
  bool legend = true;
  bool percent = false;  // y is written as a percentage
  bool log_x = false;    // x > 0, by ratio, labelled where there are points
};

// Lines through all points, with marks along them; pointing at an x tells the values there.
std::string line_chart(const std::vector<Series>& series, const LineLabels& labels,
                       Medium placement = Medium::file);
// A short line in a series' look, for a legend elsewhere.
std::string series_swatch(int look);

// A square for each value with its number in it. A row with a single value spans all columns.
struct HeatMap {
  std::string title;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // [row][column]; NaN: nothing there
  double low = 0, high = 1;                 // the ends of the colour scale
};
std::string heat_map(const HeatMap& map, Medium placement = Medium::file);

// Levels for filled contours of planes that are to be compared, denser near the lowest loss.
std::vector<double> plane_levels(const std::vector<const RecordedPlane*>& planes, int bands = 10);
// The loss on a plane in bands between `levels`, with A, B and B aligned.
std::string plane_chart(const RecordedPlane& plane, const std::vector<double>& levels,
                        const std::string& title, Medium placement = Medium::file);
// Bilinear between the points of the grid; NaN outside.
double loss_at(const RecordedPlane& plane, double x, double y);

// About `most` round numbers from low to high, both inside or just beyond.
std::vector<double> ticks(double low, double high, int most);

}  // namespace regauge::connect
