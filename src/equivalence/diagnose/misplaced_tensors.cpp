// Tensors that stand in another's place: a layer or shard exchanged, a name mapped wrongly.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/names.h"
#include "explain.h"

namespace regauge {

// A few entries of a tensor, at the same places in all of a shape.
struct Explainer::Sample {
  std::string tensor;
  std::int64_t rows = 0, cols = 0, layer = -1;
  Eigen::VectorXd a, b;
};

namespace {

constexpr std::int64_t kEntries = 64;

Eigen::VectorXd entries(const Matrix<double>& value) {
  const auto count = std::min<std::int64_t>(kEntries, value.size());
  Eigen::VectorXd result(count);
  for (std::int64_t i = 0; i < count; ++i) {
    result(i) = value.data()[value.size() / count * i + i % (value.size() / count)];
  }
  return result;
}

}  // namespace

void Explainer::find_misplaced_tensors() {
  if (all_explained()) return;
  std::vector<Sample> samples;
  for (const auto& spec : parameter_specs(pair_.architecture)) {
    samples.push_back({spec.name, spec.rows, spec.cols, spec.layer, entries(pair_.a(spec.name)),
                       entries(pair_.b(spec.name))});
    progress_.advance(0);
  }
  const auto near = [](const Eigen::VectorXd& a, const Eigen::VectorXd& b, double before) {
    return (a - b).norm() < 0.3 * before;
  };
  // The one tensor other than `of` for which this holds.
  const auto find = [&](const Sample& of, auto&& holds) -> const Sample* {
    for (const Sample& other : samples) {
      const bool shape = other.rows == of.rows && other.cols == of.cols;
      if (shape && other.tensor != of.tensor && holds(other)) return &other;
    }
    return nullptr;
  };
  // Matrices first: of a copy that was trained on, gains and biases may by chance look like another
  // layer's, and are only taken for exchanged where a matrix was.
  std::stable_partition(samples.begin(), samples.end(),
                        [](const Sample& sample) { return sample.rows > 1; });
  for (const Sample& here : samples) {
    if (!is_open(here.tensor)) continue;
    progress_.advance(0);
    const double before = (here.a - here.b).norm();
    // Where A's tensor stands in B, and what B has in its place.
    const Sample* there = find(here, [&](const Sample& other) {
      return near(here.a, other.b, before) && matches(here.tensor, pair_.b(other.tensor));
    });
    const Sample* instead = find(here, [&](const Sample& other) {
      if (!near(other.a, here.b, before)) return false;
      TensorResidual residual = residuals_.at(other.tensor);
      residual.residual = (pair_.a(other.tensor) - pair_.b(here.tensor)).norm() /
                          std::sqrt(static_cast<double>(here.rows * here.cols));
      return residual.residual <= kBeyondRounding * residual.rounding;
    });
    if (there == nullptr && instead == nullptr) continue;
    const Sample& other = there != nullptr ? *there : *instead;
    const bool layers = here.layer >= 0 && other.layer >= 0 &&
                        name_in_layer(here.tensor) == name_in_layer(other.tensor);
    Change change;
    change.mistake = layers ? Mistake::layers_exchanged : Mistake::tensors_exchanged;
    const std::string mine = layers ? fmt::format("layer {}", here.layer) : here.tensor;
    const std::string others = layers ? fmt::format("layer {}", other.layer) : other.tensor;
    if (there != nullptr && instead == there) {
      const bool first = layers ? here.layer < other.layer : here.tensor < other.tensor;
      change.what =
          fmt::format("{} and {} were exchanged", first ? mine : others, first ? others : mine);
    } else if (there != nullptr) {
      change.what = fmt::format("{} stands in the place of {}", mine, others);
    } else {
      change.what =
          fmt::format("{} holds what belongs to {}, and its own is nowhere in B", mine, others);
    }
    if (loosely_ && here.rows == 1 && !was_found(change.what)) continue;
    change.repair = there != nullptr ? "move them back" : "take the tensors of A";
    const ReadTensor& from = pair_.a;
    if (there != nullptr) {
      change.undo[here.tensor] = [name = there->tensor](const ReadTensor& read) {
        return read(name);
      };
    } else {
      change.undo[here.tensor] = [from, name = here.tensor](const ReadTensor&) {
        return from(name);
      };
    }
    accept(std::move(change));
  }
}

}  // namespace regauge
