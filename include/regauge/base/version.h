#pragma once

#include <string_view>

namespace regauge {

// "1.2.3", as in the file VERSION.
std::string_view version();

}  // namespace regauge
