#include "comparable_pair.h"

#include "regauge/action/act.h"

namespace regauge {
namespace {

Parameters<double> moved(const Symmetry& symmetry, const ReadTensor& read, const Element& form) {
  Parameters<double> parameters;
  for (const auto& spec : parameter_specs(symmetry.architecture)) {
    parameters[spec.name] = read(spec.name);
  }
  act(symmetry, form, parameters);
  return parameters;
}

}  // namespace

ComparablePair::ComparablePair(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                               const Scope& scope, Progress& progress, double sign_of_b)
    : symmetry_(&symmetry),
      form_a_(comparable_form(symmetry, a, scope, progress)),
      form_b_(comparable_form(symmetry, b, scope, progress, sign_of_b)),
      a_(moved(symmetry, a, form_a_)),
      b_(moved(symmetry, b, form_b_)) {}

Element ComparablePair::between_forms(const Element& a_from_b) const {
  return compose(*symmetry_, form_a_, compose(*symmetry_, a_from_b, inverse(*symmetry_, form_b_)));
}

Element ComparablePair::between_models(const Element& relative) const {
  return regauge::between_models(*symmetry_, form_a_, relative, form_b_);
}

}  // namespace regauge
