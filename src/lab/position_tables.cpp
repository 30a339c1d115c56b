// What attention adds, or turns by, for every pair of places.
#include <limits>

#include "grid.h"
#include "transformer.h"

namespace regauge::lab {

Transformer::Tables Transformer::tables(const Attention& a, bool causal, std::int64_t n,
                                        std::int64_t leading, at::ScalarType type) {
  Tables made;
  if (a.positions == Positions::rotary) {
    const at::Tensor frequencies = at::tensor(a.rotary_frequencies, at::kDouble);
    const at::Tensor angles =
        a.grid ? grid_angles(a, n, leading) : at::outer(at::arange(n, at::kDouble), frequencies);
    made.turns = at::polar(at::ones_like(angles), angles).to(at::toComplexType(type));
  }
  const at::Tensor place = at::arange(n, at::kLong);
  if (a.temperature > 0) {
    const at::Tensor spans = at::floor_divide(place, a.temperature_length).to(at::kDouble);
    made.temperatures = (1 + a.temperature * at::log1p(spans)).to(type).view({n, 1});
  }
  const at::Tensor offset = place.unsqueeze(0) - place.unsqueeze(1);  // key - query
  if (a.positions == Positions::alibi) {
    at::Tensor slopes = at::empty({a.heads, 1, 1}, at::kDouble);
    for (std::int64_t i = 0; i < a.heads; ++i) slopes[i] = alibi_slope(i, a.heads);
    made.mask = (-slopes * offset.abs()).to(type);
  }
  const bool masked = a.window > 0 || made.mask.defined() || a.positions == Positions::relative;
  if (masked) {
    if (!made.mask.defined()) made.mask = at::zeros({1, n, n}, type);
    at::Tensor hidden = at::zeros({n, n}, at::kBool);
    if (causal) hidden = hidden | (offset > 0);
    if (a.window > 0) hidden = hidden | ((causal ? -offset : offset.abs()) >= a.window);
    made.mask = made.mask.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  if (a.positions == Positions::relative && a.grid) {
    made.buckets = grid_rows(a, n);
  } else if (a.positions == Positions::relative) {
    made.buckets = offset.reshape(-1).clone();
    for (std::int64_t i = 0; i < made.buckets.numel(); ++i) {
      auto& bucket = made.buckets.mutable_data_ptr<std::int64_t>()[i];
      bucket = relative_bucket(a, causal, bucket);
    }
  }
  return made;
}

}  // namespace regauge::lab
