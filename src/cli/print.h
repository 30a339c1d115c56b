#pragma once

#include <fmt/format.h>
#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <type_traits>

#include "regauge/base/error.h"
#include "regauge/base/printable.h"

// All that the program writes for people and programs to read goes through these functions.
namespace regauge::cli {

// Standard output is closed, full or broken.
class OutputError : public Error {
 public:
  using Error::Error;
};

// Writes to standard output as it stands. Throws OutputError.
void write_out(std::string_view text);
// Writes what standard output still holds back. Throws OutputError.
void flush_out();
// Writes to standard error as it stands. Nobody can be told of a failure: it is ignored.
void write_error(std::string_view text) noexcept;

template <class T>
using Shown =
    std::conditional_t<std::is_convertible_v<const T&, std::string_view>, std::string, const T&>;

template <class T>
Shown<T> shown(const T* value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return printable(std::string_view(*value));
  } else {
    return *value;
  }
}

// Like fmt::format, but arguments that are text are made printable: they may come from a file.
template <class... T>
std::string text_of(fmt::format_string<Shown<T>...> format, const T&... values) {
  return fmt::format(format, shown(&values)...);
}

// To standard output. Throws OutputError.
template <class... T>
void answer(fmt::format_string<Shown<T>...> format, const T&... values) {
  write_out(text_of<T...>(format, values...));
}

// To standard error: what is neither asked for nor an answer.
template <class... T>
void say(fmt::format_string<Shown<T>...> format, const T&... values) {
  write_error(text_of<T...>(format, values...));
}

// The text in a colour where standard output is a terminal, NO_COLOR is empty and TERM is not dumb.
enum class Colour { red = 31, green = 32, yellow = 33 };
std::string coloured(const std::string& text, Colour colour);

// To standard output, indented, in ASCII, with this version; strings that are not UTF-8 lose the
// bytes that are not.
void answer_json(nlohmann::json value);

}  // namespace regauge::cli
