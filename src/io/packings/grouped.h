#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "codes.h"
#include "grid.h"
#include "io/steps.h"
#include "regauge/io/packing.h"

namespace regauge::io {

// number = (value of its code - zero) * scale, or value of its code * scale + zero, where numbers
// of a block share scale and zero. Parts: codes, then what `scales` and `zeros` read.
class Grouped : public Packing {
 public:
  // A stack of `matrices` of `rows` x `cols`; of the last row there may be fewer.
  struct Shape {
    std::int64_t matrices, rows, cols;
  };
  // The scale of row r and column c of matrix m is number m * matrix_stride + r / rows * row_stride
  // + c / cols * col_stride of all.
  struct Blocks {
    std::int64_t rows, cols;
    std::int64_t row_stride, col_stride, matrix_stride = 0;
  };
  // Some of the numbers of a part: from `first` on, each `stride` behind the one before.
  using Read = std::function<void(std::span<const Numbers> parts, std::int64_t first,
                                  std::int64_t stride, std::span<float> values)>;
  // Zeros that are codes of a part, a row of a matrix and a group of columns each, and what a code
  // stands for.
  struct PackedZeros {
    std::size_t part;
    Codes codes;
    std::vector<float> values;
  };
  // One number of a part by which all scales are multiplied or divided.
  struct Second {
    std::size_t part;
    bool divides;
  };
  // The least share of the range of codes that the format's own quantiser lets a block of this
  // scale use, before a second one is applied; 0 where it guarantees nothing.
  using Least = std::function<double(float scale)>;
  struct Plan {
    std::string name;
    double typical_rounding;
    Shape shape;
    Codes codes;
    Grid grid;
    Blocks blocks;
    Read scales;
    Read zeros = nullptr;                                    // that lie as the scales do
    std::optional<PackedZeros> packed_zeros = std::nullopt;  // or otherwise
    bool added = false;                                      // the zeros, to the product
    std::optional<Second> second = std::nullopt;
    Read scale_errors = nullptr;  // how far a scale may be from the one that codes were found by
    float factor = 1;             // behind the scale
    std::vector<std::int32_t> groups = {};  // of each column, if they are not in order
    DType divided_in = DType::f32;          // the type in which a quantiser divides by the scale
    bool cuts_off = false;  // a quantiser looks for the best range, and cuts off the rest
    Least least = nullptr;  // null: nothing is guaranteed
  };
  explicit Grouped(Plan plan) : plan_(std::move(plan)) {}

  // The numbers of a part as they are.
  static Read plain(std::size_t part);
  // Powers of two, of which U8 holds the exponents.
  static Read powers_of_two(std::size_t part);

  // Of quantisers that choose the scale by the ends of a block, or by its largest size, for codes
  // at even distances: what rounding the scale, the zero and the quotient may take. No block needs
  // a scale of at most `floor`, which the quantiser puts in the place of smaller ones.
  static Least of_integers(int bits, DType divided_in, double floor = 0);
  // The same share of all blocks; or half of it where the scale is a power of two.
  static Least of_all(double share);
  static Least of_powers_or(double share, double floor = 0);

  const Plan& plan() const { return plan_; }
  std::string name() const override { return plan_.name; }
  double typical_rounding() const override { return plan_.typical_rounding; }
  using Packing::decode;
  void decode(std::span<const Numbers> parts, std::int64_t first,
              std::span<float> values) const override;
  void rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                       std::span<const double> values, std::span<double> below,
                       std::span<double> above) const override;
  // How many blocks have a step of their own, and how many need less.
  const StepCount& count_steps(std::span<const Numbers> parts) const { return needed(parts).count; }
  void block_ends(std::span<const Numbers> parts, std::int64_t first,
                  std::span<const double> values, std::span<signed char> ends) const override;

 private:
  // What the codes of a block need of its step, for blocks of which that is less than they have.
  struct Needed {
    std::unordered_map<std::int64_t, double> shares;
    StepCount count;
  };
  struct Reached;
  std::int64_t block_of(std::int64_t number) const;
  double share_of(const Reached& reached) const;
  Needed find_needed(std::span<const Numbers> parts) const;
  // Found when it is asked for first: a block may hold numbers of any place.
  const Needed& needed(std::span<const Numbers> parts) const;
  template <class Use>
  void for_each_run(std::span<const Numbers> parts, std::int64_t first, std::size_t count,
                    Use use) const;
  class Scales;
  Plan plan_;
  mutable std::once_flag is_needed_found_;
  mutable Needed needed_;
};

}  // namespace regauge::io
