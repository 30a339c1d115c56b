#include "low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "regauge/base/error.h"

namespace regauge::io {
namespace {

constexpr std::size_t kKept = 4;                // tensors
constexpr std::int64_t kBaseNumbers = 1 << 16;  // numbers of the base decoded at a time
constexpr double kHalfUnitOfFloat = 0x1p-24;    // half a unit, of a number's size

// Half a unit of a type, of a number's size.
double half_unit(DType type) {
  switch (type) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return kHalfUnitOfFloat;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-8;
  }
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5;
}

}  // namespace

// Entry (i, k) of L of matrix m is left[(m * rows + i) * rank + k], entry (k, j) of R of it is
// right[(m * rank + k) * cols + j].
struct LowRank::Decoded {
  std::vector<double> left, right;
  std::vector<double> factors;  // of the outputs; empty without magnitudes
};

void LowRank::Recent::keep(std::shared_ptr<const Decoded> decoded) {
  const std::scoped_lock lock(mutex_);
  kept_.push_back(std::move(decoded));
  if (kept_.size() > kKept) kept_.pop_front();
}

std::shared_ptr<const std::vector<double>> LowRank::Recent::all_of(const Numbers& part) {
  const Bytes where = part.bytes();
  const std::scoped_lock lock(mutex_);
  for (const auto& [place, numbers] : parts_) {
    if (place.data() == where.data()) return numbers;
  }
  auto numbers = std::make_shared<std::vector<double>>(static_cast<std::size_t>(part.count()));
  part.decode<double>(*numbers);
  parts_.emplace_back(where, numbers);
  if (parts_.size() > kKept) parts_.pop_front();
  return numbers;
}

std::string LowRank::name() const {
  return fmt::format("{} {} {} adapter{}", base_ ? dtype_name(*base_) : "packed",
                     form_.magnitudes ? "and a DoRA" : "and a LoRA", dtype_name(factors_),
                     form_.experts > 1 ? " of all experts" : "");
}

double LowRank::typical_rounding() const {
  constexpr double kTypicalShare = 0.1;  // of what is added
  return kTypicalShare * half_unit(factors_);
}

bool LowRank::in_double() const { return base_ == DType::f64 || base_ == DType::f32 || !base_; }

std::shared_ptr<const LowRank::Decoded> LowRank::decoded(std::span<const Numbers> parts) const {
  const std::scoped_lock lock(mutex_);
  if (auto held = decoded_.lock()) return held;
  auto result = std::make_shared<Decoded>();
  const auto gather = [&](const Factor& factor, std::int64_t sides, std::int64_t outer,
                          std::int64_t inner, std::vector<double>& into) {
    const auto numbers = factor.part == 0 ? nullptr : recent_->all_of(parts[factor.part]);
    into.resize(static_cast<std::size_t>(form_.matrices * sides * form_.rank));
    for (std::int64_t m = 0; m < form_.matrices; ++m) {
      for (std::int64_t i = 0; i < sides; ++i) {
        for (std::int64_t k = 0; k < form_.rank; ++k) {
          const std::int64_t from =
              factor.first + m * factor.matrix + i * factor.side + k * factor.step;
          const std::int64_t to = m * sides * form_.rank + i * outer + k * inner;
          into[static_cast<std::size_t>(to)] =
              numbers == nullptr ? 1 : (*numbers)[static_cast<std::size_t>(from)];
        }
      }
    }
  };
  gather(form_.left, form_.rows, form_.rank, 1, result->left);
  gather(form_.right, form_.cols, 1, form_.cols, result->right);
  if (form_.magnitudes) {
    result->factors = *recent_->all_of(parts[*form_.magnitudes]);
    const std::vector<double> length = lengths(parts, *result);
    for (std::size_t i = 0; i < length.size(); ++i) result->factors[i] /= length[i];
  }
  decoded_ = result;
  recent_->keep(result);
  return result;
}

namespace {

// Calls use(begin, count, matrix, row, col) for each run of numbers within one row.
template <class Use>
void for_each_row(const LowRank::Form& form, std::int64_t first, std::int64_t count, Use use) {
  for (std::int64_t i = 0; i < count;) {
    const std::int64_t at = first + i, col = at % form.cols, row = at / form.cols;
    const std::int64_t length = std::min(form.cols - col, count - i);
    use(static_cast<std::size_t>(i), static_cast<std::size_t>(length), row / form.rows, row, col);
    i += length;
  }
}

// into[j] += sum over k of L(row, k) R(k, col + j), or of their sizes.
void add_products(const LowRank::Form& form, const std::vector<double>& left,
                  const std::vector<double>& right, bool sizes, std::int64_t matrix,
                  std::int64_t row, std::int64_t col, std::span<double> into) {
  for (std::int64_t k = 0; k < form.rank; ++k) {
    const double l = left[static_cast<std::size_t>(row * form.rank + k)];
    const double* r = right.data() + (matrix * form.rank + k) * form.cols + col;
    if (sizes) {
      for (std::size_t j = 0; j < into.size(); ++j) into[j] += std::abs(l * r[j]);
    } else {
      for (std::size_t j = 0; j < into.size(); ++j) into[j] += l * r[j];
    }
  }
}

}  // namespace

std::vector<double> LowRank::lengths(std::span<const Numbers> parts, const Decoded& factors) const {
  const std::int64_t all = form_.matrices * form_.rows * form_.cols;
  std::vector<double> squares(
      static_cast<std::size_t>(form_.output_is_row ? form_.matrices * form_.rows : form_.cols), 0);
  std::vector<double> values, added;
  for (std::int64_t at = 0; at < all; at += kBaseNumbers) {
    values.resize(static_cast<std::size_t>(std::min(kBaseNumbers, all - at)));
    parts[0].range(at, static_cast<std::int64_t>(values.size())).decode<double>(values);
    for_each_row(form_, at, static_cast<std::int64_t>(values.size()),
                 [&](std::size_t begin, std::size_t count, std::int64_t matrix, std::int64_t row,
                     std::int64_t col) {
                   added.assign(count, 0);
                   add_products(form_, factors.left, factors.right, false, matrix, row, col, added);
                   for (std::size_t j = 0; j < count; ++j) {
                     const double value = values[begin + j] + form_.scale * added[j];
                     squares[form_.output_is_row ? static_cast<std::size_t>(row)
                                                 : static_cast<std::size_t>(col) + j] +=
                         value * value;
                   }
                 });
  }
  for (double& square : squares) square = std::sqrt(square);
  return squares;
}

template <class Scalar>
void LowRank::add(std::span<const Numbers> parts, std::int64_t first,
                  std::span<Scalar> values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  if (form_.alone) {
    std::fill(values.begin(), values.end(), Scalar{0});
  } else {
    parts[0].range(first, count).decode<Scalar>(values);
  }
  if (form_.rank == 0) return;
  const auto held = decoded(parts);
  std::vector<double> added;
  for_each_row(form_, first, count,
               [&](std::size_t begin, std::size_t length, std::int64_t matrix, std::int64_t row,
                   std::int64_t col) {
                 added.assign(length, 0);
                 add_products(form_, held->left, held->right, false, matrix, row, col, added);
                 for (std::size_t j = 0; j < length; ++j) {
                   double value = static_cast<double>(values[begin + j]) + form_.scale * added[j];
                   if (form_.magnitudes) {
                     value *=
                         held->factors[form_.output_is_row ? static_cast<std::size_t>(row)
                                                           : static_cast<std::size_t>(col) + j];
                   }
                   values[begin + j] = static_cast<Scalar>(value);
                 }
               });
}

void LowRank::decode(std::span<const Numbers> parts, std::int64_t first,
                     std::span<float> values) const {
  add(parts, first, values);
}

void LowRank::decode(std::span<const Numbers> parts, std::int64_t first,
                     std::span<double> values) const {
  add(parts, first, values);
}

void LowRank::rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                              std::span<const double> values, std::span<double> below,
                              std::span<double> above) const {
  const auto count = static_cast<std::int64_t>(values.size());
  std::fill(below.begin(), below.end(), 0);
  if (form_.rank > 0) {
    const auto held = decoded(parts);
    // What is packed is decoded to 16 bits before a merge.
    const DType base = base_.value_or(DType::bf16);
    const double narrow = std::max(half_unit(base), half_unit(factors_));
    const bool sixteen = half_unit(factors_) > kHalfUnitOfFloat;
    // The product is rounded, and once more when it is scaled.
    const double casts = sixteen && !is_power_of_two(form_.scale) ? 2 : 1;
    const double terms =
        static_cast<double>(form_.rank + 2) * std::max(kHalfUnitOfFloat, half_unit(DType::f64));
    // Halves of the smallest numbers of 16 bits.
    const double least = base == DType::f16 || factors_ == DType::f16 ? casts * 0x1p-25 : 0;
    std::vector<double> originals(values.size()), sizes, sums;
    parts[0].range(first, count).decode<double>(originals);
    const double of_base = base_ ? 0 : 0x1p-8;
    // Another adapter was merged before, which was rounded to the base's type, too.
    std::vector<double> earlier(values.size(), 0);
    if (base_ && parts[0].dtype() == DType::packed) {
      std::vector<double> other(values.size());
      parts[0].range(first, count).rounding_bounds(originals, earlier, other);
      for (std::size_t i = 0; i < earlier.size(); ++i) {
        earlier[i] += half_unit(base) * std::abs(originals[i]);
      }
    }
    for_each_row(
        form_, first, count,
        [&](std::size_t begin, std::size_t length, std::int64_t matrix, std::int64_t row,
            std::int64_t col) {
          sizes.assign(length, 0);
          sums.assign(length, 0);
          add_products(form_, held->left, held->right, true, matrix, row, col, sizes);
          add_products(form_, held->left, held->right, false, matrix, row, col, sums);
          for (std::size_t j = 0; j < length; ++j) {
            const double added = std::abs(form_.scale * sums[j]);
            double open = terms * std::abs(form_.scale) * sizes[j] +
                          (narrow > kHalfUnitOfFloat ? casts * narrow * added : 0) + least +
                          of_base * std::abs(originals[begin + j]) + earlier[begin + j];
            if (form_.magnitudes) {
              // Sum, length, quotient and product, in the wider of the two types.
              const double wide = std::min(half_unit(base), half_unit(factors_));
              open *=
                  std::abs(held->factors[form_.output_is_row ? static_cast<std::size_t>(row)
                                                             : static_cast<std::size_t>(col) + j]);
              open += 4 * std::max(wide, kHalfUnitOfFloat) * std::abs(values[begin + j]);
            }
            below[begin + j] = open;
          }
        });
  }
  std::copy(below.begin(), below.end(), above.begin());
}

void LowRank::rounding_variances(std::span<const Numbers> parts, std::int64_t first,
                                 std::span<const double> values,
                                 std::span<double> variances) const {
  Packing::rounding_variances(parts, first, values, variances);
  if (form_.alone) return;
  std::vector<double> of_base(values.size());
  parts[0]
      .range(first, static_cast<std::int64_t>(values.size()))
      .rounding_variances<double>(of_base);
  for (std::size_t i = 0; i < values.size(); ++i) variances[i] += of_base[i];
}

}  // namespace regauge::io
