#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "chart.h"

namespace regauge::connect {

// An <svg> element that grows line by line; `name` is what it is, for readers who do not see it.
class Svg {
 public:
  Svg(double width, double height, std::string_view kind, std::string_view name, Medium placement);

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  // `raw` is escaped; `attributes` is not.
  void text(double x, double y, std::string_view attributes, std::string_view raw);
  std::string finished() &&;

 private:
  std::string out_;
};

// "0.164", "0.0031" or "1.20e-05": what people read.
std::string shown(double value);
// The spread of a number, with as many decimals as that has.
std::string shown_spread(double value, double of);
// As a percentage if asked for.
std::string shown(double value, bool percent);

// A colour scale from dark blue to yellow that every kind of colour blindness keeps in order;
// 0 <= where <= 1. The second is what text on it should have.
std::string scale_colour(double where);
const char* colour_on_scale(double where);

// A strip of the colour scale with its ends written on it.
std::string scale_key(double low, double high);

// The mark and dash of a look; path data about (x, y), and a stroke-dasharray.
std::string mark_path(int look, double x, double y);
const char* dash_of(int look);

// About how wide text is, in the unit of the font size.
double text_width(std::string_view text, double font_size);

}  // namespace regauge::connect
