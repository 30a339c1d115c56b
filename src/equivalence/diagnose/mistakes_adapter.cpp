// An adapter that was merged wrongly: not at all, twice, with another scale, on its side, or into
// another base. A is the base and the adapter.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "change.h"

namespace regauge {
namespace {

// A factor of what the adapter adds, and what may have made it so.
struct KnownFactor {
  double value;
  Mistake mistake;
  std::string what;
};

std::vector<KnownFactor> known_factors(const io::LowRank::Form& form) {
  const auto rank = static_cast<double>(form.lora_rank), root = std::sqrt(rank);
  std::vector<KnownFactor> factors = {
      {0, Mistake::adapter_missing, "the adapter is not applied"},
      {2, Mistake::adapter_doubled, "the adapter is applied twice"},
      {-1, Mistake::adapter_scale, "what the adapter adds was subtracted"},
      {1 / form.scale, Mistake::adapter_scale, "the adapter has scale 1 (alpha and r ignored)"},
      {form.alpha / form.scale, Mistake::adapter_scale, "the adapter has scale alpha, not over r"},
      {1 / (rank * form.scale), Mistake::adapter_scale,
       "the adapter has scale 1/r (alpha ignored)"},
      form.rank_stabilised
          ? KnownFactor{1 / root, Mistake::adapter_scale,
                        "the adapter has scale alpha/r, not alpha/sqrt(r) (use_rslora ignored)"}
          : KnownFactor{root, Mistake::adapter_scale,
                        "the adapter has scale alpha/sqrt(r) (rsLoRA), not alpha/r"}};
  constexpr double kEqual = 1e-9;
  std::vector<KnownFactor> different;
  for (KnownFactor& factor : factors) {
    if (!std::isfinite(factor.value) || std::abs(factor.value - 1) < kEqual) continue;
    const auto same = std::ranges::find_if(different, [&](const KnownFactor& other) {
      return std::abs(factor.value - other.value) < kEqual;
    });
    if (same == different.end()) {
      different.push_back(std::move(factor));
    } else {
      same->what += ", or " + factor.what;
    }
  }
  return different;
}

double inner_product(const Matrix<double>& x, const Matrix<double>& y) {
  return (x.array() * y.array()).sum();
}

// Read when it is needed, so that nothing is held.
Patch adding(const std::string& name, std::function<Matrix<double>()> what) {
  return changing_each(
      changed(name, [what = std::move(what)](const Matrix<double>& value) -> Matrix<double> {
        return value + what();
      }));
}

// Undone in B by adding `factor` times what `to` has more than `from`.
Change restored(const std::string& name, Mistake mistake, std::string what, const ReadTensor& from,
                const ReadTensor& to, double factor) {
  Change change;
  change.mistake = mistake;
  change.what = std::move(what);
  change.repair = "merge the adapter again";
  change.undo[name] =
      adding(name, [=]() -> Matrix<double> { return factor * (to(name) - from(name)); });
  return change;
}

struct Measured {
  Matrix<double> added, off;  // what the adapter adds; what B has more than the base
};

std::optional<Measured> measured(const Pair& pair, const std::string& name) {
  const Matrix<double> base = pair.adapted->base(name), b = pair.b(name);
  if (base.rows() != b.rows() || base.cols() != b.cols()) return std::nullopt;
  Measured result{pair.adapted->whole(name) - base, b - base};
  if (result.added.isZero(0) || !result.off.allFinite()) return std::nullopt;
  return result;
}

double factor_of(const Matrix<double>& off, const Matrix<double>& added) {
  return inner_product(off, added) / inner_product(added, added);
}

// With this factor much less of B is left to explain than with the right one.
bool explains(const Matrix<double>& off, const Matrix<double>& added, double factor) {
  constexpr double kMuchLess = 0.5;
  return (off - factor * added).norm() <= kMuchLess * (off - added).norm();
}

void add_factor(const Pair& pair, const std::string& name, const Measured& m,
                const io::LowRank::Form& form, std::vector<Change>& changes) {
  constexpr double kNearKnown = 0.05;  // a factor is known as well as rounding leaves it
  const auto to = [&](double factor, Mistake mistake, const std::string& what) {
    if (!explains(m.off, m.added, factor)) return;
    changes.push_back(
        restored(name, mistake, what, pair.adapted->base, pair.adapted->whole, 1 - factor));
  };
  const double found = factor_of(m.off, m.added);
  std::vector<KnownFactor> factors = known_factors(form);
  std::ranges::sort(factors, {}, [&](const KnownFactor& f) { return std::abs(f.value - found); });
  for (const KnownFactor& factor : factors) {
    if (std::abs(factor.value - found) > kNearKnown * std::max(1.0, std::abs(factor.value))) break;
    to(factor.value, factor.mistake, factor.what);
  }
  to(found, Mistake::adapter_scale,
     fmt::format("the adapter has {:.2g} times the scale that its config says", found));
}

// "1-3, 5": runs of numbers.
std::string runs_of(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(end == i + 1 ? fmt::format("{}", numbers[i])
                                : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  const std::size_t shown = std::min(kShown, runs.size());
  return fmt::format(
      "{}{}", fmt::join(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < runs.size() ? ", ..." : "");
}

// Applied to some of the experts of a layer.
void add_some_experts(const Pair& pair, const ParameterSpec& spec, const Measured& m,
                      std::vector<Change>& changes) {
  const bool rows = spec.sliced_rows;
  const Eigen::Index width = (rows ? spec.rows : spec.cols) / spec.slices;
  const auto slice = [=](const Matrix<double>& all, std::int64_t i) -> Matrix<double> {
    if (rows) return all.middleRows(i * width, width);
    return all.middleCols(i * width, width);
  };
  std::vector<std::int64_t> without;
  std::int64_t with = 0;
  for (std::int64_t i = 0; i < spec.slices; ++i) {
    const Matrix<double> added = slice(m.added, i);
    if (added.isZero(0)) continue;
    if (std::abs(factor_of(slice(m.off, i), added)) < 0.5) {
      without.push_back(i);
    } else {
      ++with;
    }
  }
  if (without.empty() || with == 0) return;
  Change change;
  change.mistake = Mistake::adapter_missing;
  change.what = fmt::format("the adapter is not applied to {} of {} experts: {}", without.size(),
                            with + static_cast<std::int64_t>(without.size()), runs_of(without));
  change.repair = "merge the adapter again";
  const Adapted& adapted = *pair.adapted;
  change.undo[spec.name] =
      adding(spec.name, [=, whole = adapted.whole, base = adapted.base]() -> Matrix<double> {
        const Matrix<double> added = whole(spec.name) - base(spec.name);
        Matrix<double> missing = Matrix<double>::Zero(added.rows(), added.cols());
        for (const std::int64_t i : without) {
          if (rows) {
            missing.middleRows(i * width, width) = slice(added, i);
          } else {
            missing.middleCols(i * width, width) = slice(added, i);
          }
        }
        return missing;
      });
  changes.push_back(std::move(change));
}

// What the adapter adds to gate went to up, and the reverse.
void add_exchanged_halves(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  const std::string gate = fmt::format("layers.{}.ffn.gate.weight", layer);
  const std::string up = fmt::format("layers.{}.ffn.up.weight", layer);
  const auto m = measured(pair, gate), n = measured(pair, up);
  if (!m || !n || m->added.rows() != n->added.rows() || m->added.cols() != n->added.cols()) return;
  if (!((m->off - n->added).norm() < (m->off - m->added).norm())) return;
  Change change;
  change.mistake = Mistake::adapter_halves;
  change.what = "what the adapter adds to gate and to up was exchanged";
  change.repair = "merge the adapter again";
  for (const auto& [name, other] : {std::pair{gate, up}, {up, gate}}) {
    change.undo[name] = adding(name,
                               [name = name, other = other, whole = pair.adapted->whole,
                                base = pair.adapted->base]() -> Matrix<double> {
                                 return (whole(name) - base(name)) - (whole(other) - base(other));
                               });
  }
  changes.push_back(std::move(change));
}

}  // namespace

void add_adapter_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (!pair.adapted) return;
  for (const auto& spec : parameter_specs(pair.architecture)) {
    const io::LowRank* packing = spec.layer == layer ? pair.adapted->packing(spec.name) : nullptr;
    if (packing == nullptr) continue;
    const auto m = measured(pair, spec.name);
    if (!m) continue;
    add_factor(pair, spec.name, *m, packing->form(), changes);
    if (spec.slices > 1) add_some_experts(pair, spec, *m, changes);
    for (const auto& variant : pair.adapted->variants) {
      const Matrix<double> wrong = variant.read(spec.name) - pair.adapted->base(spec.name);
      if (!((m->off - wrong).norm() < (m->off - m->added).norm())) continue;
      changes.push_back(
          restored(spec.name, variant.mistake, variant.what, variant.read, pair.adapted->whole, 1));
    }
  }
  const bool gated = layer >= 0 && pair.architecture.layer(layer).ffn.gated;
  if (gated && pair.adapted->packing(fmt::format("layers.{}.ffn.gate.weight", layer)) != nullptr) {
    add_exchanged_halves(pair, layer, changes);
  }
}

std::optional<Change> other_base(const Pair& pair, const std::string& tensor) {
  constexpr double kSureFactor = 0.1;  // of the factor
  constexpr double kNearOne = 3;       // standard errors
  if (!pair.adapted || pair.adapted->packing(tensor) == nullptr) return std::nullopt;
  const auto m = measured(pair, tensor);
  if (!m) return std::nullopt;
  const double factor = factor_of(m->off, m->added);
  const double error = (m->off - factor * m->added).norm() / m->added.norm() /
                       std::sqrt(static_cast<double>(m->off.size()));
  if (error > kSureFactor || std::abs(factor - 1) > kNearOne * error) return std::nullopt;
  Change change;
  change.mistake = Mistake::adapter_base;
  change.what =
      "the adapter is applied, to other numbers than the base's: another base, or trained further";
  change.undo[tensor] = nullptr;
  return change;
}

}  // namespace regauge
