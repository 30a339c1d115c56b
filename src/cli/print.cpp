#include "print.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

void answer_json(const nlohmann::json& value) {
  write_out(value.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace regauge::cli
