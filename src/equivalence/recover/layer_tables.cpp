#include "layer_tables.h"

#include "signature.h"

namespace regauge {
namespace {

Matrix<double> first_gates(const FramedModel& model) {
  const std::string gate = "layers.0.table.gate.weight";
  const auto layer = model.layer(0, [&](const std::string& name) { return name == gate; });
  return layer.at(gate).transpose();
}

Matrix<double> common_gain(const FramedModel& model) {
  return model.layer(-1, [](const std::string&) { return false; }).at("embed.tables.norm.gain");
}

}  // namespace

// The first layer's gates tell: an activation sees their lengths. The gain has the factors.
std::map<std::string, BlockMap<double>> table_coordinates(const Space& tables, const FramedModel& a,
                                                          const FramedModel& b, double rounding) {
  const auto places = match_rows(first_gates(b), first_gates(a), rounding);
  const Matrix<double> in_a = common_gain(a), in_b = common_gain(b);
  Matrix<double> factors(tables.count, 1);
  for (Eigen::Index i = 0; i < tables.count; ++i) {
    const double to = in_a(0, places[static_cast<std::size_t>(i)]);
    factors(i, 0) = to != 0 && in_b(0, i) != 0 ? to / in_b(0, i) : 1;
  }
  return {{tables.name, BlockMap<double>(tables.count, 1, places, factors)}};
}

}  // namespace regauge
