#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "regauge/io/packing.h"

namespace regauge::io {

// number = base + scale * sum over k of L(i, k) R(k, j): a matrix and what a LoRA adapter adds to
// it. The tensor is a stack of `matrices` matrices of rows x cols, row-major. With magnitudes
// (DoRA) each output's vector is then scaled to its length. Parts: the base, the tensors that L and
// R lie in, the magnitudes.
class LowRank : public Packing {
 public:
  // Where a factor lies in its tensor: entry (i, k) of matrix m, for L, and (k, i) for R, is number
  // first + m * matrix + i * side + k * step.
  struct Factor {
    std::size_t part = 1;  // of the packing; 0: all ones
    std::int64_t first = 0, matrix = 0, side = 0, step = 0;
    bool operator==(const Factor&) const = default;
  };
  struct Form {
    std::int64_t matrices = 1, rows = 0, cols = 0, rank = 0;  // rank 0: nothing is added
    Factor left, right;
    double scale = 1, alpha = 1;  // alpha as the adapter's config has it
    std::int64_t lora_rank = 1;   // r of the config
    bool rank_stabilised = false;
    bool output_is_row = true;  // the rows of a matrix are its outputs: lora_B is the left factor
    std::int64_t experts = 1;   // whose ranks lie together in one pair of factors
    std::optional<std::size_t> magnitudes = std::nullopt;  // the part
    bool alone = false;                                    // without the base: only what is added
    bool operator==(const Form&) const = default;
  };
  // What both factors look like when decoded, and the factor of each output.
  struct Decoded;
  // What was decoded last of an adapter, so that reading a range costs no more than its share.
  class Recent {
   public:
    void keep(std::shared_ptr<const Decoded> decoded);
    // All numbers of a part, which several packings may share.
    std::shared_ptr<const std::vector<double>> all_of(const Numbers& part);

   private:
    std::mutex mutex_;
    std::deque<std::shared_ptr<const Decoded>> kept_;
    std::deque<std::pair<Bytes, std::shared_ptr<const std::vector<double>>>> parts_;
  };

  // `base` and `factors` are the types of the parts; `base` none if it is packed itself.
  LowRank(Form form, std::optional<DType> base, DType factors, std::shared_ptr<Recent> recent)
      : form_(form), base_(base), factors_(factors), recent_(std::move(recent)) {}

  const Form& form() const { return form_; }
  // The same parts, put together in another way.
  std::shared_ptr<const LowRank> with(Form form) const {
    return std::make_shared<LowRank>(form, base_, factors_, recent_);
  }

  std::string name() const override;
  double typical_rounding() const override;
  std::optional<DType> plain_type() const override { return base_; }
  bool is_calculated() const override { return true; }
  bool in_double() const override;
  void decode(std::span<const Numbers> parts, std::int64_t first,
              std::span<float> values) const override;
  void decode(std::span<const Numbers> parts, std::int64_t first,
              std::span<double> values) const override;
  // What PEFT's own arithmetic leaves open when it merges: the sum in float, and the cast of what
  // is added to the type of the adapter or of the base. The sum itself is rounded to the type of
  // the merged file, which counts there.
  void rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                       std::span<const double> values, std::span<double> below,
                       std::span<double> above) const override;
  // The base's own rounding besides: a moved base was rounded again when it was written.
  void rounding_variances(std::span<const Numbers> parts, std::int64_t first,
                          std::span<const double> values,
                          std::span<double> variances) const override;

 private:
  template <class Scalar>
  void add(std::span<const Numbers> parts, std::int64_t first, std::span<Scalar> values) const;
  std::shared_ptr<const Decoded> decoded(std::span<const Numbers> parts) const;
  std::vector<double> lengths(std::span<const Numbers> parts, const Decoded& factors) const;

  Form form_;
  std::optional<DType> base_;
  DType factors_;
  std::shared_ptr<Recent> recent_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const Decoded> decoded_;
};

}  // namespace regauge::io
