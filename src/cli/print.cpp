#include "print.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "regauge/base/version.h"

namespace regauge::cli {
namespace {

[[noreturn]] void fail_to_print(int error) {
  throw OutputError(
      fmt::format("the answer could not be written to standard output: {}", std::strerror(error)));
}

}  // namespace

void write_out(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) fail_to_print(errno);
}

void flush_out() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail_to_print(errno);
}

void write_error(std::string_view text) noexcept {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string coloured(const std::string& text, Colour colour) {
  const char* refused = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool plain = isatty(STDOUT_FILENO) == 0 || (refused != nullptr && *refused != '\0') ||
                     terminal == nullptr || std::string_view(terminal) == "dumb";
  return plain ? text : fmt::format("\x1b[1;{}m{}\x1b[0m", static_cast<int>(colour), text);
}

void answer_json(nlohmann::json value) {
  if (value.is_object()) value["regauge"] = version();
  write_out(value.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace regauge::cli
