#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regauge::io {

// Up to three of `names` that are a few edits away from `wanted`, nearest first.
std::vector<std::string> close_names(std::string_view wanted,
                                     const std::vector<std::string_view>& names);

}  // namespace regauge::io
