#include "formula.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cctype>
#include <cmath>

#include "regauge/base/error.h"

namespace regauge {
namespace {

// Recursive descent: sum = product {(+|-) product}, product = atom {(*|/) atom}.
class Parser {
 public:
  Parser(std::string_view text, const std::function<double(const std::string&)>& value_of)
      : text_(text), value_of_(value_of) {}

  double whole() {
    const double value = sum();
    skip_spaces();
    if (at_ != text_.size()) fail();
    return value;
  }

 private:
  double sum() {
    double value = product();
    for (;;) {
      if (eat('+')) {
        value += product();
      } else if (eat('-')) {
        value -= product();
      } else {
        return value;
      }
    }
  }

  double product() {
    double value = atom();
    for (;;) {
      if (eat('*')) {
        value *= atom();
      } else if (eat('/')) {
        value /= atom();
      } else {
        return value;
      }
    }
  }

  double atom() {
    if (eat('(')) return closed(sum());
    skip_spaces();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty()) fail();
    if (word == "sqrt" && eat('(')) return std::sqrt(closed(sum()));
    if (word == "floor" && eat('(')) return std::floor(closed(sum()));
    if (std::isdigit(static_cast<unsigned char>(word[0])) == 0) return value_of_(word);
    const auto number = nlohmann::json::parse(word, nullptr, false);
    if (!number.is_number()) fail();
    return number.get<double>();
  }

  double closed(double value) {
    if (!eat(')')) fail();
    return value;
  }

  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool eat(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail() const {
    throw UsageError(
        fmt::format("[formula] '{}': cannot be read from character {}; expected numbers, field "
                    "names, + - * /, brackets, sqrt() and floor()",
                    text_, at_ + 1));
  }

  std::string_view text_;
  const std::function<double(const std::string&)>& value_of_;
  std::size_t at_ = 0;
};

}  // namespace

double evaluate_formula(std::string_view formula,
                        const std::function<double(const std::string&)>& value_of) {
  return Parser(formula, value_of).whole();
}

}  // namespace regauge
