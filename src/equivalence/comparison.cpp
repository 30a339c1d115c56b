#include "comparison.h"

#include <algorithm>
#include <cmath>

namespace regauge {
namespace {

bool wide(const StoredTensor* tensor) {
  return tensor == nullptr || works_in_double(tensor->dtype);
}

}  // namespace

Comparison::Comparison(const Symmetry& symmetry, const Element& a_from_b, const Models& models,
                       int draw)
    : symmetry_(symmetry),
      models_(models),
      draw_(draw),
      shaken_element_(shaken(a_from_b, draw,
                             std::max(models.rounding_a.coarsest(), models.rounding_b.coarsest()))),
      exact_(symmetry, a_from_b),
      shaken_(symmetry, shaken_element_) {}

std::vector<TensorResidual> Comparison::run(const Plan& plan, Progress& progress) {
  std::map<std::string, TensorResidual> results;
  progress.start("comparing", parameter_count(symmetry_.architecture));
  for (const auto& layer : plan.layers) run(layer, results, progress);
  progress.finish();
  std::vector<TensorResidual> ordered;
  for (const auto& spec : parameter_specs(symmetry_.architecture)) {
    ordered.push_back(results.at(spec.name));
  }
  return ordered;
}

void Comparison::run(const LayerPlan& layer, std::map<std::string, TensorResidual>& results,
                     Progress& progress) {
  const ParameterSource& a = models_.a;
  const ParameterSource& b = models_.b;
  const auto read = [&](const TensorPlan& tensor) { return b.read<double>(tensor.spec.name); };
  exact_.begin(layer, read);
  shaken_.begin(layer, [&](const TensorPlan& tensor) {
    return shaken<double>(tensor.spec.name, draw_, read(tensor), models_.rounding_b.of(tensor));
  });
  for (const auto& tensor : layer.matrices) {
    const std::string& name = tensor.spec.name;
    results[name] =
        wide(a.stored(name)) || wide(b.stored(name)) ? in_double(tensor) : in_float(tensor);
    progress.advance(tensor.spec.rows * tensor.spec.cols);
  }
  const auto moved = exact_.finish(layer);
  const auto moved_noisy = shaken_.finish(layer);
  for (const auto& tensor : layer.vectors) {
    const std::string& name = tensor.spec.name;
    const Matrix<double> expected = a.read<double>(name);
    const Matrix<double>& value = moved.at(name);
    TensorResidual result;
    result.tensor = name;
    result.single_row = true;
    result.size = rms(expected);
    result.residual = rms<double>(expected - value);
    result.rounding = std::hypot(models_.rounding_a.of(tensor) * result.size,
                                 rms<double>(moved_noisy.at(name) - value));
    results[name] = result;
  }
}

}  // namespace regauge
