#pragma once

#include "action/moved_model.h"
#include "regauge/arch/parameters.h"
#include "regauge/base/progress.h"

namespace regauge {

// A model's tensors weighted by what the model does with them, so that a plain inner product of two
// such models counts what matters. Every weight rotates with the model: that of a moved model is
// the weighted one, moved. From what the model computes for single tokens (TokenStream), x its
// input:
//   readers  W -> S^1/2 W, S the covariance of x
//   token table and head: by how often the model itself expects each token
//   every matrix to the same size, table and head to four times the others' square
// Models that read no tokens have their matrices brought to one size only.
template <class Scalar>
class Metric {
 public:
  // Both models in comparable form; frequencies of tokens are their geometric mean.
  Metric(const Symmetry& symmetry, const MovedModel& a, const MovedModel& b, Progress& progress);

  // The weighted tensors of one layer.
  Parameters<Scalar> of_a(std::int64_t layer) const { return weighted(a_, layer); }
  Parameters<Scalar> of_b(std::int64_t layer) const { return weighted(b_, layer); }
  // Sum over all stages of b's stream, transposed, times a's, rows of length one: [D, D]. Empty for
  // models that read no tokens.
  const Matrix<Scalar>& streams() const { return streams_; }

 private:
  using Vector = Eigen::Vector<Scalar, Eigen::Dynamic>;
  struct Side {
    const MovedModel* model;
    std::map<std::string, Matrix<Scalar>> roots;  // S^1/2 by norm or wire, "layers.0.attn"
  };
  Parameters<Scalar> weighted(const Side& side, std::int64_t layer) const;
  void follow_tokens(Progress& progress);

  const Symmetry& symmetry_;
  Side a_, b_;
  Vector frequencies_;  // of every token, or empty
  Matrix<Scalar> streams_;
};

}  // namespace regauge
