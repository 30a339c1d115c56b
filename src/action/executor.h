#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "moved_matrix.h"
#include "regauge/action/plan.h"

namespace regauge {

// Runs a plan with Eigen and BLAS, one matrix at a time. Single rows are kept in double; matrices
// are float or double. Layers may be worked on at a time by copies, each on a thread of its own:
// they share the maps that belong to no layer.
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
  struct Maps {  // as they are needed; references stay valid
    Cache<float> floats;
    Cache<double> doubles;
  };
  struct Shared {
    std::mutex mutex;
    Maps maps;
  };
  template <class Scalar>
  const BlockMap<Scalar>& map_in(Cache<Scalar>& cache, const std::string& key,
                                 const AxisPart& part) const;

  const Symmetry& symmetry_;
  const Element& element_;
  Vectors before_;
  Vectors now_;
  Vectors unshifted_;  // those that shifts reach, in their new basis
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // those of no layer
  Maps own_;                                                     // those of this one
};

}  // namespace regauge
