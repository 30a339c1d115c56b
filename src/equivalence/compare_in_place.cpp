#include <algorithm>
#include <cmath>
#include <optional>

#include "regauge/equivalence/compare.h"
#include "rounding.h"
#include "stored_sums.h"

namespace regauge {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 24;  // bytes read before their pages are dropped

// A parameter in a file: entry (i, j) is number i * stride + columns[j] of the tensor, or
// columns[j] * stride + i if transposed.
struct Side {
  const Checkpoint& checkpoint;
  const StoredTensor& tensor;
  Layout::Place place;

  const std::byte* number(std::int64_t index) const {
    return checkpoint.bytes(tensor).data() +
           index / block_elements(tensor.dtype) * block_bytes(tensor.dtype);
  }
};

std::optional<Side> side_of(const ParameterSource& source, const ParameterSpec& spec) {
  auto place = source.place(spec.name);
  if (!place || place->offset != 0) return std::nullopt;
  if (spec.rows == 1) {
    if (place->transposed && place->stride != 1) return std::nullopt;
    place->transposed = false;
  }
  return Side{source.model().checkpoint, *source.stored(spec.name), std::move(*place)};
}

// What corresponds comes in runs of consecutive numbers: the rows of both or, of transposed
// matrices, the columns.
struct Runs {
  std::int64_t count, length;
  static std::optional<Runs> of(const ParameterSpec& spec, const Side& a, const Side& b) {
    if (a.place.transposed != b.place.transposed) return std::nullopt;
    const Runs runs = a.place.transposed ? Runs{spec.cols, spec.rows} : Runs{spec.rows, spec.cols};
    for (const Side* side : {&a, &b}) {
      const DType type = side->tensor.dtype;
      if (type == DType::f64) return std::nullopt;
      for (std::int64_t i = 0; i < runs.count; ++i) {
        if (begin(side->place, i) % block_elements(type) != 0) return std::nullopt;
      }
      if (runs.length % block_elements(type) != 0) return std::nullopt;
      if (side->place.transposed) continue;
      for (std::int64_t j = 0; j < spec.cols; ++j) {
        const auto& columns = side->place.columns;
        if (columns[static_cast<std::size_t>(j)] != columns[0] + j) return std::nullopt;
      }
    }
    return runs;
  }
  static std::int64_t begin(const Layout::Place& place, std::int64_t i) {
    return place.transposed ? place.columns[static_cast<std::size_t>(i)] * place.stride
                            : i * place.stride + place.columns[0];
  }
};

// One pass over both files' bytes; pages are dropped behind it.
Sums sums_of_files(const Runs& runs, const Side& a, const Side& b, Progress& progress) {
  const std::int64_t most =
      kPiece / std::max(block_bytes(a.tensor.dtype), block_bytes(b.tensor.dtype));
  const std::int64_t piece = std::max<std::int64_t>(most / 256 * 256, 256);  // whole blocks
  Sums sums;
  std::int64_t seen = 0;
  const auto drop = [&] {
    a.checkpoint.release(a.tensor);
    b.checkpoint.release(b.tensor);
    progress.advance(seen);
    seen = 0;
  };
  for (std::int64_t i = 0; i < runs.count;) {
    const std::int64_t at_a = Runs::begin(a.place, i), at_b = Runs::begin(b.place, i);
    std::int64_t length = runs.length;
    for (++i; i < runs.count; ++i, length += runs.length) {  // runs that lie end to end
      if (Runs::begin(a.place, i) != at_a + length || Runs::begin(b.place, i) != at_b + length) {
        break;
      }
    }
    for (std::int64_t first = 0; first < length; first += piece) {
      const std::int64_t count = std::min(piece, length - first);
      add_stored_sums(a.tensor.dtype, a.number(at_a + first), b.tensor.dtype,
                      b.number(at_b + first), count, sums);
      seen += count;
      if (seen >= piece) drop();
    }
  }
  drop();
  return sums;
}

template <class Scalar>
Sums sums_of_values(const Matrix<Scalar>& a, const Matrix<Scalar>& b) {
  Sums sums;
  if constexpr (std::is_same_v<Scalar, float>) {
    add_stored_sums(DType::f32, reinterpret_cast<const std::byte*>(a.data()), DType::f32,
                    reinterpret_cast<const std::byte*>(b.data()), a.size(), sums);
  } else {
    sums = {a.squaredNorm(), b.squaredNorm(), (a - b).squaredNorm()};
  }
  return sums;
}

bool is_f64(const StoredTensor* tensor) { return tensor != nullptr && tensor->dtype == DType::f64; }

Sums sums_of(const ParameterSpec& spec, const ParameterSource& a, const ParameterSource& b,
             Progress& progress) {
  const std::int64_t count = spec.rows * spec.cols;
  const auto side_a = side_of(a, spec), side_b = side_of(b, spec);
  const auto runs = side_a && side_b ? Runs::of(spec, *side_a, *side_b) : std::nullopt;
  if (runs) {
    const Sums sums = sums_of_files(*runs, *side_a, *side_b, progress);
    if (sums.are_sound(count)) return sums;
  } else {
    progress.advance(count);
    const bool wide = spec.rows == 1 || is_f64(a.stored(spec.name)) || is_f64(b.stored(spec.name));
    if (!wide) {
      const Sums sums = sums_of_values(a.read<float>(spec.name), b.read<float>(spec.name));
      if (sums.are_sound(count)) return sums;
    }
  }
  return sums_of_values(a.read<double>(spec.name), b.read<double>(spec.name));
}

}  // namespace

std::vector<TensorResidual> compare_in_place(const ParameterSource& a, const ParameterSource& b,
                                             Progress& progress) {
  std::vector<TensorResidual> results;
  progress.start("comparing", parameter_count(a.architecture()));
  for (const auto& spec : parameter_specs(a.architecture())) {
    const Sums sums = sums_of(spec, a, b, progress);
    const auto rms = [&](double sum) {
      return std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(spec.rows * spec.cols, 1)));
    };
    TensorResidual result;
    result.tensor = spec.name;
    result.single_row = spec.rows == 1;
    result.size = rms(sums.aa);
    result.residual = rms(sums.dd);
    result.rounding = std::hypot(stored_rounding(a, spec.name) * result.size,
                                 stored_rounding(b, spec.name) * rms(sums.bb));
    result.in_place = !result.single_row;
    result.blind = result.in_place && is_mostly_rounding(result, rms(sums.bb));
    results.push_back(result);
  }
  progress.finish();
  return results;
}

}  // namespace regauge
