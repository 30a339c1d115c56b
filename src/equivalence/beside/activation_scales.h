#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace regauge {

// A tensor by which a quantised model scales its activations or its cache when it runs.
inline bool is_activation_scale(std::string_view name) {
  constexpr std::array<std::string_view, 8> kEndings = {".input_scale",      ".input_global_scale",
                                                        ".input_zero_point", ".activation_scale",
                                                        ".output_scale",     ".k_scale",
                                                        ".v_scale",          ".q_scale"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace regauge
