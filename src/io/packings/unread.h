#pragma once

#include <string>
#include <vector>

#include "joiner.h"
#include "regauge/io/packing.h"

namespace regauge::io {

// Numbers that a file holds in a way that is not read. Where they lie and what shape they have is
// known all the same, so that a model that has some can be inspected; whoever asks for the numbers
// gets UsageError with the reason.
class UnreadPacking : public Packing {
 public:
  // `type` is what the file calls it; `reason` is a whole sentence that says what to do.
  UnreadPacking(std::string type, std::string reason)
      : type_(std::move(type)), reason_(std::move(reason)) {}

  // Null for a tensor that is read.
  static const UnreadPacking* of(const StoredTensor& tensor);
  // Makes it the packing of a tensor of a type that is not read.
  static void put_in_place(StoredTensor& tensor, std::string type, std::string reason);

  const std::string& reason() const { return reason_; }
  std::string name() const override { return type_; }
  double typical_rounding() const override { return 0; }
  using Packing::decode;
  void decode(std::span<const Numbers> parts, std::int64_t first,
              std::span<float> values) const override;
  void rounding_bounds(std::span<const Numbers> parts, std::int64_t first,
                       std::span<const double> values, std::span<double> below,
                       std::span<double> above) const override;

 private:
  std::string type_, reason_;
};

// Joins what a quantiser that is not known holds in the place of each matrix. The shape of the
// matrix is then not known: it is left empty, and the family's counts.
void join_unread(const std::string& method, const std::string& reason, Joiner& joiner);

}  // namespace regauge::io
