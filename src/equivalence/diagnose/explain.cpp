#include "explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "equivalence/rounding.h"

namespace regauge {
namespace {

constexpr double kMuchNearer = 0.3;   // of the residual before
constexpr std::int64_t kTelling = 2;  // the last layer that tells of all

// Every tensor is read once.
ReadTensor remembering(const ReadTensor& read) {
  const auto seen = std::make_shared<std::map<std::string, AnyMatrix, std::less<>>>();
  return [read, seen](std::string_view name) {
    const auto at = seen->find(name);
    return at != seen->end() ? at->second : seen->emplace(name, read.any(name)).first->second;
  };
}

}  // namespace

Explainer::Explainer(Pair pair, const std::vector<TensorResidual>& residuals, Progress& progress,
                     std::optional<ReadPart> read)
    : pair_(std::move(pair)), progress_(progress), read_(std::move(read)) {
  for (const auto& residual : residuals) residuals_[residual.tensor] = residual;
}

std::vector<std::string> Explainer::unexplained() const {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(pair_.architecture)) {
    if (is_open(spec.name)) names.push_back(spec.name);
  }
  return names;
}

bool Explainer::is_open(const std::string& tensor) const {
  const auto residual = residuals_.find(tensor);
  return residual != residuals_.end() && !residual->second.agrees() && !explained_.contains(tensor);
}

bool Explainer::matches(const std::string& tensor, const Matrix<double>& value,
                        double factor) const {
  // A guess: what is made of all guesses is compared entry by entry in the end.
  constexpr double kAboutRounding = 6;
  constexpr double kMuchLess = 0.5;  // of the residual before: else it explains nothing
  TensorResidual now = residuals_.at(tensor);
  const double before = now.residual;
  now.rounding *= factor;
  const Matrix<double> expected = pair_.a(tensor);
  if (expected.rows() != value.rows() || expected.cols() != value.cols()) return false;
  const Matrix<double> difference = expected - value;
  now.residual = rms(read_ ? read_->of(tensor, difference) : difference);
  constexpr double kOfSize = 0.7;  // of A's numbers: rounding that hides more tells nothing
  const bool explains = now.agrees() || now.residual <= kMuchLess * before;
  if (!now.agrees() && now.size > 0 && now.residual > kOfSize * now.size) return false;
  if (explains && now.residual <= kAboutRounding * now.rounding) return true;
  return loosely_ && now.residual < kMuchNearer * std::min(before, now.size);
}

bool Explainer::matches_all(const Patches& undo) const {
  return std::all_of(undo.begin(), undo.end(), [&](const auto& entry) {
    const auto& [name, patch] = entry;
    const Matrix<double> value = patch(pair_.b);
    const double before = patch.does == Patch::Does::scale ? rms<double>(pair_.b(name)) : 0;
    return matches(name, value, before > 0 ? std::max(1.0, rms(value) / before) : 1);
  });
}

bool Explainer::was_found(const std::string& what) const {
  return std::any_of(changes_.begin(), changes_.end(),
                     [&](const Change& change) { return change.what == what; });
}

bool Explainer::mostly_open() const {
  std::int64_t open = 0, all = 0;
  for (const auto& [name, residual] : residuals_) {
    if (residual.single_row) continue;
    ++all;
    if (is_open(name)) ++open;
  }
  return 2 * open > all;
}

void Explainer::accept(Change change) {
  for (const auto& [name, patch] : change.undo) explained_.insert(name);
  changes_.push_back(std::move(change));
}

void Explainer::try_change(Change candidate) {
  const auto& undo = candidate.undo;
  const bool open = std::any_of(undo.begin(), undo.end(),
                                [&](const auto& entry) { return is_open(entry.first); });
  const bool free = std::none_of(undo.begin(), undo.end(), [&](const auto& entry) {
    return explained_.contains(entry.first);
  });
  if (open && free && matches_all(undo)) accept(std::move(candidate));
}

void Explainer::try_changes(std::int64_t layer) {
  const Pair whole = pair_;
  pair_.a = remembering(whole.a);
  pair_.b = remembering(whole.b);
  std::vector<Change> candidates;
  add_changes(pair_, layer, candidates);
  // What was right elsewhere is tried first.
  std::stable_partition(candidates.begin(), candidates.end(),
                        [&](const Change& candidate) { return was_found(candidate.what); });
  for (auto& candidate : candidates) {
    try_change(std::move(candidate));
    progress_.advance(0);
  }
  pair_ = whole;
}

void Explainer::explain(Where where) {
  loosely_ = where == Where::trained;
  const Architecture& a = pair_.architecture;
  // What was done nearly everywhere was done to the first layers, too.
  const bool everywhere = mostly_open();
  progress_.start("trying known mistakes", a.layers + 1);
  for (std::int64_t layer = -1; layer < a.layers; ++layer) {
    const auto names = tensors_of(a, layer);
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return is_open(name); })) {
      try_changes(layer);
    }
    progress_.advance(1);
    if (layer == kTelling && everywhere && changes_.empty()) break;
  }
  progress_.finish();
  find_misplaced_experts();
  find_misplaced_tensors();
  if (where == Where::recovered || (everywhere && changes_.empty())) return;
  fit_heads();
  find_misplaced_rows();
}

}  // namespace regauge
