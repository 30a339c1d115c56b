#include "regauge/connect/measure.h"

#include <nlohmann/json.hpp>

#include "regauge/action/moved_model.h"

namespace regauge::connect {

nlohmann::json to_json(const lab::Line& line) {
  nlohmann::json points = nlohmann::json::array();
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    points.push_back({{"t", t},
                      {"loss", score.loss},
                      {"loss_error", score.loss_error},
                      {"accuracy", score.accuracy},
                      {"excess", line.excess(i)},
                      {"excess_error", line.excess_error(i)}});
  }
  return {{"barrier", line.barrier},
          {"barrier_error", line.barrier_error},
          {"barrier_at", line.barrier_at},
          {"examples", line.points.front().score.examples},
          {"targets", line.points.front().score.targets},
          {"points", points}};
}

template <class Scalar>
Parameters<Scalar> moved_parameters(const ParameterSource& model, const Symmetry& symmetry,
                                    const Element& element) {
  const MovedModel moved(model.reader(), symmetry, element);
  Parameters<Scalar> all;
  for (std::int64_t layer = -1; layer < symmetry.architecture.layers; ++layer) {
    all.merge(moved.layer<Scalar>(layer));
  }
  return all;
}
template Parameters<float> moved_parameters(const ParameterSource&, const Symmetry&,
                                            const Element&);
template Parameters<double> moved_parameters(const ParameterSource&, const Symmetry&,
                                             const Element&);

nlohmann::json residuals(const Parameters<float>& a, const Parameters<float>& b) {
  nlohmann::json result = nlohmann::json::object();
  for (const auto& [name, value] : a) {
    const double size = value.norm();
    if (size > 0) result[name] = (value - b.at(name)).norm() / size;
  }
  return result;
}

}  // namespace regauge::connect
