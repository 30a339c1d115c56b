#include "regauge/equivalence/diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/jobs.h"
#include "equivalence/beside/not_compared.h"
#include "equivalence/beside/unread.h"
#include "equivalence/beside/vocabulary.h"
#include "equivalence/tolerances.h"
#include "io/steps.h"
#include "nearest.h"
#include "regauge/arch/joint_architecture.h"

namespace regauge {
namespace {

// Tensors that are known only up to a quantiser's steps.
std::vector<std::string> storage_notes(const ParameterSource& a, const ParameterSource& b) {
  std::vector<std::string> notes;
  const auto quantised = [&](const ParameterSource& source, const char* name) {
    std::set<std::string> types;
    for (const auto& spec : parameter_specs(source.architecture())) {
      const StoredTensor* tensor = source.stored(spec.name);
      if (tensor == nullptr || tensor->plain_type()) continue;
      types.insert(tensor->type_name());
    }
    if (types.empty()) return;
    notes.push_back(fmt::format("{} is quantised to {}: compared up to the steps of its blocks",
                                name, fmt::join(types, ", ")));
  };
  quantised(a, "A");
  quantised(b, "B");
  return notes;
}

// A calibrated quantiser does not take the nearest code. Where all that differs is of that size, a
// line that says so; none else.
std::vector<std::string> calibrated_line(const ParameterSource& a, const ParameterSource& b,
                                         const std::vector<TensorResidual>& residuals) {
  double least = kMostByCalibration, most = 0;
  std::string_view name;
  for (const auto& r : residuals) {
    if (r.agrees()) continue;
    const bool packed_a = a.stored(r.tensor) != nullptr && a.stored(r.tensor)->packing;
    const bool packed_b = b.stored(r.tensor) != nullptr && b.stored(r.tensor)->packing;
    if ((!packed_a && !packed_b) || !(r.rounding > 0)) return {};
    name = packed_b ? "B" : "A";
    least = std::min(least, r.residual / r.rounding);
    most = std::max(most, r.residual / r.rounding);
  }
  if (name.empty() || most > kMostByCalibration) return {};
  return {fmt::format(
      "a calibrated quantiser (GPTQ, AWQ with clipping, AutoRound) may have written {}: it chooses "
      "codes by what a layer writes, not the nearest ones, and all that differs is {:.2g} to "
      "{:.2g} "
      "times what rounding to the nearest code makes; numbers alone cannot tell this from a model "
      "that was changed as little before it was quantised",
      name, least, most)};
}

// Norms of one model that are folded into what reads them, a line or none.
std::vector<std::string> folded_norms(const ParameterSource& a, const ParameterSource& b) {
  const auto is_folded = [](const ParameterSource& source) {
    for (const auto& spec : parameter_specs(source.architecture())) {
      if (spec.name.ends_with("norm.gain") && !source.read<double>(spec.name).isOnes(0)) {
        return false;
      }
    }
    return true;
  };
  const bool a_folded = is_folded(a), b_folded = is_folded(b);
  if (a_folded == b_folded) return {};
  return {fmt::format("only in {} the gains of all norms are folded into what reads them",
                      a_folded ? "A" : "B")};
}

// Two copies of one model that were computed apart differ by what both roundings leave, or little
// more; one of the two need not be the other's rounding.
bool differ_like_roundings(const std::vector<TensorResidual>& residuals) {
  return std::all_of(residuals.begin(), residuals.end(), [](const TensorResidual& r) {
    // What is taken away from numbers of the order of 1 leaves their last digits.
    return r.agrees() || r.residual <= std::max(kRewrittenTwice * r.rounding, kDoubleDigits);
  });
}

void judge(Diff& result, const std::vector<std::string>& limits) {
  const auto& residuals = result.residuals;
  if (all_agree(residuals)) {
    result.verdict = Verdict::same;
    return;
  }
  if (differing(residuals) == 0) {
    result.verdict = Verdict::undecided;
    for (const auto& r : residuals) {
      if (r.agrees()) continue;
      result.reasons.push_back(
          !r.standing_out.empty() && r.by_entry ? fmt::format("{}: {}", r.tensor, r.standing_out)
          : r.size > 0 ? fmt::format("{}: rounding hides changes of up to {:.2g} % of this tensor",
                                     r.tensor, 100 * r.rounding / r.size)
                       : fmt::format("{}: zero in A, and mere rounding in B", r.tensor));
    }
    return;
  }
  if (!limits.empty()) {
    result.verdict = Verdict::undecided;
    result.reasons.insert(result.reasons.end(), limits.begin(), limits.end());
    return;
  }
  result.verdict = mostly_near(result.residuals) ? Verdict::perturbed : Verdict::different;
  const auto worst = std::max_element(
      result.residuals.begin(), result.residuals.end(),
      [](const TensorResidual& a, const TensorResidual& b) { return a.excess < b.excess; });
  if (result.verdict == Verdict::perturbed) {
    result.reasons.push_back(fmt::format("{} of {} tensors differ, most of all {}",
                                         disagreeing(result.residuals), result.residuals.size(),
                                         worst->tensor));
    if (result.a_from_b.is_identity() && differ_like_roundings(residuals)) {
      result.reasons.push_back(
          "no difference is much larger than rounding: two copies of one model that were each "
          "moved, folded, made canonical or merged with an adapter differ so, and so does a model "
          "that was changed very little; compare each with what it was made from, a merge with "
          "BASE+ADAPTER");
    }
  }
}

// Tensors that agree as honest copies of A do, a line or none.
std::string like_honest_line(const std::vector<TensorResidual>& residuals) {
  std::vector<std::string> names;
  for (const auto& r : residuals) {
    if (r.like_honest && r.agrees()) names.push_back(r.tensor);
  }
  if (names.empty()) return "";
  const std::string others =
      names.size() > 1 ? fmt::format(" and {} more agree", names.size() - 1) : " agrees";
  return fmt::format(
      "{}{} only as honest copies of A do, moved and stored as B is, and `verify` makes none",
      names.front(), others);
}

Statement statement_of(const Diff& result) {
  switch (result.verdict) {
    case Verdict::same:
      break;
    case Verdict::undecided:
      return Statement::undecided;
    default:
      return Statement::not_the_same;
  }
  return statement_of_same(result.a_from_b.is_identity(), result.residuals);
}

// Of each tensor of block formats how many blocks have a step that the format's own quantiser would
// not have chosen for the numbers that they hold. What such a step hides beyond the one that its
// codes need is not taken as rounding.
std::vector<std::string> unearned_lines(const Model& model, const char* name, Progress& progress) {
  constexpr std::size_t kMostLines = 20;
  std::vector<const StoredTensor*> quantised;
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : model.checkpoint.tensors()) {
    if (tensor.plain_type() || std::ranges::count(model.unread, tensor.name) > 0) continue;
    quantised.push_back(&tensor);
    bytes += tensor.bytes;
  }
  std::vector<std::string> lines;
  std::size_t more = 0;
  progress.start("looking at steps", bytes);
  for_each_job(
      std::ssize(quantised), progress,
      [&](std::int64_t i, Progress& own) {
        const StoredTensor& tensor = *quantised[static_cast<std::size_t>(i)];
        const StepCount count = count_steps(model.checkpoint, tensor);
        model.checkpoint.release(tensor);
        own.advance(tensor.bytes);
        return count;
      },
      [&](std::int64_t i, StepCount count) {
        if (count.unearned == 0) return;
        if (lines.size() == kMostLines) {
          ++more;
          return;
        }
        const StoredTensor& tensor = *quantised[static_cast<std::size_t>(i)];
        const std::int64_t cols = tensor.shape.back();
        lines.push_back(fmt::format(
            "{} of {} blocks of {} in {} have a larger step than the quantiser of {} gives such "
            "numbers (the first begins at row {}, column {}): only the step that their codes need "
            "is taken as rounding",
            count.unearned, count.blocks, tensor.name, name, tensor.type_name(), count.first / cols,
            count.first % cols));
      });
  progress.finish();
  if (more > 0)
    lines.push_back(fmt::format("and so have blocks of {} tensors more of {}", more, name));
  return lines;
}

// Which of the two was rounded, a line or none.
std::vector<std::string> rounding_line(const std::vector<TensorResidual>& residuals) {
  std::map<Relation, std::int64_t> counts;
  for (const auto& r : residuals) ++counts[r.relation];
  std::vector<std::string> parts;
  const auto say = [&](Relation relation, const char* what) {
    if (counts[relation] > 0) parts.push_back(fmt::format("{} {}", counts[relation], what));
  };
  say(Relation::equal, "equal");
  say(Relation::b_rounds_a, "of B are A's, rounded");
  say(Relation::a_rounds_b, "of A are B's, rounded");
  say(Relation::both_round, "are both within rounding of a third");
  if (parts.size() == 1 && counts[Relation::equal] > 0) return {};
  return {fmt::format("of {} tensors {}", residuals.size(), fmt::join(parts, ", "))};
}

}  // namespace

Statement statement_of_same(bool identity, const std::vector<TensorResidual>& residuals) {
  if (!identity) return Statement::other_coordinates;
  const bool equal = std::all_of(residuals.begin(), residuals.end(), [](const TensorResidual& r) {
    return r.relation == Relation::equal;
  });
  return equal ? Statement::identical : Statement::same_numbers;
}

std::string_view statement_name(Statement statement) {
  switch (statement) {
    case Statement::identical:
      return "identical";
    case Statement::same_numbers:
      return "same-numbers";
    case Statement::other_coordinates:
      return "other-coordinates";
    case Statement::not_the_same:
      return "not-the-same";
    case Statement::undecided:
      return "undecided";
  }
  return "";
}

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::same:
      return "same";
    case Verdict::perturbed:
      return "perturbed";
    case Verdict::different:
      return "different";
    case Verdict::undecided:
      return "undecided";
  }
  return "";
}

Diff diff(const Model& a, const Model& b, Progress& progress, const Patches& patches_b) {
  Diff result;
  result.reasons = architecture_differences(a.architecture, b.architecture);
  if (!result.reasons.empty()) {
    result.verdict = Verdict::different;
    result.statement = Statement::not_the_same;
    const Unread unread = compare_unread(a, b, progress);
    result.reasons.insert(result.reasons.end(), unread.differ.begin(), unread.differ.end());
    return result;
  }
  result.architecture = joint_architecture(a.architecture, b.architecture);
  result.declarations = declaration_differences(a.architecture, b.architecture);
  const Symmetry symmetry = symmetry_of(result.architecture);
  const ParameterSource from_a(a, result.architecture);
  const ParameterSource from_b(b, result.architecture, patches_b);

  const auto folded = folded_norms(from_a, from_b);
  result.declarations.insert(result.declarations.end(), folded.begin(), folded.end());
  result.reasons = storage_notes(from_a, from_b);
  const VocabularyNotes vocabulary = vocabulary_differences(a, b);
  result.declarations.insert(result.declarations.end(), vocabulary.harmless.begin(),
                             vocabulary.harmless.end());
  result.not_compared = not_compared(a, b);
  Nearest nearest = bring_near(symmetry, from_a, from_b, progress, Doubt::resolve);
  result.residuals = std::move(nearest.residuals);
  result.a_from_b = std::move(nearest.a_from_b);
  result.movements = std::move(nearest.movements);
  judge(result, nearest.limits);
  if (result.verdict == Verdict::perturbed || result.verdict == Verdict::different) {
    for (auto& line : calibrated_line(from_a, from_b, result.residuals)) {
      result.reasons.push_back(std::move(line));
    }
  }
  const bool near = result.verdict == Verdict::same || result.verdict == Verdict::perturbed;
  if (!near) result.movements.clear();
  const Unread unread = compare_unread(a, b, progress);
  std::vector<std::string> open = unread.differ;
  open.insert(open.end(), vocabulary.matter.begin(), vocabulary.matter.end());
  for (auto& line : output_differences(a.architecture, b.architecture))
    open.push_back(std::move(line));
  if (!result.a_from_b.is_identity()) {
    open.insert(open.end(), unread.equal.begin(), unread.equal.end());
  }
  if (result.verdict == Verdict::same && !open.empty()) result.verdict = Verdict::undecided;
  result.reasons.insert(result.reasons.end(), open.begin(), open.end());
  if (result.a_from_b.is_identity()) {
    result.reasons.insert(result.reasons.end(), unread.equal.begin(), unread.equal.end());
  }
  result.statement = statement_of(result);
  if (result.statement != Statement::identical) {
    for (const auto& [model, name] : {std::pair(&a, "A"), std::pair(&b, "B")}) {
      for (auto& line : unearned_lines(*model, name, progress)) {
        result.reasons.push_back(std::move(line));
      }
    }
  }
  a.checkpoint.require_intact();
  b.checkpoint.require_intact();
  if (result.verdict == Verdict::same) {
    for (auto& line : rounding_line(result.residuals)) result.reasons.push_back(std::move(line));
    result.no_certificate = like_honest_line(result.residuals);
    if (!patches_b.empty()) {
      result.no_certificate = "a certificate cannot say that tokens stand in another order";
    }
  }
  return result;
}

}  // namespace regauge
