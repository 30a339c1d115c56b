#pragma once

#include <map>
#include <string>

#include "framed_model.h"

namespace regauge {

// Where the coordinates of all layers' tables belong and their factors, as a map of their space.
// `a` and `b` stand in the same coordinates of the stream.
std::map<std::string, BlockMap<double>> table_coordinates(const Space& tables, const FramedModel& a,
                                                          const FramedModel& b, double rounding);

}  // namespace regauge
