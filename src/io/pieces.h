#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "regauge/io/checkpoint.h"
#include "torch_file.h"

namespace regauge::io {

// A box of a tensor and where its numbers are: element (i, j, ...) of the box is element
// offsets + (i, j, ...) of the tensor and number i * strides[0] + j * strides[1] + ... of the part.
struct Piece {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// Where the numbers of a tensor of a plain type are that do not lie in a row: a view with strides,
// or what several processes have written of one tensor.
class Pieces {
 public:
  // One part for each piece. Throws CorruptFile unless the pieces lie in the tensor and each of its
  // elements in just one of them; `where` begins the message.
  Pieces(DType dtype, const std::vector<std::int64_t>& shape, const std::vector<Piece>& pieces,
         const std::string& where);

  DType dtype() const { return dtype_; }
  // The bytes of the numbers from `first` on, row-major. Each part reaches to its last number.
  void gather(std::span<const Numbers> parts, std::int64_t first, std::span<std::byte> bytes) const;

 private:
  // Number k of an axis is `in_tensor` elements of the tensor behind number k - 1, and `in_part` of
  // the part.
  struct Axis {
    std::int64_t size, in_tensor, in_part;
  };
  // A piece as nested runs, the innermost last, as few as there can be.
  struct Runs {
    std::int64_t first = 0;  // in the tensor
    std::int64_t span = 0;   // from there to its last element
    std::vector<Axis> axes;
  };
  struct Copy;

  DType dtype_;
  std::vector<Runs> runs_;  // of each part
};

// A piece of a tensor in a file.
struct PieceInFile {
  std::vector<std::int64_t> offsets;
  TorchTensor view;
  std::int64_t shard = 0;
};
// A tensor of a checkpoint, a plain one where its numbers lie in a row. Throws CorruptFile.
StoredTensor stored_tensor(std::string name, std::vector<std::int64_t> shape,
                           const std::vector<PieceInFile>& pieces, const std::string& where);

}  // namespace regauge::io
