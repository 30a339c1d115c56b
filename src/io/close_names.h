#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regauge::io {

// Letters to change, to add or to leave out (Levenshtein).
std::size_t edit_distance(std::string_view a, std::string_view b);

// Up to three of `names` that are a few edits away from `wanted`, nearest first.
std::vector<std::string> close_names(std::string_view wanted,
                                     const std::vector<std::string_view>& names);

}  // namespace regauge::io
