#include "regauge/io/numbers.h"

#include <fmt/format.h>

#include <algorithm>

#include "regauge/base/error.h"
#include "regauge/io/packing.h"
#include "rounding.h"

namespace regauge {
namespace {

template <class... Lengths>
void require_lengths(std::int64_t count, Lengths... lengths) {
  if (((static_cast<std::int64_t>(lengths) != count) || ...)) {
    throw UsageError(fmt::format("[numbers] there are {}; other lengths were asked for", count));
  }
}

}  // namespace

Numbers::Numbers(DType dtype, std::span<const std::byte> bytes) : dtype_(dtype), bytes_(bytes) {
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

Numbers Numbers::range(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > count_ || count > count_ - first) {
    throw UsageError(fmt::format("[numbers] [{}, {} + {}) is not within the {} that there are",
                                 first, first, count, count_));
  }
  Numbers part = *this;
  part.count_ = count;
  if (packing_) {
    part.first_ += first;
    return part;
  }
  const std::int64_t elements = block_elements(dtype_), bytes = block_bytes(dtype_);
  if (first % elements != 0 || count % elements != 0) {
    throw UsageError(fmt::format("[numbers] [{}, {} + {}) are not whole blocks of {}", first, first,
                                 count, dtype_name(dtype_)));
  }
  part.bytes_ = bytes_.subspan(static_cast<std::size_t>(first / elements * bytes),
                               static_cast<std::size_t>(count / elements * bytes));
  return part;
}

template <class Scalar>
void Numbers::decode(std::span<Scalar> values) const {
  if (!packing_) return regauge::decode<Scalar>(dtype_, bytes_, values);
  require_lengths(count_, values.size());
  packing_->decode(*parts_, first_, values);
}
template void Numbers::decode(std::span<float>) const;
template void Numbers::decode(std::span<double>) const;

void Numbers::rounding_bounds(std::span<const double> values, std::span<double> below,
                              std::span<double> above) const {
  if (!packing_) return regauge::rounding_bounds(dtype_, bytes_, values, below, above);
  require_lengths(count_, values.size(), below.size(), above.size());
  packing_->rounding_bounds(*parts_, first_, values, below, above);
}

template <class Scalar>
void Numbers::rounding_variances(std::span<Scalar> variances) const {
  if (!packing_) return regauge::rounding_variances<Scalar>(dtype_, bytes_, variances);
  require_lengths(count_, variances.size());
  std::vector<double> values(variances.size()), found(variances.size());
  decode<double>(values);
  packing_->rounding_variances(*parts_, first_, values, found);
  std::ranges::transform(found, variances.begin(),
                         [](double variance) { return static_cast<Scalar>(variance); });
}
template void Numbers::rounding_variances(std::span<float>) const;
template void Numbers::rounding_variances(std::span<double>) const;

void Numbers::block_ends(std::span<const double> values, std::span<signed char> ends) const {
  if (!packing_) return regauge::block_ends(dtype_, bytes_, values, ends);
  require_lengths(count_, values.size(), ends.size());
  packing_->block_ends(*parts_, first_, values, ends);
}

std::span<const std::byte> Numbers::bytes() const {
  if (packing_) {
    throw UsageError(fmt::format("[numbers] {}: several tensors hold them", packing_->name()));
  }
  return bytes_;
}

std::vector<std::span<const std::byte>> Numbers::all_bytes() const {
  if (!packing_) return {bytes_};
  std::vector<std::span<const std::byte>> all;
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
