#pragma once

#include <map>
#include <string>
#include <vector>

#include "read_part.h"
#include "regauge/action/executor.h"
#include "rounding.h"

namespace regauge {

// What compare() and estimate() share: A against a_from_b . B, which is moved twice, as it is and
// with its entries and the element's shifts shaken by as much as rounding. A matrix is judged by
// the derived class, a single row here.
class Comparison {
 public:
  // Both models' rounding and what is read of A's maps, found once for all draws.
  struct Models {
    Models(const Symmetry& symmetry, const ParameterSource& in_a, const ParameterSource& in_b)
        : a(in_a), b(in_b), rounding_a(in_a), rounding_b(in_b), read_part(symmetry, in_a) {}
    const ParameterSource& a;
    const ParameterSource& b;
    Rounding rounding_a;
    Rounding rounding_b;
    ReadPart read_part;
  };

  Comparison(const Symmetry& symmetry, const Element& a_from_b, const Models& models, int draw);
  virtual ~Comparison() = default;
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Every canonical tensor, in the order of parameter_specs.
  std::vector<TensorResidual> run(const Plan& plan, Progress& progress);

 protected:
  virtual TensorResidual in_float(const TensorPlan& tensor) = 0;
  virtual TensorResidual in_double(const TensorPlan& tensor) = 0;

  const Symmetry& symmetry_;
  const Models& models_;
  int draw_;

 private:
  void run(const LayerPlan& layer, std::map<std::string, TensorResidual>& results,
           Progress& progress);

  Element shaken_element_;

 protected:
  Executor exact_;
  Executor shaken_;
};

// Method(symmetry, a_from_b, models, draw) by as many draws of noise as it takes.
template <class Method>
std::vector<TensorResidual> compare_by(const Symmetry& symmetry, const Element& a_from_b,
                                       const ParameterSource& a, const ParameterSource& b,
                                       Progress& progress) {
  const Plan plan = make_plan(symmetry, a_from_b);
  const Comparison::Models models(symmetry, a, b);
  return compare_by_draws(
      [&](int draw) { return Method(symmetry, a_from_b, models, draw).run(plan, progress); });
}

}  // namespace regauge
