#include "pieces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "checked.h"
#include "corrupt.h"

namespace regauge::io {
namespace {

using Sizes = std::vector<std::int64_t>;

bool overlap(const Piece& a, const Piece& b) {
  for (std::size_t i = 0; i < a.offsets.size(); ++i) {
    if (a.offsets[i] + a.sizes[i] <= b.offsets[i] || b.offsets[i] + b.sizes[i] <= a.offsets[i]) {
      return false;
    }
  }
  return true;
}

// Each element of the tensor lies in just one piece.
void check_tiling(const Sizes& shape, const std::vector<Piece>& pieces, const std::string& where) {
  const auto refuse = [&](Corruption cause, const std::string& what) {
    throw CorruptFile(cause, fmt::format("{}: {}", where, what));
  };
  std::int64_t total = 0;
  std::vector<const Piece*> filled;
  for (const Piece& piece : pieces) {
    bool inside = piece.offsets.size() == shape.size() && piece.sizes.size() == shape.size() &&
                  piece.strides.size() == shape.size();
    for (std::size_t i = 0; inside && i < shape.size(); ++i) {
      inside = piece.offsets[i] >= 0 && piece.sizes[i] >= 0 && piece.offsets[i] <= shape[i] &&
               piece.sizes[i] <= shape[i] - piece.offsets[i];
    }
    if (!inside) {
      refuse(
          Corruption::bad_shape,
          fmt::format("a piece of [{}] at [{}] does not lie in [{}]", fmt::join(piece.sizes, ", "),
                      fmt::join(piece.offsets, ", "), fmt::join(shape, ", ")));
    }
    const std::int64_t count = element_count(piece.sizes).value_or(0);
    if (count > 0) filled.push_back(&piece);
    const auto sum = io::sum(total, count);
    if (!sum) refuse(Corruption::overlap, "its pieces have more numbers than there can be");
    total = *sum;
  }
  // Neighbours along the axis on which the pieces begin at most places.
  std::size_t axis = 0, most = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::set<std::int64_t> begins;
    for (const Piece* piece : filled) begins.insert(piece->offsets[i]);
    if (begins.size() > most) {
      most = begins.size();
      axis = i;
    }
  }
  std::ranges::sort(filled, {},
                    [&](const Piece* piece) { return shape.empty() ? 0 : piece->offsets[axis]; });
  for (std::size_t i = 0; i < filled.size(); ++i) {
    for (std::size_t j = i + 1; j < filled.size(); ++j) {
      if (!shape.empty() &&
          filled[j]->offsets[axis] >= filled[i]->offsets[axis] + filled[i]->sizes[axis]) {
        break;
      }
      if (overlap(*filled[i], *filled[j])) {
        refuse(Corruption::overlap, fmt::format("the pieces at [{}] and [{}] overlap",
                                                fmt::join(filled[i]->offsets, ", "),
                                                fmt::join(filled[j]->offsets, ", ")));
      }
    }
  }
  const auto needed = element_count(shape);
  if (!needed || total != *needed) {
    refuse(Corruption::hole,
           fmt::format("its pieces hold {} of the numbers of [{}]", total, fmt::join(shape, ", ")));
  }
}

}  // namespace

Pieces::Pieces(DType dtype, const Sizes& shape, const std::vector<Piece>& pieces,
               const std::string& where)
    : dtype_(dtype) {
  check_tiling(shape, pieces, where);
  const bool empty = element_count(shape) == 0;
  Sizes steps(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1 && !empty;) steps[i - 1] = steps[i] * shape[i];
  for (const Piece& piece : pieces) {
    Runs& runs = runs_.emplace_back();
    if (element_count(piece.sizes) == 0) {
      runs.axes = {{0, 1, 1}};
      continue;
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      runs.first += piece.offsets[i] * steps[i];
      runs.span += (piece.sizes[i] - 1) * steps[i];
      if (piece.sizes[i] == 1) continue;
      const Axis axis{piece.sizes[i], steps[i], piece.strides[i]};
      Axis* outer = runs.axes.empty() ? nullptr : &runs.axes.back();
      if (outer != nullptr && outer->in_tensor == axis.in_tensor * axis.size &&
          outer->in_part == axis.in_part * axis.size) {
        *outer = {outer->size * axis.size, axis.in_tensor, axis.in_part};
      } else {
        runs.axes.push_back(axis);
      }
    }
    if (runs.axes.empty()) runs.axes = {{1, 1, 1}};
  }
}

// Numbers [first, last) of a tensor to `to`, each of `width` bytes.
struct Pieces::Copy {
  std::int64_t first, last;
  std::byte* to;
  std::int64_t width;

  // The axes from `axes` on of a piece, which begin at `in_tensor` and at `from`.
  void run(std::span<const Axis> axes, std::int64_t in_tensor, const std::byte* from) const {
    const Axis& axis = axes.front();
    const auto inner = axes.subspan(1);
    std::int64_t span = 0;
    for (const Axis& one : inner) span += (one.size - 1) * one.in_tensor;
    // The numbers of this axis whose inner ones reach into the interval.
    const std::int64_t before = first - span - in_tensor;
    const std::int64_t begin = before <= 0 ? 0 : (before + axis.in_tensor - 1) / axis.in_tensor;
    const std::int64_t beyond = last - in_tensor;
    const std::int64_t end =
        beyond <= 0 ? 0 : std::min(axis.size, (beyond - 1) / axis.in_tensor + 1);
    if (begin >= end) return;
    if (inner.empty() && axis.in_tensor == 1 && axis.in_part == 1) {
      std::memcpy(to + (in_tensor + begin - first) * width, from + begin * width,
                  static_cast<std::size_t>((end - begin) * width));
      return;
    }
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t at = in_tensor + k * axis.in_tensor;
      const std::byte* number = from + k * axis.in_part * width;
      if (inner.empty()) {
        std::memcpy(to + (at - first) * width, number, static_cast<std::size_t>(width));
      } else {
        run(inner, at, number);
      }
    }
  }
};

void Pieces::gather(std::span<const Numbers> parts, std::int64_t first,
                    std::span<std::byte> bytes) const {
  const std::int64_t width = block_bytes(dtype_);
  const std::int64_t count = static_cast<std::int64_t>(bytes.size()) / width;
  const Copy copy{first, first + count, bytes.data(), width};
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Runs& runs = runs_[i];
    if (runs.first + runs.span < first || runs.first >= first + count) continue;
    copy.run(runs.axes, runs.first, parts[i].bytes().data());
  }
}

StoredTensor stored_tensor(std::string name, std::vector<std::int64_t> shape,
                           const std::vector<PieceInFile>& pieces, const std::string& where) {
  StoredTensor result;
  result.name = std::move(name);
  result.dtype = pieces.empty() ? DType::f32 : pieces.front().view.dtype;
  result.shape = std::move(shape);
  const std::int64_t width = block_bytes(result.dtype);
  std::vector<Piece> boxes;
  for (const auto& [offsets, view, shard] : pieces) {
    if (view.dtype != result.dtype) {
      throw CorruptFile(Corruption::bad_entry,
                        fmt::format("{}: some of its pieces are {} and some {}", where,
                                    dtype_name(result.dtype), dtype_name(view.dtype)));
    }
    boxes.push_back({offsets, view.shape, view.strides});
    StoredTensor part;
    part.dtype = view.dtype;
    part.shard = shard;
    part.offset = view.offset;
    std::int64_t numbers = element_count(view.shape) == 0 ? 0 : 1;
    for (std::size_t i = 0; numbers > 0 && i < view.shape.size(); ++i) {
      numbers += (view.shape[i] - 1) * view.strides[i];
    }
    part.shape = {numbers};
    part.bytes = numbers * width;
    result.bytes += part.bytes;
    result.parts.push_back(std::move(part));
  }
  auto all = std::make_shared<const Pieces>(result.dtype, result.shape, boxes, where);
  if (pieces.size() == 1 && pieces.front().view.is_contiguous()) {
    result.shard = pieces.front().shard;
    result.offset = pieces.front().view.offset;
    result.bytes = pieces.front().view.bytes();
    result.parts.clear();
    return result;
  }
  result.pieces = std::move(all);
  if (!result.parts.empty()) result.shard = result.parts.front().shard;
  return result;
}

}  // namespace regauge::io
