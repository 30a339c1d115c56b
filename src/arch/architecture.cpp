#include "regauge/arch/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace regauge {

void Architecture::set_layers(const std::vector<Layer>& all) {
  layers = static_cast<std::int64_t>(all.size());
  kinds.clear();
  pattern.clear();
  for (const auto& layer : all) {
    const auto known = std::ranges::find(kinds, layer);
    pattern.push_back(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(layer);
  }
  if (kinds.size() <= 1) pattern.clear();
  if (kinds.empty()) kinds.emplace_back();
}

bool Architecture::layers_stand_alone() const {
  return plain_stream() && encoder_layers == 0 &&
         std::ranges::none_of(kinds, [](const Layer& kind) { return kind.attention.shares_table; });
}

Architecture Architecture::alone() const {
  Architecture result = *this;
  result.beside.clear();
  return result;
}

Architecture Architecture::with_layers_like(std::int64_t index, std::int64_t count) const {
  Architecture result = *this;
  result.kinds = {layer(index)};
  result.pattern.clear();
  result.layers = count;
  if (count != layers) result.deep_inputs = index < deep_inputs ? count : 0;
  return result;
}

std::string Architecture::last_norm(std::int64_t index) const {
  return fmt::format("layers.{}.{}.norm", index, layer(index).has_ffn() ? "ffn" : "attn");
}

std::int64_t Architecture::outputs() const {
  return output.has(Output::tokens) ? vocabulary : classes;
}

std::vector<Output> Outputs::list() const {
  std::vector<Output> all;
  for (const auto output : {Output::tokens, Output::classes, Output::hidden, Output::pooled}) {
    if (has(output)) all.push_back(output);
  }
  return all;
}

std::vector<double> rotary_frequencies(std::int64_t dims, double theta) {
  std::vector<double> frequencies;
  for (std::int64_t b = 0; 2 * b < dims; ++b) {
    frequencies.push_back(
        std::pow(theta, -2.0 * static_cast<double>(b) / static_cast<double>(dims)));
  }
  return frequencies;
}

double sinusoid(const Architecture& a, std::int64_t position, std::int64_t column) {
  const std::int64_t half = (a.width + 1) / 2;
  const bool pairs = a.sinusoids == Sinusoids::pairs;
  const bool is_sine = pairs ? column % 2 == 0 : column < half;
  const std::int64_t index = pairs ? column / 2 : column % half;
  const auto steps = a.sinusoids == Sinusoids::halves_inclusive ? static_cast<double>(half - 1)
                                                                : static_cast<double>(a.width) / 2;
  const double frequency = std::pow(10000.0, -static_cast<double>(index) / steps);
  const double angle = static_cast<double>(a.first_position + position) * frequency;
  return is_sine ? std::sin(angle) : std::cos(angle);
}

double alibi_slope(std::int64_t head, std::int64_t heads) {
  return std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(heads));
}

std::int64_t relative_bucket(const Attention& a, bool causal, std::int64_t offset) {
  const std::int64_t buckets = causal ? a.relative_buckets : a.relative_buckets / 2;
  const std::int64_t begin = !causal && offset > 0 ? buckets : 0;
  const std::int64_t distance = causal ? std::max<std::int64_t>(0, -offset) : std::abs(offset);
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return begin + distance;
  if (exact == 0 || a.relative_max_distance <= exact) {
    return begin + std::max<std::int64_t>(0, buckets - 1);
  }
  const double share =
      std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
      std::log(static_cast<double>(a.relative_max_distance) / static_cast<double>(exact));
  const auto logarithmic = static_cast<std::int64_t>(share * static_cast<double>(buckets - exact));
  return begin + std::min(exact + logarithmic, buckets - 1);
}

}  // namespace regauge
