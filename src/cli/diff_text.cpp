#include "diff_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace regauge::cli {
namespace {

const TensorResidual& worst(const Diff& result) {
  return *std::max_element(
      result.residuals.begin(), result.residuals.end(),
      [](const TensorResidual& a, const TensorResidual& b) { return a.excess < b.excess; });
}

double in_rounding(const TensorResidual& r) { return r.residual > 0 ? r.residual / r.rounding : 0; }

}  // namespace

std::string verdict_sentence(const Diff& result) {
  switch (result.verdict) {
    case Verdict::same: {
      const char* what =
          result.statement == Statement::identical      ? "identical: every number is equal"
          : result.statement == Statement::same_numbers ? "the same numbers, stored otherwise"
                                                        : "the same function, in other coordinates";
      return fmt::format("{}{}", what, result.declarations.empty() ? "" : ", declared differently");
    }
    case Verdict::perturbed:
      return "not the same function: the same model, modified";
    case Verdict::different:
      return "not the same function";
    case Verdict::undecided:
      return result.residuals.empty() || all_agree(result.residuals)
                 ? "could not decide: what was understood agrees, and not everything was understood"
                 : "could not decide: no element was found, but there may be one";
  }
  return "";
}

std::string kind_name(const Diff& result) {
  const bool redeclared = result.verdict == Verdict::same && !result.declarations.empty();
  return redeclared ? "same up to declarations" : std::string(verdict_name(result.verdict));
}

std::string grounds(const Diff& result) {
  if (result.residuals.empty()) {
    return "The two files declare different architectures; no tensors were compared.";
  }
  const auto all = result.residuals.size();
  const auto off =
      static_cast<std::size_t>(std::count_if(result.residuals.begin(), result.residuals.end(),
                                             [](const TensorResidual& r) { return !r.agrees(); }));
  const TensorResidual& most = worst(result);
  const bool near = result.verdict == Verdict::same || result.verdict == Verdict::perturbed;
  const char* moved = result.a_from_b.is_identity() ? ""
                      : near ? ", moved by the change of coordinates that was found,"
                             : ", in the nearest coordinates that were found,";
  if (result.verdict == Verdict::same && most.residual == 0) {
    return fmt::format("All {} tensors of B{} are those of A, number for number.", all, moved);
  }
  if (result.verdict == Verdict::same) {
    return fmt::format(
        "Each of the {} tensors of B{} is A's within what rounding explains. The farthest, {}, is "
        "off by {:.2g} times its rounding.",
        all, moved, most.tensor, in_rounding(most));
  }
  return fmt::format(
      "{} of {} tensors of B{} differ from A's by more than rounding. The farthest is {}: off by "
      "{:.2g} of its size, where rounding explains {:.2g}.",
      off, all, moved, most.tensor, most.residual / (most.size > 0 ? most.size : 1),
      most.rounding / (most.size > 0 ? most.size : 1));
}

std::vector<std::string> diagnosis_lines(const Diagnosis& diagnosis) {
  if (diagnosis.causes.empty()) return {"No known mistake explains it."};
  std::vector<std::string> lines = {
      fmt::format("{}{}:",
                  !diagnosis.certain     ? "Known causes (perhaps not all)"
                  : diagnosis.is_exact() ? "Cause (verified: undoing it makes B equal to A)"
                                         : "Cause (verified: undoing it makes B equal to A but for "
                                           "the last digits)",
                  diagnosis.moved ? ", in other coordinates" : "")};
  for (const auto& cause : diagnosis.causes) {
    lines.push_back(fmt::format("  {}: {}", mistake_name(cause.mistake), cause.sentence));
    if (!cause.repair.empty()) lines.push_back(fmt::format("    to undo it: {}", cause.repair));
  }
  if (!diagnosis.besides.empty()) lines.push_back("  " + diagnosis.besides);
  return lines;
}

std::string movements_line(const Diff& result) {
  std::string line;
  for (const auto& movement : result.movements) {
    line += fmt::format("{}{} ({})", line.empty() ? "" : ", ", movement.what, movement.where);
  }
  return line;
}

nlohmann::json movements_as_json(const Diff& result) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [what, where] : result.movements) {
    list.push_back({{"what", what}, {"where", where}});
  }
  return list;
}

}  // namespace regauge::cli
