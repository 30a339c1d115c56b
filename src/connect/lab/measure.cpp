#include "connect/measure.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "action/moved_model.h"
#include "connect/record.h"

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
  std::vector<Point> curve;
  for (std::size_t i = 0; i < line.points.size(); ++i) {
    const auto& [t, score] = line.points[i];
    curve.push_back({.t = t, .accuracy = score.accuracy, .excess = line.excess(i)});
  }
  return {{"barrier", line.barrier},
          {"accuracy_barrier", accuracy_barrier(curve)},
          {"area", excess_area(curve)},
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

nlohmann::json head_ranks(const ModelPair& pair, const AlignSettings& settings,
                          const Alignment& found, const lab::Data& data, std::int64_t examples,
                          Progress& progress) {
  const Architecture& shape = pair.symmetry.architecture;
  const auto a = moved_parameters<float>(pair.a, pair.symmetry, {});
  AlignOptions options = settings.options;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    options.heads[layer] = found.report.at("layers")
                               .at(static_cast<std::size_t>(layer))
                               .at("heads")
                               .get<std::vector<std::int64_t>>();
  }
  const auto keeps_groups = [](std::int64_t group, const std::vector<std::int64_t>& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto first = i / static_cast<std::size_t>(group) * static_cast<std::size_t>(group);
      if (places[i] / group != places[first] / group) return false;
    }
    return true;
  };
  const auto middle_loss = [&](const AlignOptions& with) {
    const Alignment aligned =
        align_two_stage(pair.symmetry, pair.a.reader(), pair.b.reader(), with, Progress::silent());
    auto middle = moved_parameters<float>(pair.b, pair.symmetry, aligned.a_from_b);
    for (auto& [name, value] : middle) value = (value + a.at(name)) / 2;
    return lab::evaluate(shape, middle, data, examples, progress).loss;
  };
  nlohmann::json ranks = nlohmann::json::object();
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const Space* heads = pair.symmetry.find_space(fmt::format("layers.{}.attn.heads", layer));
    if (heads == nullptr || !options.scope.contains(*heads)) continue;
    const double here = middle_loss(options);
    double best = here;
    std::int64_t rank = 1, count = 0;
    AlignOptions other = options;
    std::vector<std::int64_t>& places = other.heads[layer];
    std::sort(places.begin(), places.end());
    do {
      if (!keeps_groups(shape.layer(layer).attention.group(), places)) continue;
      const double loss = places == options.heads[layer] ? here : middle_loss(other);
      best = std::min(best, loss);
      rank += loss < here ? 1 : 0;
      ++count;
    } while (std::next_permutation(places.begin(), places.end()));
    ranks[fmt::format("layers.{}", layer)] = {
        {"rank", rank}, {"of", count}, {"loss", here}, {"best", best}};
  }
  return ranks;
}

std::map<std::string, double> imbalance(const Architecture& architecture,
                                        const Parameters<float>& model) {
  const auto of_heads = [](const Attention& shape, const Matrix<double>& each,
                           const Matrix<double>& shared, std::int64_t width) {
    double sum = 0;
    for (std::int64_t i = 0; i < shape.heads; ++i) {
      const Matrix<double> one = each.middleCols(i * width, width);
      const Matrix<double> other = shared.middleCols(i / shape.group() * width, width);
      const Matrix<double> left = one.transpose() * one, right = other.transpose() * other;
      sum += (left - right).norm() / std::max((left + right).norm(), 1e-300);
    }
    return sum / static_cast<double>(shape.heads);
  };
  std::map<std::string, double> result;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const Attention& shape = architecture.layer(layer).attention;
    const std::string at = fmt::format("layers.{}.attn.", layer);
    const auto map = [&](const char* name) {
      return Matrix<double>(model.at(at + name).cast<double>());
    };
    result[at + "qk"] = of_heads(shape, map("q.weight"), map("k.weight"), shape.plain_width());
    result[at + "vo"] =
        of_heads(shape, map("o.weight").transpose(),
                 map(shape.keys_as_values ? "k.weight" : "v.weight"), shape.v_width);
  }
  return result;
}

}  // namespace regauge::connect
