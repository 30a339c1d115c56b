#pragma once

#include <map>
#include <string>
#include <vector>

#include "action/executor.h"
#include "compare_layers.h"
#include "equivalence/read_part.h"
#include "equivalence/rounding.h"
#include "regauge/equivalence/compare.h"

namespace regauge {

// What compare() and compare_sketched() share: the walk over the layers of A and of a_from_b . B.
// Tensors that the element does not touch are compared as they stand, those whose numbers only
// change places and signs entry by entry, vectors here; a matrix whose numbers are mixed is judged
// by the derived class.
class Comparison {
 public:
  Comparison(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
             const ParameterSource& b);
  virtual ~Comparison() = default;
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Every canonical tensor, in the order of parameter_specs; those of other layers empty.
  std::vector<TensorResidual> run(Progress& progress, const Layers& only) const;

 protected:
  // The variance, relative to a number's square, that the rounding of the gain in front of a map
  // adds to that of the map: only their product is a function's.
  double gain_variance(const ParameterSource& source, const std::string& tensor) const;
  // How many times its rounding's variance a table has to which the element adds a constant row:
  // the constant was read off such tables, and its error is the same in every row.
  static double constant_share(const TensorPlan& tensor);
  // A table of all tokens may be too large to be held. Its vectors along this axis are moved each
  // by itself and can be read so in both files; -1 for others.
  template <class Scalar>
  int axis_of_pieces(const ParameterSpec& spec, const MovedMatrix<Scalar>& moved) const;
  static std::int64_t vectors_in_a_piece(const ParameterSpec& spec, int axis);
  // In how many slices (experts) a matrix is read and moved instead, if it is large.
  std::int64_t slices(const ParameterSpec& spec) const;
  // As `slice` for a ParameterSource.
  static std::int64_t or_all(std::int64_t slices, std::int64_t slice) {
    return slices == 1 ? ParameterSource::kAll : slice;
  }
  // Called by several threads at a time.
  virtual void judge(const TensorPlan& tensor, const MovedMatrix<float>& moved,
                     TensorResidual& result) const = 0;
  virtual void judge(const TensorPlan& tensor, const MovedMatrix<double>& moved,
                     TensorResidual& result) const = 0;

  const ParameterSource& a_;
  const ParameterSource& b_;
  ReadPart read_part_;

 private:
  double rms_of_a(const ParameterSpec& spec) const;  // of which a part is held at a time
  // What a change of the vector is measured by.
  double size_of_vector(const TensorPlan& tensor, const Matrix<double>& value) const;
  void hold_to_a_constant(const TensorPlan& tensor, const Matrix<double>& off,
                          TensorResidual& result) const;
  // The element, and the element with every number perturbed by as much as its rounding.
  struct Movers {
    Executor exact, perturbed;
  };
  std::map<std::string, TensorResidual> run(const LayerPlan& layer, Movers movers,
                                            Progress& progress) const;
  template <class Scalar>
  TensorResidual matrix(const TensorPlan& tensor, Movers& movers) const;
  template <class Scalar>
  void one_by_one(const TensorPlan& tensor, const MovedMatrix<Scalar>& moved,
                  TensorResidual& result) const;

  const Symmetry& symmetry_;
  std::map<std::string, std::string> gain_of_;  // of maps behind norms
  Plan plan_;
  Element perturbed_element_;
  Movers movers_;
};

}  // namespace regauge
