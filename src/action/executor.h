#pragma once

#include <functional>
#include <map>
#include <string>

#include "moved_matrix.h"
#include "regauge/action/plan.h"

namespace regauge {

// Runs a plan with Eigen and BLAS, one matrix at a time. Single rows are kept in double; matrices
// are float or double.
class Executor {
 public:
  Executor(const Symmetry& symmetry, const Element& element)
      : symmetry_(symmetry), element_(element) {}

  using Vectors = std::map<std::string, Matrix<double>>;

  // Begins a layer: reads its vectors (own and borrowed) as they were, each once; afterwards
  // they have their new basis.
  void begin(const LayerPlan& layer, const std::function<Matrix<double>(const TensorPlan&)>& read);
  // One matrix of the layer; constants that it gives up go to the layer's vectors. A Matrix, or
  // a MovedMatrix, which must not be used after the next begin().
  template <class Tensor>
  void transform(const TensorPlan& tensor, Tensor& value);
  // After the last matrix: the layer's own vectors, done.
  Vectors finish(const LayerPlan& layer);

 private:
  template <class Scalar>
  const BlockMap<Scalar>& map(const AxisPart& part);
  template <class Tensor>
  void apply_linear(const Step& step, Tensor& value);
  template <class Tensor>
  void apply_shift(const Step& step, Tensor& value);
  const Matrix<double>& gain(const std::string& norm) const;
  Eigen::RowVectorXd norm_bias(const std::string& norm) const;
  Eigen::RowVectorXd bias_over_gain(const std::string& norm) const;

  template <class Scalar>
  using Cache = std::map<std::string, BlockMap<Scalar>>;
  template <class Scalar>
  Cache<Scalar>& cache();

  const Symmetry& symmetry_;
  const Element& element_;
  Vectors before_;
  Vectors now_;
  Vectors unshifted_;  // those that shifts reach, in their new basis
  Cache<float> floats_;
  Cache<double> doubles_;
};

}  // namespace regauge
