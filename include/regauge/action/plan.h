#pragma once

#include <string>
#include <vector>

#include "regauge/symmetry/element.h"

namespace regauge {

// One thing done to one tensor. A plan is known before any number is read, and holds nothing that
// only one executor could know.
struct Step {
  enum class Kind {
    map,         // the axis by the element's map for `part`
    times_gain,  // the axis times the norm's gain as it was
    over_gain,   // the axis divided by the norm's gain as it was
    times_new_gain,
    over_new_gain,
    add_origin,   // every row plus fixed_origin of the tensor
    take_origin,  // every row minus it
    shift         // an effect of a shift vector
  };
  Kind kind = Kind::map;
  std::string tensor = {};
  int axis = 1;
  AxisPart part = {};
  std::string norm = {};
  std::string shift_name = {};
  Effect effect = {};
};
std::string describe(const Step& step);

// What an element does to one canonical tensor.
struct TensorPlan {
  ParameterSpec spec;
  std::vector<Step> linear;  // the basis change
  std::vector<Step> shifts;  // after it
  bool receives = false;     // a bias that takes the constant of some matrix's shift

  bool is_shifted() const { return !shifts.empty() || receives; }
  bool touched() const { return !linear.empty() || is_shifted(); }
};

// The tensors of one layer (or of embedding and head together, layer -1), and the vectors of
// other layers that they need.
struct LayerPlan {
  std::int64_t layer = -1;
  std::vector<TensorPlan> vectors;   // small, kept while the layer is worked on
  std::vector<TensorPlan> borrowed;  // gains and biases of another layer's norms: basis change only
  std::vector<TensorPlan> matrices;  // one at a time
};

struct Plan {
  std::vector<LayerPlan> layers;  // embedding and head first

  // Every tensor's plan by name.
  const TensorPlan& of(std::string_view tensor) const;
  bool touches(std::string_view tensor) const { return of(tensor).touched(); }
};

// Steps that the element does not need are left out.
Plan make_plan(const Symmetry& symmetry, const Element& element);
// The plan of one layer, at the cost of one. The element's shapes are taken as checked.
LayerPlan make_layer_plan(const Symmetry& symmetry, const Element& element, std::int64_t layer);

}  // namespace regauge
