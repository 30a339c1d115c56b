#include "regauge/action/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "regauge/base/error.h"

namespace regauge {
namespace {

class Planner {
 public:
  Planner(const Symmetry& symmetry, const Element& element)
      : symmetry_(symmetry), element_(element) {}

  TensorPlan plan(const ParameterSpec& spec) const {
    TensorPlan plan;
    plan.spec = spec;
    const TensorAxes& axes = symmetry_.tensors.at(spec.name);
    add_axis(plan.linear, axes.rows, 0);
    add_axis(plan.linear, axes.cols, 1);
    if (axes.pinned && !plan.linear.empty()) {
      Step step;
      step.tensor = spec.name;
      step.kind = Step::Kind::add_origin;
      plan.linear.insert(plan.linear.begin(), step);
      step.kind = Step::Kind::take_origin;
      plan.linear.push_back(step);
    }
    if (const auto found = symmetry_.index->effects.find(spec.name);
        found != symmetry_.index->effects.end()) {
      for (const auto& [shift, effect] : found->second) {
        if (!shifts(shift)) continue;
        Step step;
        step.kind = Step::Kind::shift;
        step.shift_name = symmetry_.shifts[shift].name;
        step.effect = symmetry_.shifts[shift].effects[effect];
        plan.shifts.push_back(step);
      }
    }
    // Readers' own shifts speak of the norm's bias before it moves.
    std::stable_partition(plan.shifts.begin(), plan.shifts.end(), [](const Step& step) {
      return step.effect.kind != Effect::Kind::norm_reader;
    });
    return plan;
  }

  // Whether a bias takes the constant of some matrix's shift.
  bool receives(const std::string& tensor) const {
    const auto found = symmetry_.index->given.find(tensor);
    return found != symmetry_.index->given.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](std::size_t shift) { return shifts(shift); });
  }

 private:
  // The element names the shift of this position, and not by a vector of zeros.
  bool shifts(std::size_t position) const {
    const auto vector = element_.shifts.find(symmetry_.shifts[position].name);
    return vector != element_.shifts.end() && !vector->second.isZero(0);
  }

  bool moving(const std::string& space) const {
    const auto named = element_.maps.find(space);
    if (named != element_.maps.end()) return !named->second.is_identity();
    const auto known = moving_.find(space);
    if (known != moving_.end()) return known->second;
    return moving_[space] =
               !map_of(symmetry_, element_, *symmetry_.find_space(space)).is_identity();
  }

  bool moving(const AxisPart& part) const {
    return moving(part.space) || (!part.lift.empty() && moving(part.lift));
  }

  void add_axis(std::vector<Step>& steps, const Axis& axis, int index) const {
    for (const auto& part : axis) {
      if (part.through.empty()) {
        if (!moving(part)) continue;
        const bool partial = part.take != AxisPart::Take::whole;
        if (partial && axis_map(symmetry_, element_, part).is_identity()) continue;
        Step step;
        step.axis = index;
        step.part = part;
        steps.push_back(step);
        continue;
      }
      // y = x_hat gain: a covector y* becomes gain'^-1 R^T gain y*, a vector gain' R gain^-1; one
      // that a layer scale multiplies gain'^-1 R gain.
      const bool rotates = moving(part.space);
      const bool rescaled = symmetry_.find_space(part.through) != nullptr && moving(part.through);
      if (!rotates && !rescaled) continue;
      const auto add_gain = [&](Step::Kind kind) {
        Step step;
        step.kind = kind;
        step.axis = index;
        step.norm = part.through;
        steps.push_back(step);
      };
      add_gain(part.times_gain() ? Step::Kind::times_gain : Step::Kind::over_gain);
      if (rotates) {
        Step step;
        step.axis = index;
        step.part = part;
        steps.push_back(step);
      }
      add_gain(part.times_gain() ? Step::Kind::over_new_gain : Step::Kind::times_new_gain);
    }
  }

  const Symmetry& symmetry_;
  const Element& element_;
  mutable std::map<std::string, bool> moving_;  // as far as anybody asked
};

// The norms whose gain or bias a plan speaks of.
void collect_norms(const TensorPlan& plan, std::set<std::string>& norms) {
  for (const auto* steps : {&plan.linear, &plan.shifts}) {
    for (const auto& step : *steps) {
      const std::string& norm = step.kind == Step::Kind::shift ? step.effect.norm : step.norm;
      if (!norm.empty()) norms.insert(norm);
    }
  }
}

LayerPlan plan_layer(const Planner& planner, const Symmetry& symmetry, std::int64_t number) {
  LayerPlan layer;
  layer.layer = number;
  for (const auto& spec : symmetry.layer(number).tensors) {
    (spec.rows == 1 ? layer.vectors : layer.matrices).push_back(planner.plan(spec));
  }
  for (auto& tensor : layer.vectors) tensor.receives = planner.receives(tensor.spec.name);
  // Gains move before the biases that are written in their units.
  std::stable_partition(layer.vectors.begin(), layer.vectors.end(), [](const TensorPlan& tensor) {
    return tensor.spec.name.ends_with(".gain");
  });
  std::set<std::string> norms;
  for (const auto& tensor : layer.vectors) collect_norms(tensor, norms);
  for (const auto& tensor : layer.matrices) collect_norms(tensor, norms);
  for (const auto& name : norms) {
    const NormSite& site = symmetry.norms.at(name);
    for (const auto& vector : {site.gain(), site.bias}) {
      if (vector.empty()) continue;
      const ParameterSpec& spec = symmetry.index->tensors.at(vector);
      if (spec.layer == number) continue;
      TensorPlan borrowed = planner.plan(spec);
      borrowed.shifts.clear();
      layer.borrowed.push_back(std::move(borrowed));
    }
  }
  return layer;
}

// The place of a tensor's layer in a plan: "layers.3.attn.q.weight" is in layers[4].
std::size_t place_of(std::string_view tensor) {
  return static_cast<std::size_t>(layer_of(tensor) + 1);
}

}  // namespace

Plan make_plan(const Symmetry& symmetry, const Element& element) {
  check_shapes(symmetry, element);
  const Planner planner(symmetry, element);
  Plan plan;
  for (std::int64_t layer = -1; layer < symmetry.architecture.all_layers(); ++layer) {
    plan.layers.push_back(plan_layer(planner, symmetry, layer));
  }
  return plan;
}

LayerPlan make_layer_plan(const Symmetry& symmetry, const Element& element, std::int64_t layer) {
  return plan_layer(Planner(symmetry, element), symmetry, layer);
}

const TensorPlan& Plan::of(std::string_view tensor) const {
  const std::size_t place = place_of(tensor);
  if (place < layers.size()) {
    for (const auto* list : {&layers[place].vectors, &layers[place].matrices}) {
      for (const auto& candidate : *list) {
        if (candidate.spec.name == tensor) return candidate;
      }
    }
  }
  throw UsageError(fmt::format("[plan] no tensor '{}'", tensor));
}

std::string describe(const Step& step) {
  switch (step.kind) {
    case Step::Kind::map:
      return fmt::format("axis {} by {}{}", step.axis, step.part.space,
                         step.part.dual ? " (dual)" : "");
    case Step::Kind::times_gain:
      return fmt::format("axis {} times the gain of {}", step.axis, step.norm);
    case Step::Kind::over_gain:
      return fmt::format("axis {} over the gain of {}", step.axis, step.norm);
    case Step::Kind::times_new_gain:
      return fmt::format("axis {} times the new gain of {}", step.axis, step.norm);
    case Step::Kind::over_new_gain:
      return fmt::format("axis {} over the new gain of {}", step.axis, step.norm);
    case Step::Kind::add_origin:
      return "rows plus the first fixed position";
    case Step::Kind::take_origin:
      return "rows minus the first fixed position";
    case Step::Kind::shift:
      return fmt::format("shift by {}", step.shift_name);
  }
  return "";
}

}  // namespace regauge
