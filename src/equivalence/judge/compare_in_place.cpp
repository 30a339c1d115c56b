#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "arch/reading.h"
#include "entries.h"
#include "equivalence/residual_record.h"
#include "equivalence/rounding.h"
#include "equivalence/tolerances.h"
#include "in_place.h"
#include "io/parts.h"
#include "io/rounding.h"
#include "regauge/equivalence/compare.h"
#include "stretches.h"

namespace regauge {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 24;  // bytes read before their pages are dropped
constexpr std::int64_t kDecoded = std::int64_t{1} << 12;  // numbers decoded at a time, whole blocks

// A piece of a parameter in a file: entry (i, j) is number i * stride + columns[j] of the tensor,
// or columns[j] * stride + i if transposed.
struct Side {
  const Checkpoint& checkpoint;
  const StoredTensor& tensor;
  Layout::Place place;
};

// What corresponds comes in runs of consecutive numbers: the rows of both or, of transposed
// matrices, the columns.
struct Runs {
  std::int64_t count, length;
  static std::optional<Runs> of(std::int64_t rows, std::int64_t cols, const Side& a,
                                const Side& b) {
    if (a.place.transposed != b.place.transposed) return std::nullopt;
    const Runs runs = a.place.transposed ? Runs{cols, rows} : Runs{rows, cols};
    for (const Side* side : {&a, &b}) {
      const DType type = side->tensor.dtype;
      for (std::int64_t i = 0; i < runs.count; ++i) {
        if (begin(side->place, i) % block_elements(type) != 0) return std::nullopt;
      }
      if (runs.length % block_elements(type) != 0) return std::nullopt;
      if (side->place.transposed) continue;
      for (std::int64_t j = 0; j < cols; ++j) {
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

// What both files hold of a parameter, piece by piece.
struct BothSides {
  Side a, b;
  Runs runs;
};

// Nothing where the two files cut a parameter into other pieces, or numbers that belong together do
// not come in runs.
std::vector<BothSides> pairs_of(const ParameterSpec& spec, const ParameterSource& a,
                                const ParameterSource& b) {
  const auto of_a = a.pieces(spec.name), of_b = b.pieces(spec.name);
  if (of_a.size() != of_b.size()) return {};
  const auto side = [&](const ParameterSource& source, const Layout::Piece& piece) {
    const Checkpoint& checkpoint = source.model().checkpoint;
    Side result{checkpoint, checkpoint.at(piece.holder), piece.place};
    if (spec.rows == 1 && piece.place.stride == 1) result.place.transposed = false;
    return result;
  };
  std::vector<BothSides> pairs;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    const Layout::Piece &x = of_a[i], &y = of_b[i];
    const std::int64_t cols = std::min(spec.cols, x.cols), rows = std::min(spec.rows, x.rows);
    const bool alike = x.row == y.row && x.col == y.col && rows == std::min(spec.rows, y.rows) &&
                       cols == std::min(spec.cols, y.cols);
    if (!alike) return {};
    Side of_x = side(a, x), of_y = side(b, y);
    if (spec.rows == 1 && (of_x.place.transposed || of_y.place.transposed)) return {};
    const auto runs = Runs::of(rows, cols, of_x, of_y);
    if (!runs) return {};
    pairs.push_back({std::move(of_x), std::move(of_y), *runs});
  }
  return pairs;
}

// Where pieces of files are put that are not mapped. New memory for each tensor would cost several
// times as much as reading the file.
std::pair<std::vector<std::byte>, std::vector<std::byte>>& piece_buffers() {
  thread_local std::pair<std::vector<std::byte>, std::vector<std::byte>> buffers;
  return buffers;
}

// Calls use(x, y) for pieces of both files that correspond number by number, until it returns
// false. Both are in memory, unless they are packed, and dropped behind it.
template <class Use>
void for_each_piece(const Runs& runs, const Side& a, const Side& b, Progress& progress, Use use) {
  const Numbers all_a = a.checkpoint.numbers(a.tensor), all_b = b.checkpoint.numbers(b.tensor);
  const std::int64_t most =
      kPiece / std::max(block_bytes(a.tensor.dtype), block_bytes(b.tensor.dtype));
  const std::int64_t piece = std::max<std::int64_t>(most / kDecoded * kDecoded, kDecoded);
  auto& [of_a, of_b] = piece_buffers();
  std::int64_t seen = 0;
  const auto drop = [&] {
    a.checkpoint.release(a.tensor);
    b.checkpoint.release(b.tensor);
    progress.advance(seen);
    seen = 0;
  };
  bool more = true;
  for (std::int64_t i = 0; i < runs.count && more;) {
    const std::int64_t at_a = Runs::begin(a.place, i), at_b = Runs::begin(b.place, i);
    std::int64_t length = runs.length;
    for (++i; i < runs.count; ++i, length += runs.length) {  // runs that lie end to end
      if (Runs::begin(a.place, i) != at_a + length || Runs::begin(b.place, i) != at_b + length) {
        break;
      }
    }
    for (std::int64_t first = 0; first < length && more; first += piece) {
      const std::int64_t count = std::min(piece, length - first);
      more = use(all_a.range(at_a + first, count).in_memory(of_a),
                 all_b.range(at_b + first, count).in_memory(of_b));
      seen += count;
      if (seen >= piece) drop();
    }
  }
  drop();
}

// False as well where several tensors hold the numbers of one, whose values tell.
bool same_bytes(const BothSides& pair, Progress& progress) {
  const auto& [a, b, runs] = pair;
  bool same = !a.tensor.packing && !b.tensor.packing;
  if (!same) return false;
  for_each_piece(runs, a, b, progress, [&](const Numbers& of_a, const Numbers& of_b) {
    const Bytes x = of_a.bytes(), y = of_b.bytes();
    same = std::memcmp(x.data(), y.data(), x.size()) == 0;
    return same;
  });
  return same;
}

// One side's numbers with their rounding, decoded piece by piece.
struct Decoded {
  std::vector<double> values, below, above;
  std::vector<signed char> ends;
  void read_ends(const Side& side, const Numbers& stored) {
    read(side, stored, true);
    ends.resize(values.size());
    stored.block_ends(values, ends);
  }
  void read(const Side& side, const Numbers& stored, bool with_bounds) {
    const auto count = static_cast<std::size_t>(stored.count());
    for (auto* list : {&values, &below, &above}) list->resize(count);
    stored.decode<double>(values);
    if (with_bounds) stored.rounding_bounds(values, below, above);
    if (side.place.offset == 0) return;
    for (double& value : values) value += side.place.offset;
  }
};

void add_entries(const BothSides& pair, Entries& entries) {
  const auto& [a, b, runs] = pair;
  Decoded x, y;
  for_each_piece(runs, a, b, Progress::silent(), [&](const Numbers& of_a, const Numbers& of_b) {
    for (std::int64_t first = 0; first < of_a.count(); first += kDecoded) {
      const std::int64_t count = std::min(kDecoded, of_a.count() - first);
      const bool in_doubt = !entries.certainly_differ();
      x.read(a, of_a.range(first, count), in_doubt);
      y.read(b, of_b.range(first, count), in_doubt);
      if (!in_doubt) {
        entries.add_values(x.values, y.values);
        continue;
      }
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        entries.add({x.values[i], x.below[i], x.above[i]}, {y.values[i], y.below[i], y.above[i]});
      }
    }
    return true;
  });
}

bool cut_off(signed char end, bool above) { return end == kBothEnds || end == (above ? 1 : -1); }

// A quantiser with an importance matrix cuts off extremes that matter little. Where no other
// numbers are beyond their rounding, and these are few, the two may be the same.
void forgive_cut_off(const std::vector<BothSides>& pairs, TensorResidual& result) {
  if (result.relation != Relation::differs) return;
  std::int64_t cut = 0, others = 0, all = 0;
  Decoded x, y;
  for (const auto& pair : pairs) {
    const auto& [a, b, runs] = pair;
    if (a.tensor.plain_type() && b.tensor.plain_type()) return;
    for_each_piece(runs, a, b, Progress::silent(), [&](const Numbers& of_a, const Numbers& of_b) {
      const std::int64_t n = of_a.count();
      for (std::int64_t first = 0; first < n && others == 0; first += kDecoded) {
        const std::int64_t count = std::min(kDecoded, n - first);
        x.read_ends(a, of_a.range(first, count));
        y.read_ends(b, of_b.range(first, count));
        for (std::size_t i = 0; i < x.values.size(); ++i) {
          const double difference = y.values[i] - x.values[i];
          const bool up = difference > 0;
          const double room = up ? x.above[i] + y.below[i] : x.below[i] + y.above[i];
          if (std::abs(difference) <= room * (1 + kHalfUnitSlack)) continue;
          const bool at_end = cut_off(x.ends[i], up) || cut_off(y.ends[i], !up);
          ++(at_end ? cut : others);
        }
        all += count;
      }
      return others == 0;
    });
  }
  if (others > 0 || static_cast<double>(cut) > kMostCutOff * static_cast<double>(all)) return;
  result.relation = Relation::hidden;
  result.standing_out = fmt::format(
      "{} of {} numbers were cut off at the end of their block, as an importance matrix does", cut,
      all);
}

bool is_chosen_jointly(const ParameterSpec& spec, const ParameterSource& source) {
  const StoredTensor* tensor = source.stored(spec.name);
  return tensor != nullptr && codes_are_joint(tensor->dtype);
}

Stretches stretches_of(const std::vector<BothSides>& pairs, const ParameterSpec& spec,
                       const ParameterSource& a, const ParameterSource& b) {
  Stretches stretches;
  Decoded x, y;
  for (const auto& pair : pairs) {
    const auto& [in_a, in_b, runs] = pair;
    for_each_piece(runs, in_a, in_b, Progress::silent(),
                   [&](const Numbers& of_a, const Numbers& of_b) {
                     for (std::int64_t first = 0; first < of_a.count(); first += kDecoded) {
                       const std::int64_t count = std::min(kDecoded, of_a.count() - first);
                       x.read(in_a, of_a.range(first, count), false);
                       y.read(in_b, of_b.range(first, count), false);
                       stretches.add(x.values, y.values);
                     }
                     return true;
                   });
  }
  if (!pairs.empty()) return stretches;
  const Matrix<double> values_a = a.read<double>(spec.name), values_b = b.read<double>(spec.name);
  std::vector<double> row_a(static_cast<std::size_t>(values_a.cols())), row_b(row_a);
  for (Eigen::Index i = 0; i < values_a.rows(); ++i) {
    for (Eigen::Index j = 0; j < values_a.cols(); ++j) {
      row_a[static_cast<std::size_t>(j)] = values_a(i, j);
      row_b[static_cast<std::size_t>(j)] = values_b(i, j);
    }
    stretches.add(row_a, row_b);
  }
  return stretches;
}

// A codebook's codes say nothing of a single number, and a sign alone next to nothing: where every
// stretch is alike, or every number within its bounds, the two may be the same, and no more.
void judge_jointly(const std::vector<BothSides>& pairs, const ParameterSpec& spec,
                   const ParameterSource& a, const ParameterSource& b, TensorResidual& result) {
  if (result.relation == Relation::equal) return;
  const Stretches stretches = stretches_of(pairs, spec, a, b);
  if (result.relation == Relation::differs && stretches.unlike() > 0) {
    result.standing_out = fmt::format("{} of {} stretches of 256 numbers are unlike each other",
                                      stretches.unlike(), stretches.count());
    return;
  }
  const bool in_a = is_chosen_jointly(spec, a);
  result.relation = Relation::hidden;
  result.standing_out =
      fmt::format("{} of {} chooses the codes of a block together and tells no single number",
                  (in_a ? a : b).stored(spec.name)->type_name(), in_a ? "A" : "B");
}

Entries entries_of_values(const ParameterSpec& spec, const ParameterSource& a,
                          const ParameterSource& b) {
  const bool sliced = a.slices(spec.name) == b.slices(spec.name);
  const std::int64_t slices = sliced ? a.slices(spec.name) : 1;
  const auto at = [&](std::int64_t slice) { return slices == 1 ? ParameterSource::kAll : slice; };
  Entries equal, entries;
  bool same = true;
  for (std::int64_t slice = 0; slice < slices && same; ++slice) {
    const Matrix<double> x = a.read<double>(spec.name, at(slice));
    same = x == b.read<double>(spec.name, at(slice));
    equal.add_equal(x);
  }
  for (std::int64_t slice = 0; slice < slices && !same; ++slice) {
    const Matrix<double> x = a.read<double>(spec.name, at(slice));
    const Matrix<double> y = b.read<double>(spec.name, at(slice));
    const auto around_x = a.bounds(spec.name, at(slice));
    const auto around_y = b.bounds(spec.name, at(slice));
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      entries.add({x.data()[i], around_x.below.data()[i], around_x.above.data()[i]},
                  {y.data()[i], around_y.below.data()[i], around_y.above.data()[i]});
    }
  }
  return same ? equal : entries;
}

// Both files hold it in one type and in one way, so that nothing was rounded between them.
bool one_type(const ParameterSpec& spec, const ParameterSource& a, const ParameterSource& b) {
  if (a.is_patched(spec.name) || b.is_patched(spec.name)) return false;
  const StoredTensor* x = a.stored(spec.name);
  const StoredTensor* y = b.stored(spec.name);
  if (x == nullptr || y == nullptr) return true;  // zeros that one of them leaves out
  const auto of_a = a.pieces(spec.name), of_b = b.pieces(spec.name);
  return stored_alike(*x, *y) && !of_a.empty() && !of_b.empty() &&
         of_a.front().place.offset == of_b.front().place.offset;
}

}  // namespace

TensorResidual compare_tensor_in_place(const ParameterSpec& spec, const ParameterSource& a,
                                       const ParameterSource& b, Progress& progress) {
  const std::vector<BothSides> pairs = pairs_of(spec, a, b);
  const bool same_type = one_type(spec, a, b);
  TensorResidual result;
  result.tensor = spec.name;
  result.single_row = spec.rows == 1;
  result.by_entry = true;
  const bool equal = !pairs.empty() && same_type &&
                     std::all_of(pairs.begin(), pairs.end(),
                                 [&](const BothSides& pair) { return same_bytes(pair, progress); });
  if (equal) {
    result.relation = Relation::equal;
    return result;
  }
  Entries entries;
  for (const auto& pair : pairs) add_entries(pair, entries);
  if (pairs.empty()) {
    progress.advance(spec.rows * spec.cols);
    entries = entries_of_values(spec, a, b);
  }
  entries.judge(same_type, most_hidden(a, b, spec.name), result);
  if (same_type) return result;
  if (is_chosen_jointly(spec, a) || is_chosen_jointly(spec, b)) {
    judge_jointly(pairs, spec, a, b, result);
  } else if (!pairs.empty()) {
    forgive_cut_off(pairs, result);
  }
  return result;
}

std::vector<TensorResidual> compare_in_place(const ParameterSource& a, const ParameterSource& b,
                                             Progress& outer) {
  std::vector<TensorResidual> results;
  const auto specs = parameter_specs(a.architecture());
  Reading progress(outer, a, b);
  std::vector<std::int64_t> sizes;
  for (const auto& spec : specs) sizes.push_back(spec.rows * spec.cols);
  progress.start("comparing", parameter_count(a.architecture()));
  for_each_unit(
      "compare in place", sizes, progress,
      [&](std::int64_t i, Progress& own) {
        return compare_tensor_in_place(specs[static_cast<std::size_t>(i)], a, b, own);
      },
      [&](std::int64_t, TensorResidual result) { results.push_back(std::move(result)); });
  progress.finish();
  return results;
}

}  // namespace regauge
