#include "regauge/io/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "pieces.h"
#include "regauge/base/error.h"
#include "regauge/io/packing.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr std::int64_t kRow = 1 << 14;      // numbers that are gathered at a time
constexpr std::int64_t kReadRow = 1 << 25;  // and read from a file

template <class... Lengths>
void require_lengths(std::int64_t count, Lengths... lengths) {
  if (((static_cast<std::int64_t>(lengths) != count) || ...)) {
    throw UsageError(fmt::format("[numbers] there are {}; other lengths were asked for", count));
  }
}

}  // namespace

struct Numbers::Held {
  std::mutex mutex;
  Bytes bytes;
};

Numbers::Numbers(DType dtype, ByteRange bytes)
    : dtype_(dtype), bytes_(bytes), held_(bytes.in_memory() ? nullptr : std::make_shared<Held>()) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size % block_bytes(dtype) != 0) {
    throw UsageError(
        fmt::format("[numbers] {} bytes are not whole blocks of {}", size, dtype_name(dtype)));
  }
  count_ = size / block_bytes(dtype) * block_elements(dtype);
}

Numbers::Numbers(std::shared_ptr<const Packing> packing, std::vector<Numbers> parts,
                 std::int64_t count)
    : dtype_(DType::packed),
      packing_(std::move(packing)),
      parts_(std::make_shared<const std::vector<Numbers>>(std::move(parts))),
      count_(count) {}

Numbers::Numbers(std::shared_ptr<const io::Pieces> pieces, std::vector<Numbers> parts,
                 std::int64_t count)
    : dtype_(pieces->dtype()),
      pieces_(std::move(pieces)),
      parts_(std::make_shared<const std::vector<Numbers>>(std::move(parts))),
      count_(count) {}

// Rows of them, with the place of the first of each.
template <class Use>
void Numbers::for_each_row(Use use) const {
  std::vector<std::byte> buffer;
  const std::int64_t row = pieces_ ? kRow : kReadRow;
  for (std::int64_t at = 0; at < count_; at += row) {
    const std::int64_t count = std::min(row, count_ - at);
    use(Numbers(dtype_, range(at, count).bytes_in(buffer)), static_cast<std::size_t>(at),
        static_cast<std::size_t>(count));
  }
}

Numbers Numbers::range(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > count_ || count > count_ - first) {
    throw UsageError(fmt::format("[numbers] [{}, {} + {}) is not within the {} that there are",
                                 first, first, count, count_));
  }
  Numbers part = *this;
  part.count_ = count;
  if (packing_ || pieces_) {
    part.first_ += first;
    return part;
  }
  const std::int64_t elements = block_elements(dtype_), bytes = block_bytes(dtype_);
  if (first % elements != 0 || count % elements != 0) {
    throw UsageError(fmt::format("[numbers] [{}, {} + {}) are not whole blocks of {}", first, first,
                                 count, dtype_name(dtype_)));
  }
  part.bytes_ = bytes_.range(static_cast<std::size_t>(first / elements * bytes),
                             static_cast<std::size_t>(count / elements * bytes));
  if (held_ && count < count_) part.held_ = std::make_shared<Held>();
  return part;
}

template <class Scalar>
void Numbers::decode(std::span<Scalar> values) const {
  if (!is_made()) return regauge::decode<Scalar>(dtype_, bytes_.bytes(), values);
  require_lengths(count_, values.size());
  if (!packing_) {
    return for_each_row([&](const Numbers& row, std::size_t at, std::size_t count) {
      row.decode<Scalar>(values.subspan(at, count));
    });
  }
  packing_->decode(*parts_, first_, values);
}
template void Numbers::decode(std::span<float>) const;
template void Numbers::decode(std::span<double>) const;

void Numbers::rounding_bounds(std::span<const double> values, std::span<double> below,
                              std::span<double> above) const {
  if (!is_made()) {
    return regauge::rounding_bounds(dtype_, bytes_.bytes(), values, below, above);
  }
  require_lengths(count_, values.size(), below.size(), above.size());
  if (!packing_) {
    return for_each_row([&](const Numbers& row, std::size_t at, std::size_t count) {
      row.rounding_bounds(values.subspan(at, count), below.subspan(at, count),
                          above.subspan(at, count));
    });
  }
  packing_->rounding_bounds(*parts_, first_, values, below, above);
}

template <class Scalar>
void Numbers::rounding_variances(std::span<Scalar> variances) const {
  if (!is_made()) return regauge::rounding_variances<Scalar>(dtype_, bytes_.bytes(), variances);
  require_lengths(count_, variances.size());
  if (!packing_) {
    return for_each_row([&](const Numbers& row, std::size_t at, std::size_t count) {
      row.rounding_variances<Scalar>(variances.subspan(at, count));
    });
  }
  std::vector<double> values(variances.size()), found(variances.size());
  decode<double>(values);
  packing_->rounding_variances(*parts_, first_, values, found);
  std::ranges::transform(found, variances.begin(),
                         [](double variance) { return static_cast<Scalar>(variance); });
}
template void Numbers::rounding_variances(std::span<float>) const;
template void Numbers::rounding_variances(std::span<double>) const;

void Numbers::block_ends(std::span<const double> values, std::span<signed char> ends) const {
  if (!is_made()) return regauge::block_ends(dtype_, bytes_.bytes(), values, ends);
  require_lengths(count_, values.size(), ends.size());
  if (!packing_ && !pieces_) {
    return for_each_row([&](const Numbers& row, std::size_t at, std::size_t count) {
      row.block_ends(values.subspan(at, count), ends.subspan(at, count));
    });
  }
  if (pieces_) {  // of a plain type, which cuts nothing off
    std::fill(ends.begin(), ends.end(), static_cast<signed char>(0));
    return;
  }
  packing_->block_ends(*parts_, first_, values, ends);
}

Bytes Numbers::bytes() const {
  if (packing_) {
    throw UsageError(fmt::format("[numbers] {}: several tensors hold them", packing_->name()));
  }
  if (pieces_) throw UsageError("[numbers] they do not lie in a row");
  if (!held_) return bytes_.bytes();
  const std::scoped_lock lock(held_->mutex);
  if (held_->bytes.empty()) held_->bytes = bytes_.bytes();
  return held_->bytes;
}

std::span<const std::byte> Numbers::bytes_in(std::vector<std::byte>& buffer) const {
  if (packing_ || !is_made()) {
    const Bytes held = bytes();
    return {held.data(), held.size()};
  }
  const auto size = static_cast<std::size_t>(stored_bytes(dtype_, count_));
  if (buffer.size() < size) buffer.resize(size);
  const auto to = std::span(buffer).first(size);
  if (pieces_) {
    pieces_->gather(*parts_, first_, to);
  } else {
    bytes_.read(to);
  }
  return to;
}

Numbers Numbers::in_memory(std::vector<std::byte>& buffer) const {
  if (packing_ || !is_made()) return *this;
  return {dtype_, bytes_in(buffer)};
}

namespace {

// Equal bit by bit once decoded.
bool decode_alike(const Numbers& a, const Numbers& b, std::int64_t count) {
  constexpr std::int64_t kPiece = 1 << 20;
  std::vector<double> x, y;
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::int64_t now = std::min(kPiece, count - at);
    x.resize(static_cast<std::size_t>(now));
    y.resize(x.size());
    a.range(at, now).decode<double>(x);
    b.range(at, now).decode<double>(y);
    if (std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) != 0) return false;
  }
  return true;
}

}  // namespace

bool Numbers::is_bit_equal(const Numbers& other,
                           const std::function<void(std::size_t bytes)>& after_each) const {
  if (packing_ || other.packing_) {
    if (!packing_ || !other.packing_ || packing_->name() != other.packing_->name()) return false;
    bool same = count_ == other.count_ && parts_->size() == other.parts_->size();
    for (std::size_t i = 0; same && i < parts_->size(); ++i) {
      same = (*parts_)[i].is_bit_equal((*other.parts_)[i], after_each);
    }
    // The same parts may be read in two ways (zero points, the order of codes).
    return same && decode_alike(*this, other, count_);
  }
  if (dtype_ != other.dtype_ || count_ != other.count_) return false;
  constexpr std::int64_t kPieceBytes = 1 << 24;
  const std::int64_t piece = kPieceBytes / block_bytes(dtype_) * block_elements(dtype_);
  std::vector<std::byte> own, others;
  bool same = true;
  for (std::int64_t at = 0; same && at < count_; at += piece) {
    const std::int64_t count = std::min(piece, count_ - at);
    const auto x = range(at, count).bytes_in(own), y = other.range(at, count).bytes_in(others);
    same = std::memcmp(x.data(), y.data(), x.size()) == 0;
    after_each(x.size());
  }
  return same;
}

std::vector<ByteRange> Numbers::all_bytes() const {
  if (!parts_) return {bytes_};
  std::vector<ByteRange> all;
  for (const Numbers& part : *parts_) {
    const auto of_part = part.all_bytes();
    all.insert(all.end(), of_part.begin(), of_part.end());
  }
  return all;
}

void Packing::decode(std::span<const Numbers> parts, std::int64_t first,
                     std::span<double> values) const {
  std::vector<float> floats(values.size());
  decode(parts, first, std::span(floats));
  std::copy(floats.begin(), floats.end(), values.begin());
}

void Packing::rounding_variances(std::span<const Numbers> parts, std::int64_t first,
                                 std::span<const double> values,
                                 std::span<double> variances) const {
  std::vector<double> below(values.size()), above(values.size());
  rounding_bounds(parts, first, values, below, above);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double width = below[i] + above[i];
    variances[i] = width * width / 12;
  }
}

void Packing::block_ends(std::span<const Numbers> /*parts*/, std::int64_t /*first*/,
                         std::span<const double> /*values*/, std::span<signed char> ends) const {
  std::fill(ends.begin(), ends.end(), static_cast<signed char>(0));
}

}  // namespace regauge
