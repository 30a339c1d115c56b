#include <array>
#include <set>
#include <string_view>

#include "chart.h"
#include "io/page.h"
#include "report_parts.h"

namespace regauge::connect {
namespace {

using io::escaped;

using Words = std::pair<std::string_view, std::string_view>;

template <std::size_t Size>
std::string words_of(const std::array<Words, Size>& known, const std::string& name) {
  for (const auto& [key, words] : known) {
    if (key == name) return std::string(words);
  }
  return "";
}

bool varies(const ExperimentTable& experiment, const std::string& key) {
  std::set<std::string> values;
  for (const Cell& cell : experiment.cells) {
    const auto found = cell.find(key);
    values.insert(found == cell.end() ? "" : found->second);
  }
  return values.size() > 1;
}

std::string joined(const std::string& left, const char* separator, const std::string& right) {
  return left.empty() ? right : left + separator + right;
}

}  // namespace

std::string cell_name(const ExperimentTable& experiment, const Cell& cell) {
  std::string name;
  for (const auto& [key, value] : cell) {
    if (!varies(experiment, key)) continue;
    name = joined(name, " · ", "<small>" + escaped(key) + "</small> " + escaped(value));
  }
  return name.empty() ? "all pairs" : name;
}

std::string cell_keys(const ExperimentTable& experiment) {
  std::set<std::string> keys;
  for (const Cell& cell : experiment.cells) {
    for (const auto& [key, value] : cell) keys.insert(key);
  }
  std::string text;
  for (const std::string& key : keys) {
    if (varies(experiment, key)) text = joined(text, " · ", escaped(key));
  }
  return text;
}

std::string cell_values(const ExperimentTable& experiment, const Cell& cell) {
  std::string text;
  for (const auto& [key, value] : cell) {
    if (varies(experiment, key)) text = joined(text, " · ", escaped(value));
  }
  return text.empty() ? "all pairs" : text;
}

std::string constants(const ExperimentTable& experiment) {
  std::string text;
  for (const auto& [key, value] : experiment.cells.front()) {
    if (!varies(experiment, key)) text = joined(text, ", ", escaped(key) + " " + escaped(value));
  }
  return text;
}

std::string scope_words(const std::string& scope) {
  static constexpr std::array<Words, 4> kScopes = {{{"attention:0", "first attention"},
                                                    {"attention", "all attention"},
                                                    {"block:0", "first block"},
                                                    {"all", "everything"}}};
  const std::string words = words_of(kScopes, scope);
  return words.empty() ? escaped(scope) : words;
}

std::string scope_name(const std::string& scope) {
  const std::string words = scope_words(scope);
  return words == escaped(scope) ? words : fmt::format("{} <code>{}</code>", words, escaped(scope));
}

int look_in(const ExperimentTable& experiment, const std::string& method) {
  int others = 0;
  for (const std::string& earlier : experiment.methods) {
    if (earlier == method) break;
    if (method_note(earlier).empty()) ++others;
  }
  return look_of(method, others);
}

std::string plural(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string method_note(const std::string& method) {
  static constexpr std::array<Words, 7> kMethods = {{{"naive", "as they are"},
                                                     {"stage one", "two_stage, heads only"},
                                                     {"orthogonal", "two_stage, orthogonal"},
                                                     {"two_stage", "baseline, reconstructed"},
                                                     {"weights", "ours, no data"},
                                                     {"activations", "ours, by activations"},
                                                     {"learned", "ours, learned"}}};
  return words_of(kMethods, method);
}

}  // namespace regauge::connect
