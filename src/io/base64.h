#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace regauge::io {

// The bytes of base64 (RFC 4648, section 4 or 5, padded or not); nothing for any other text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace regauge::io
