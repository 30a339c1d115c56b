#include "regauge/arch/architecture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

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
         std::ranges::none_of(kinds, [](const Layer& kind) {
           return kind.attention.shares_table || kind.attention.shares_keys;
         });
}

std::int64_t Architecture::keys_of(std::int64_t index) const {
  Attention own = layer(index).attention;
  if (!own.shares_keys) return index;
  own.shares_keys = false;
  for (std::int64_t n = index - 1; n >= 0; --n) {
    if (layer(n).attention == own) return n;
  }
  return index;
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
  if (count != layers && index > 0) result.bare_first_attention = false;
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

std::int64_t side_of(std::int64_t patches) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  return patches > 0 && side * side == patches ? side : 0;
}

std::int64_t grid_row(const Attention& a, std::int64_t query, std::int64_t key) {
  const std::int64_t rows = a.relative_buckets, differences = side_of(rows - 3);
  if (query == 0) return key == 0 ? rows - 1 : rows - 3;
  if (key == 0) return rows - 2;
  const std::int64_t side = (differences + 1) / 2, q = query - 1, k = key - 1;
  return (q / side - k / side + side - 1) * differences + q % side - k % side + side - 1;
}

std::vector<double> pair_characters(const Attention& a) {
  if (!a.grid) return a.rotary_frequencies;
  // Places are real numbers of two axes: pairs are alike where axis and frequency are.
  std::vector<std::pair<bool, double>> known;
  std::vector<double> characters;
  const std::size_t half = a.rotary_frequencies.size() / 2;
  for (std::size_t b = 0; b < a.rotary_frequencies.size(); ++b) {
    const std::pair<bool, double> here{b >= half, a.rotary_frequencies[b]};
    if (here.second == 0) {
      characters.push_back(0);
      continue;
    }
    auto found = std::ranges::find(known, here);
    if (found == known.end()) found = known.insert(known.end(), here);
    // Of as many as there are pairs, none is pi.
    characters.push_back(static_cast<double>(found - known.begin() + 1) /
                         static_cast<double>(a.rotary_frequencies.size()));
  }
  return characters;
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
