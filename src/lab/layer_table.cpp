#include "layer_table.h"

#include <cmath>

#include "activated.h"

namespace regauge::lab {

at::Tensor of_table(const Architecture& a, const Layer& layer, const Tensors& parameters,
                    const std::string& at, const at::Tensor& x, const at::Tensor& embedded,
                    const at::Tensor& tokens) {
  const auto root = [](std::int64_t n) { return std::sqrt(static_cast<double>(n)); };
  const auto linear = [&](const char* name, const at::Tensor& y) {
    return at::linear(y, parameters.at(at + name).t());
  };
  const at::Tensor mapped = linear("map.weight", embedded) / root(a.width);
  const at::Tensor gain = parameters.at("embed.tables.norm.gain").squeeze(0);
  const at::Tensor own = at::rms_norm(mapped, {a.table_width}, gain, a.norm_eps);
  at::Tensor rows = at::full({x.size(0), x.size(1)}, a.vector_row, at::kLong);
  if (tokens.defined()) rows = at::where(tokens < 0, rows, tokens);
  const at::Tensor read = root(a.table_width) * at::embedding(parameters.at(at + "tokens"), rows);
  return activated(layer.ffn.activation, linear("gate.weight", x)) * ((own + read) / root(2));
}

}  // namespace regauge::lab
