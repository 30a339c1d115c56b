#include "grid.h"

#include <fmt/format.h>

#include "regauge/base/error.h"

namespace regauge::lab {

at::Tensor grid_angles(const Attention& a, std::int64_t positions, std::int64_t leading) {
  const std::int64_t patches = positions - leading, side = side_of(patches);
  if (side == 0) {
    throw UsageError(fmt::format(
        "{} patches are no square picture, and the model turns them by their places in it; use a "
        "square number of patches",
        patches));
  }
  const at::Tensor places = (2 * at::arange(side, at::kDouble) + 1) / side - 1;
  const at::Tensor rows = places.repeat_interleave(side), columns = places.repeat({side});
  const at::Tensor frequencies = at::tensor(a.rotary_frequencies, at::kDouble);
  const std::int64_t half = frequencies.size(0) / 2;
  const at::Tensor turning = at::cat({at::outer(rows, frequencies.narrow(0, 0, half)),
                                      at::outer(columns, frequencies.narrow(0, half, half))},
                                     1);
  return at::cat({at::zeros({leading, frequencies.size(0)}, at::kDouble), turning}, 0);
}

at::Tensor grid_rows(const Attention& a, std::int64_t positions) {
  const std::int64_t side = (side_of(a.relative_buckets - 3) + 1) / 2;
  if (positions != side * side + 1) {
    throw UsageError(
        fmt::format("{} patches, and the model has a table of the places of {} x {}; use as many",
                    positions - 1, side, side));
  }
  at::Tensor rows = at::empty({positions * positions}, at::kLong);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    rows.mutable_data_ptr<std::int64_t>()[i] = grid_row(a, i / positions, i % positions);
  }
  return rows;
}

}  // namespace regauge::lab
