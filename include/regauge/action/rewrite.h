#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "regauge/action/plan.h"
#include "regauge/action/read_tensor.h"
#include "regauge/arch/layout.h"
#include "regauge/base/progress.h"

namespace regauge {

// 16-bit and quantised numbers are worked on in float, wider ones in double.
bool works_in_double(DType dtype);
// How matrices may be stored, by name: f32, f16 or bf16. Throws UsageError for others.
DType writable_dtype(std::string_view name);

// What stands in the place of a canonical tensor, made from all as they were.
using Patch = std::function<Matrix<double>(const ReadTensor&)>;
using Patches = std::map<std::string, Patch, std::less<>>;

// A checkpoint read as the parameters of an architecture that it may only hold implicitly: an
// untied head is the token table's transpose, a bias that the file does not have is zero, and of a
// larger vocabulary the first tokens count. Patches say what is to be read otherwise than the file
// has it.
class ParameterSource {
 public:
  ParameterSource(const Model& model, Architecture target, Patches patches = {});

  const Architecture& architecture() const { return target_; }
  const Model& model() const { return model_; }
  template <class Scalar>
  Matrix<Scalar> read(std::string_view parameter) const;
  // In float or double, as works_in_double says.
  AnyMatrix read_any(std::string_view parameter) const;
  // read_any for those who need not know where a model lies; the source must outlive it.
  ReadTensor reader() const;
  // The stored tensor that a parameter comes from; null for one that the file does not hold.
  const StoredTensor* stored(std::string_view parameter) const;
  // What is read is not what the file holds.
  bool is_patched(std::string_view parameter) const { return patches_.contains(parameter); }
  // Where it lies in there; nothing if it takes more than indexing to say.
  std::optional<Layout::Place> place(std::string_view parameter) const;

 private:
  template <class Scalar>
  Matrix<Scalar> read_file(std::string_view parameter) const;
  template <class Scalar>
  void crop(std::string_view parameter, Matrix<Scalar>& value) const;

  const Model& model_;
  Architecture target_;
  Patches patches_;
  std::set<std::string, std::less<>> held_;
};

// A matrix in a file that is only multiplied by others, a few rows or columns at a time: it is
// decoded by pieces, in the order in which it is stored, once for each product.
template <class Scalar>
class StoredMatrix {
 public:
  StoredMatrix(const ParameterSource& source, const ParameterSpec& spec);

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  Matrix<Scalar> left(const Matrix<Scalar>& x) const;   // x W
  Matrix<Scalar> right(const Matrix<Scalar>& y) const;  // W y

  // One of the two axes can be read a vector at a time: rows (0) or columns (1) that lie together.
  bool lies_along(int axis) const { return tensor_ != nullptr && place_.transposed == (axis == 1); }
  // Every step-th vector of that axis, as rows.
  Matrix<Scalar> every(std::int64_t step) const;

 private:
  template <class Visit>
  void for_each_piece(Visit visit) const;

  std::int64_t rows_, cols_;
  const Checkpoint* checkpoint_ = nullptr;  // null: in `numbers_`
  const StoredTensor* tensor_ = nullptr;
  Layout::Place place_;
  Matrix<Scalar> numbers_;
};

// From checkpoint to checkpoint through an element, one tensor at a time.
class Rewrite {
 public:
  struct Target {
    std::string family;
    Format format = Format::safetensors;
    std::optional<DType>
        dtype;  // of all matrices; the source's own otherwise (F32 for quantised ones)
  };
  // Into the source's own family and format.
  static Target same_as(const Model& model);

  // `element` is a member of symmetry_of(source.architecture()); both must outlive the Rewrite.
  Rewrite(const ParameterSource& source, const Symmetry& symmetry, const Element& element,
          Target target);

  const Plan& plan() const { return plan_; }
  // Stored tensors that change, that are copied byte for byte, and those of the source that the
  // target has no place for.
  const std::vector<std::string>& changed() const { return changed_; }
  const std::vector<std::string>& copied() const { return copied_; }
  const std::vector<std::string>& dropped() const { return dropped_; }
  // Copied tensors that are no parameters but as wide as the stream, which moves.
  const std::vector<std::string>& unadapted() const { return unadapted_; }
  std::int64_t bytes() const;  // to be written
  // An upper estimate of the memory that run() will hold at once, without the program itself.
  std::int64_t peak_memory() const;

  // Whole or not at all; `path` must not exist.
  void run(const std::filesystem::path& path, Progress& progress) const;
  // The same model in memory. Safetensors only.
  Model run_in_memory(Progress& progress) const;

 private:
  struct Sink;
  // Bytes of a stored tensor, from `offset` on.
  using Write = std::function<void(const std::string& name, std::span<const std::byte> bytes,
                                   std::int64_t offset)>;
  void write_all(const Write& write, Progress& progress) const;
  // What becomes of one stored tensor of the target.
  struct Decision {
    bool copied = false;       // byte for byte
    DType dtype = DType::f32;  // as stored
    bool in_double = false;    // worked on in double, otherwise in float
  };
  Decision decide(const Layout::Stored& stored) const;
  void plan_files();

  const ParameterSource& source_;
  const Symmetry& symmetry_;
  const Element& element_;
  Target target_;
  Plan plan_;
  Layout layout_;
  CheckpointWriter::Plan files_;
  std::vector<std::string> changed_;
  std::vector<std::string> copied_;
  std::vector<std::string> dropped_;
  std::vector<std::string> unadapted_;
  std::map<std::string, Decision> decisions_;
  bool converts_ = false;  // into another family or format
};

}  // namespace regauge
