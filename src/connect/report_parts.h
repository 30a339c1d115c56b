#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "summary.h"

namespace regauge::connect {

// HTML that grows; what is put in must be escaped.
class Html {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...);
    out_ += '\n';
  }
  void add(const std::string& part) { out_ += part; }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

// What people call things; escaped.
// "positions rotary", of what varies; and the same as the keys and the values alone.
std::string cell_name(const ExperimentTable& experiment, const Cell& cell);
std::string cell_keys(const ExperimentTable& experiment);
std::string cell_values(const ExperimentTable& experiment, const Cell& cell);
std::string constants(const ExperimentTable& experiment);  // what does not vary
std::string scope_name(const std::string& scope);
std::string scope_words(const std::string& scope);  // without the code
int look_in(const ExperimentTable& experiment, const std::string& method);
std::string plural(std::size_t count, const char* noun);  // "1 cell", "2 cells"
std::string method_note(const std::string& method);       // "ours, no data", ..., or nothing

// Each is a part of the page about one experiment; `id` begins the names of its anchors.
void add_table(Html& html, const ExperimentTable& experiment);
// Averaged weights beside averaged predictions, where a record has those; else nothing.
void add_ensembles(Html& html, const ExperimentTable& experiment);
// If one key varies and its values are positive numbers, three or more: barriers against it.
void add_trend(Html& html, const ExperimentTable& experiment);
void add_curves(Html& html, const ExperimentTable& experiment, const std::string& id);
void add_planes(Html& html, const ExperimentTable& experiment, const std::string& id);
void add_residuals(Html& html, const ExperimentTable& experiment, const std::string& id);
void add_settings(Html& html, const ExperimentTable& experiment);

bool has_planes(const ExperimentTable& experiment);
bool has_residuals(const ExperimentTable& experiment);

}  // namespace regauge::connect
