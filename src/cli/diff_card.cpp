#include "diff_card.h"

#include <fmt/format.h>

#include "diff_text.h"
#include "io/partial.h"
#include "regauge/base/printable.h"
#include "regauge/base/version.h"

namespace regauge::cli {
namespace {

// Text from a file that Markdown takes as text: in a cell, too.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (std::string_view("\\`*_[]<>|#~!&@").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string type_in(const ParameterSource& source, const std::string& tensor) {
  const StoredTensor* stored = source.stored(tensor);
  return stored == nullptr ? "" : plain(stored->type_name());
}

std::string percent(double part, double whole) {
  return part == 0 ? "0" : fmt::format("{:.2g} %", 100 * part / (whole > 0 ? whole : 1));
}

std::string model_row(const char* side, const Model& model) {
  return fmt::format("| {} | {} | {} | {} |\n", side, plain(model.checkpoint.path().string()),
                     plain(model.layout.family()), format_name(model.layout.format()));
}

std::string tensor_table(const Model& a, const Model& b, const Diff& result) {
  const ParameterSource from_a(a, result.architecture), from_b(b, result.architecture);
  std::string table =
      "| tensor | A | B | relation | off by | rounding explains | stands out |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto& r : result.residuals) {
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", plain(r.tensor),
                         type_in(from_a, r.tensor), type_in(from_b, r.tensor),
                         relation_name(r.relation), percent(r.residual, r.size),
                         percent(r.rounding, r.size), plain(r.standing_out));
  }
  return table;
}

}  // namespace

void write_diff_card(const std::filesystem::path& path, const Model& a, const Model& b,
                     const Diff& result) {
  std::string card =
      fmt::format("### {}\n\n| | model | family | format |\n|---|---|---|---|\n{}{}\n",
                  plain(verdict_sentence(result)), model_row("A", a), model_row("B", b));
  const auto item = [&](const std::string& line) {
    if (!line.empty()) card += fmt::format("- {}\n", plain(line));
  };
  item(movements_line(result));
  for (const auto* lines : {&result.declarations, &result.reasons, &result.not_compared}) {
    for (const auto& line : *lines) item(line);
  }
  if (result.verdict == Verdict::same) {
    if (!result.residuals.empty()) item(grounds(result));
  } else {
    for (const auto& line : diagnosis_lines(result.diagnosis)) item(line);
  }
  if (!result.residuals.empty()) {
    card += fmt::format("\n<details><summary>{} of {} tensors differ</summary>\n\n{}\n</details>\n",
                        disagreeing(result.residuals), result.residuals.size(),
                        tensor_table(a, b, result));
  }
  card += fmt::format("\n<sub>regauge {}</sub>\n", version());
  io::write_new(path, card);
}

}  // namespace regauge::cli
