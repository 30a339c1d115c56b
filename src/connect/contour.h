#pragma once

#include <functional>
#include <string>

#include "record.h"

namespace regauge::connect {

// The part of a plane where the loss is at least `level`, as closed loops of SVG path data, to be
// filled by fill-rule="evenodd"; empty if there is none. Squares are cut into four triangles about
// their middle, on which the loss is linear. A loss that is not finite counts as `above`. `x` and
// `y` carry the plane's coordinates to the picture's.
std::string contour_path(const RecordedPlane& plane, double level, double above,
                         const std::function<double(double)>& x,
                         const std::function<double(double)>& y);

}  // namespace regauge::connect
