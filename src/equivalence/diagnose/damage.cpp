// What no known mistake explains: where it is; and changes as causes that people can read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "arch/names.h"
#include "explain.h"

namespace regauge {
namespace {

constexpr std::size_t kPlaces = 4;

// "layers.*.attn.q.weight", or with the numbers of the layers where it is not all of them.
std::vector<std::string> summarised(const Architecture& architecture,
                                    const std::vector<std::string>& tensors) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::int64_t>> layers;
  for (const auto& spec : parameter_specs(architecture)) {
    if (std::find(tensors.begin(), tensors.end(), spec.name) == tensors.end()) continue;
    const std::string key(name_in_layer(spec.name));
    if (!layers.contains(key)) order.push_back(key);
    layers[key].push_back(spec.layer);
  }
  for (auto& key : order) {
    const auto& found = layers.at(key);
    if (found.front() < 0) continue;
    const bool all = static_cast<std::int64_t>(found.size()) == architecture.layers;
    key = all && found.size() > 1 ? fmt::format("layers.*.{}", key)
                                  : fmt::format("layers.{}.{}", fmt::join(found, ","), key);
  }
  return order;
}

// The smallest part of a matrix that holds all entries above a limit.
struct Box {
  Eigen::Index first_row = std::numeric_limits<Eigen::Index>::max(), last_row = 0;
  Eigen::Index first_col = std::numeric_limits<Eigen::Index>::max(), last_col = 0;

  static Box of(const Matrix<double>& off, double above) {
    Box box;
    for (Eigen::Index row = 0; row < off.rows(); ++row) {
      for (Eigen::Index col = 0; col < off.cols(); ++col) {
        if (!(off(row, col) > above)) continue;
        box.first_row = std::min(box.first_row, row);
        box.last_row = std::max(box.last_row, row);
        box.first_col = std::min(box.first_col, col);
        box.last_col = std::max(box.last_col, col);
      }
    }
    return box;
  }
  // Where it is, if it is a block that tells: a small part of a matrix.
  std::string within(const Matrix<double>& all) const {
    constexpr Eigen::Index kSmall = 4;
    const Eigen::Index size = (last_row - first_row + 1) * (last_col - first_col + 1);
    if (all.rows() == 1 || size * kSmall > all.size()) return "";
    return fmt::format(", the large ones from input {} to {} and output {} to {}", first_row,
                       last_row, first_col, last_col);
  }
};

// Which entries of a difference are beyond rounding.
std::string whereabouts(const Matrix<double>& off, double rounding) {
  constexpr double kLarge = 0.25;  // of the largest difference
  std::int64_t entries = 0, no_numbers = 0;
  double most = 0;
  Eigen::Index row = 0, col = 0;
  for (Eigen::Index i = 0; i < off.rows(); ++i) {
    for (Eigen::Index j = 0; j < off.cols(); ++j) {
      const double entry = off(i, j);
      if (!std::isfinite(entry)) {
        ++no_numbers;
      } else if (entry > rounding) {
        ++entries;
      }
      if (entry <= most || std::isinf(most)) continue;
      most = std::isfinite(entry) ? entry : std::numeric_limits<double>::infinity();
      row = i;
      col = j;
    }
  }
  const std::string place =
      off.rows() == 1 ? fmt::format("entry {}", col) : fmt::format("input {}, output {}", row, col);
  if (no_numbers > 0) {
    return fmt::format("{} of {} entries are NaN or infinite, the first at {}", no_numbers,
                       off.size(), place);
  }
  return fmt::format("{} of {} entries differ{}, most of all at {} by {:.2g}", entries, off.size(),
                     entries > 1 ? Box::of(off, std::max(rounding, kLarge * most)).within(off) : "",
                     place, most);
}

}  // namespace

void Explainer::find_other_base() {
  if (!pair_.adapted) return;
  for (const auto& name : unexplained()) {
    if (auto change = other_base(pair_, name)) accept(std::move(*change));
  }
}

void Explainer::locate_damage() {
  const auto names = unexplained();
  if (names.size() > kPlaces && 4 * names.size() > residuals_.size()) return;  // no place
  for (const auto& name : names) {
    const TensorResidual& residual = residuals_.at(name);
    const Matrix<double> value = pair_.b(name);
    const bool lost = value.isZero(0);
    Change change;
    change.mistake = lost ? Mistake::lost : Mistake::damaged;
    change.what =
        lost ? "zero everywhere"
             : whereabouts((pair_.a(name) - value).cwiseAbs(), kBeyondRounding * residual.rounding);
    change.undo[name] = nullptr;
    accept(std::move(change));
  }
}

std::vector<Cause> causes_of(const Architecture& architecture, const std::vector<Change>& changes) {
  std::vector<Cause> causes;
  std::vector<std::string> whats;
  for (const auto& change : changes) {
    auto at = std::find(whats.begin(), whats.end(), change.what);
    if (at == whats.end()) {
      whats.push_back(change.what);
      causes.push_back({change.mistake, {}, change.repair, {}});
      at = std::prev(whats.end());
    }
    Cause& cause = causes[static_cast<std::size_t>(at - whats.begin())];
    for (const auto& [name, patch] : change.undo) cause.tensors.push_back(name);
  }
  for (std::size_t i = 0; i < causes.size(); ++i) {
    causes[i].sentence = fmt::format(
        "{}: {}", fmt::join(summarised(architecture, causes[i].tensors), ", "), whats[i]);
  }
  return causes;
}

}  // namespace regauge
