#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "regauge/io/bytes.h"
#include "regauge/io/dtype.h"

namespace regauge {

class Packing;
namespace io {
class Pieces;
}

// A run of numbers as a checkpoint holds them: of one type in a row of bytes, or packed in several
// tensors. A view: valid as long as the checkpoint. All lengths must agree, else UsageError.
class Numbers {
 public:
  // Throws UsageError if the bytes are not whole blocks.
  Numbers(DType dtype, ByteRange bytes);
  // `count` numbers, which the parts hold together.
  Numbers(std::shared_ptr<const Packing> packing, std::vector<Numbers> parts, std::int64_t count);

  // `count` numbers of a plain type, which lie in the parts but not in a row.
  Numbers(std::shared_ptr<const io::Pieces> pieces, std::vector<Numbers> parts, std::int64_t count);

  std::int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }  // DType::packed if several tensors hold the numbers
  // Some of them, whole blocks: those from `first` on.
  Numbers range(std::int64_t first, std::int64_t count) const;

  // Instantiated for float and double.
  template <class Scalar>
  void decode(std::span<Scalar> values) const;

  // What the rounding to the stored type leaves open, number by number; `values` are the decoded
  // numbers. The number that was rounded to values[i] lies in
  // [values[i] - below[i], values[i] + above[i]]. Integers are exact.
  void rounding_bounds(std::span<const double> values, std::span<double> below,
                       std::span<double> above) const;
  // The variance of the rounding error of each number: that of an even distribution over what it
  // leaves open.
  template <class Scalar>
  void rounding_variances(std::span<Scalar> variances) const;
  // Where a number has the first or the last code of its block, the direction in which a quantiser
  // may have cut it off, by any amount: -1 below, 1 above; 0 elsewhere.
  void block_ends(std::span<const double> values, std::span<signed char> ends) const;

  // The bytes; throws UsageError if the numbers are packed or do not lie in a row. Those that were
  // read from a file are kept as long as this or a copy of it lives.
  Bytes bytes() const;
  // The bytes where they lie in a row in memory, else a copy in `buffer`. Throws UsageError for
  // packed ones.
  std::span<const std::byte> bytes_in(std::vector<std::byte>& buffer) const;
  // The same numbers with their bytes read, into `buffer` if they are not in memory; of packed
  // ones, as they are.
  Numbers in_memory(std::vector<std::byte>& buffer) const;
  // Whether both are of one type and the same bits, wherever they lie; of packed ones, which have
  // to be of one packing, whether all that holds them is. `after_each` is told how many bytes of
  // this were compared since it was called last, and may release them.
  bool is_bit_equal(const Numbers& other,
                    const std::function<void(std::size_t bytes)>& after_each) const;
  // Of every tensor that holds them, whole for packed ones and where they do not lie in a row.
  std::vector<ByteRange> all_bytes() const;
  // Those tensors, whole; none where the numbers lie in a row.
  std::span<const Numbers> parts() const {
    return parts_ ? std::span<const Numbers>(*parts_) : std::span<const Numbers>();
  }

 private:
  struct Held;
  // They have no row of bytes in memory: a packing, pieces or a file makes it.
  bool is_made() const { return parts_ || !bytes_.in_memory(); }
  template <class Use>
  void for_each_row(Use use) const;

  DType dtype_;
  ByteRange bytes_;
  std::shared_ptr<Held> held_;  // what was read from a file; null if that is mapped
  std::shared_ptr<const Packing> packing_;
  std::shared_ptr<const io::Pieces> pieces_;
  std::shared_ptr<const std::vector<Numbers>> parts_;  // whole, whatever range this is
  std::int64_t first_ = 0;                             // of packed numbers and of pieces
  std::int64_t count_ = 0;
};

}  // namespace regauge
