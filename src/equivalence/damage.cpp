// What no known mistake explains: where it is; and changes as causes that people can read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "explain.h"

namespace regauge {
namespace {

constexpr double kBeyondRounding = 12;
constexpr std::size_t kPlaces = 4;

// "layers.*.attn.q.weight", or with the numbers of the layers where it is not all of them.
std::vector<std::string> summarised(const Architecture& architecture,
                                    const std::vector<std::string>& tensors) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::int64_t>> layers;
  for (const auto& spec : parameter_specs(architecture)) {
    if (std::find(tensors.begin(), tensors.end(), spec.name) == tensors.end()) continue;
    std::string key = spec.name;
    if (spec.layer >= 0) key = key.substr(key.find('.', 7) + 1);
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

}  // namespace

void Explainer::locate_damage() {
  const auto names = unexplained();
  if (names.size() > kPlaces && 4 * names.size() > residuals_.size()) return;  // no place
  for (const auto& name : names) {
    const TensorResidual& residual = residuals_.at(name);
    const Matrix<double> off = (pair_.a(name) - pair_.b(name)).cwiseAbs();
    Eigen::Index row = 0, col = 0;
    const double most = off.maxCoeff(&row, &col);
    const double tolerance = kBeyondRounding * residual.rounding;
    std::int64_t entries = 0;
    for (const double entry : off.reshaped()) entries += entry > tolerance ? 1 : 0;
    Change change;
    change.mistake = Mistake::damaged;
    change.what = fmt::format("{} of {} entries differ, most of all ({}, {}) by {:.2g}", entries,
                              off.size(), row, col, most);
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
