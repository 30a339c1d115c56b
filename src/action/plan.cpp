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
      : symmetry_(symmetry), element_(element) {
    for (const auto& space : symmetry.spaces) {
      moving_[space.name] = !map_of(symmetry, element, space).is_identity();
    }
  }

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
    for (const auto& shift : symmetry_.shifts) {
      const auto vector = element_.shifts.find(shift.name);
      if (vector == element_.shifts.end() || vector->second.isZero(0)) continue;
      for (const auto& effect : shift.effects) {
        if (effect.tensor != spec.name) continue;
        Step step;
        step.kind = Step::Kind::shift;
        step.shift_name = shift.name;
        step.effect = effect;
        plan.shifts.push_back(step);
      }
    }
    // Readers' own shifts speak of the norm's bias before it moves.
    std::stable_partition(plan.shifts.begin(), plan.shifts.end(), [](const Step& step) {
      return step.effect.kind != Effect::Kind::norm_reader;
    });
    return plan;
  }

 private:
  bool moving(const AxisPart& part) const {
    const bool moves_itself = moving_.at(part.space);
    return moves_itself || (!part.lift.empty() && moving_.at(part.lift));
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
      // y = x_hat gain: a covector y* becomes gain'^-1 R^T gain y*, a vector gain' R gain^-1.
      const bool rotates = moving_.at(part.space);
      const bool rescaled = moving_.contains(part.through) && moving_.at(part.through);
      if (!rotates && !rescaled) continue;
      const auto add_gain = [&](Step::Kind kind) {
        Step step;
        step.kind = kind;
        step.axis = index;
        step.norm = part.through;
        steps.push_back(step);
      };
      add_gain(part.dual ? Step::Kind::times_gain : Step::Kind::over_gain);
      if (rotates) {
        Step step;
        step.axis = index;
        step.part = part;
        steps.push_back(step);
      }
      add_gain(part.dual ? Step::Kind::over_new_gain : Step::Kind::times_new_gain);
    }
  }

  const Symmetry& symmetry_;
  const Element& element_;
  std::map<std::string, bool> moving_;
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

std::set<std::string> receivers(const Plan& plan) {
  std::set<std::string> names;
  for (const auto& layer : plan.layers) {
    for (const auto* list : {&layer.vectors, &layer.matrices}) {
      for (const auto& tensor : *list) {
        for (const auto& step : tensor.shifts) names.insert(step.effect.target);
      }
    }
  }
  return names;
}

}  // namespace

Plan make_plan(const Symmetry& symmetry, const Element& element) {
  check_shapes(symmetry, element);
  const Planner planner(symmetry, element);
  Plan plan;
  plan.layers.resize(static_cast<std::size_t>(symmetry.architecture.layers) + 1);
  std::map<std::string, ParameterSpec> specs;
  for (const auto& spec : parameter_specs(symmetry.architecture)) {
    specs.emplace(spec.name, spec);
    LayerPlan& layer = plan.layers[static_cast<std::size_t>(spec.layer + 1)];
    layer.layer = spec.layer;
    (spec.rows == 1 ? layer.vectors : layer.matrices).push_back(planner.plan(spec));
  }
  const std::set<std::string> takers = receivers(plan);
  for (auto& layer : plan.layers) {
    for (auto& tensor : layer.vectors) tensor.receives = takers.contains(tensor.spec.name);
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
        if (vector.empty() || specs.at(vector).layer == layer.layer) continue;
        TensorPlan borrowed = planner.plan(specs.at(vector));
        borrowed.shifts.clear();
        layer.borrowed.push_back(std::move(borrowed));
      }
    }
  }
  return plan;
}

const TensorPlan& Plan::of(std::string_view tensor) const {
  for (const auto& layer : layers) {
    for (const auto* list : {&layer.vectors, &layer.matrices}) {
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
