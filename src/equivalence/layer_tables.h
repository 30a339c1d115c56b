#pragma once

#include <optional>
#include <string>

#include "nearest.h"

namespace regauge {

// Where only text is read, a layer's table takes up whatever its map and the common gain become,
// which no element of the group does. Where nothing else differs, and what each token has of every
// table is the same in both: that this was found, and is not compared further.
std::optional<std::string> alike_by_token(const Symmetry& symmetry, const ParameterSource& a,
                                          const ParameterSource& b, const Nearest& nearest);

}  // namespace regauge
