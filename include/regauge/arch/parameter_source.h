#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "regauge/arch/layout.h"
#include "regauge/arch/read_tensor.h"

namespace regauge {

// 16-bit and quantised numbers are worked on in float, wider ones in double.
bool works_in_double(DType dtype);
bool works_in_double(const StoredTensor& tensor);

// What stands in the place of a canonical tensor, made from all as they were.
struct Patch : std::function<Matrix<double>(const ReadTensor&)> {
  using function::function;
  // What it does with the numbers of the file, which says how well those that it makes are known.
  enum class Does {
    move,         // as well as before
    scale,        // each by a factor, by which its rounding counts as well
    change_each,  // each in its own place: as well as before, but for the rounding of the change
    mix           // as well as the largest of them
  };
  Does does = Does::move;
  // Makes one of the slices that the file has by itself, in the place of the function that makes
  // all.
  std::function<Matrix<double>(std::int64_t slice)> make_slice = {};
};
using Patches = std::map<std::string, Patch, std::less<>>;

// A checkpoint read as the parameters of an architecture that it may only hold implicitly: an
// untied head is the token table's transpose, a bias that the file does not have is zero, and of a
// larger vocabulary the first tokens count. Patches say what is to be read otherwise than the file
// has it.
class ParameterSource {
 public:
  // The model must outlive it.
  ParameterSource(const Model& model, Architecture target, Patches patches = {});
  ParameterSource(const Model&& model, Architecture target, Patches patches = {}) = delete;

  const Architecture& architecture() const { return target_; }
  const Model& model() const { return model_; }
  const Patches& patches() const { return patches_; }
  // In how many slices (experts) a parameter can be read, each by itself; `slice` below is one of
  // them, or kAll.
  static constexpr std::int64_t kAll = Layout::kAll;
  std::int64_t slices(std::string_view parameter) const;
  template <class Scalar>
  Matrix<Scalar> read(std::string_view parameter, std::int64_t slice = kAll) const;
  // In float or double, as works_in_double says.
  AnyMatrix read_any(std::string_view parameter) const;
  // The variance of each number's rounding, as it is stored; 0 where the file holds nothing.
  template <class Scalar>
  Matrix<Scalar> variances(std::string_view parameter, std::int64_t slice = kAll) const;
  // The number that was rounded lies in [number - below, number + above].
  struct Bounds {
    Matrix<double> below, above;
  };
  Bounds bounds(std::string_view parameter, std::int64_t slice = kAll) const;
  // read_any for those who need not know where a model lies; the source must outlive it.
  ReadTensor reader() const;
  // The stored tensor that a parameter comes from, of several the first (all are of one type); null
  // for one that the file does not hold.
  const StoredTensor* stored(std::string_view parameter) const;
  // What is read is not what the file holds.
  bool is_patched(std::string_view parameter) const { return patches_.contains(parameter); }
  // Where it lies in the file; nothing if it takes more than indexing to say.
  std::vector<Layout::Piece> pieces(std::string_view parameter) const;

 private:
  template <class Scalar>
  Matrix<Scalar> read_file(std::string_view parameter, std::int64_t slice = kAll) const;
  // One number for each stored one, as make_all makes them of what is stored, in the place of the
  // parameter's.
  template <class Scalar, class MakeAll>
  Matrix<Scalar> gather(std::string_view parameter, std::int64_t slice,
                        const MakeAll& make_all) const;
  // What a patch made of a parameter, and where its numbers were rounded.
  struct Patched {
    const Patch& patch;
    Matrix<double> made;
    // The numbers whose rounding counts, as the file would store them: those that were made, or
    // what was added to each; nothing for a type that stores no single numbers.
    Matrix<double> rounded;
    std::optional<std::vector<std::byte>> bytes;
    bool file_counts;  // the file's rounding, too
  };
  std::optional<Patched> patched(std::string_view parameter, std::int64_t slice) const;
  Matrix<double> made_by(const Patch& patch, std::string_view parameter, std::int64_t slice) const;
  template <class Scalar>
  void crop(std::string_view parameter, Matrix<Scalar>& value) const;

  const Model& model_;
  Architecture target_;
  Patches patches_;
  std::set<std::string, std::less<>> held_;
};

// A matrix in a file that is only multiplied by others, a few rows or columns at a time: it is
// decoded by pieces, slice by slice in the order in which it is stored, once for each product.
template <class Scalar>
class StoredMatrix {
 public:
  // The numbers, or what their rounding leaves open: its variance, or bounds below and above.
  enum class Of { numbers, variances, below, above };
  // Variances may have a part that is this share of each number's square besides.
  StoredMatrix(const ParameterSource& source, const ParameterSpec& spec, Of of = Of::numbers,
               double share = 0);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  Matrix<Scalar> left(const Matrix<Scalar>& x) const;   // x W
  Matrix<Scalar> right(const Matrix<Scalar>& y) const;  // W y

  // One of the two axes can be read a vector at a time: rows (0) or columns (1) that lie together.
  bool lies_along(int axis) const;
  // `count` vectors of that axis, every step-th from `first` on, as rows.
  Matrix<Scalar> vectors(std::int64_t first, std::int64_t count, std::int64_t step = 1) const;

 private:
  // A block of it, as it lies in a tensor from that row on.
  struct Slice {
    const StoredTensor* tensor = nullptr;  // null: it takes more than indexing
    std::int64_t row = 0, col = 0;         // where the block begins
    std::int64_t rows = 0, cols = 0;
    std::int64_t first = 0;
    Layout::Place place = {};
  };
  Matrix<Scalar> left(const Slice& slice, const Matrix<Scalar>& x) const;
  Matrix<Scalar> right(const Slice& slice, const Matrix<Scalar>& y) const;
  // What the source makes of it, for those that do not just lie in a tensor.
  Matrix<Scalar> made(std::int64_t slice) const;
  template <class Visit>
  void for_each_piece(const Slice& slice, Visit visit) const;
  void decode_rows(const Slice& slice, std::int64_t first, std::int64_t count,
                   std::span<Scalar> numbers) const;

  std::int64_t rows_, cols_;
  Of of_;
  Scalar share_;
  const ParameterSource& source_;
  const Checkpoint* checkpoint_;
  std::string name_;
  std::vector<Slice> slices_;
  Matrix<Scalar> numbers_;
};

}  // namespace regauge
