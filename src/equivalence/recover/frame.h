#pragma once

#include "action/moved_matrix.h"
#include "regauge/symmetry/symmetry.h"

namespace regauge {

// Random directions of the stream through which a layer's matrices are looked at: x W, or W x^T
// for those that write; one that touches no stream (a table of distances) is taken whole. Least
// squares over these instead of all coordinates leaves residuals larger by d / (2 s - d) of their
// square at most, s directions for d unknowns a column, from readers and writers together; and no
// matrix of the model is ever moved as a whole.
class Frame {
 public:
  explicit Frame(const Symmetry& symmetry);

  // The stream is too narrow for it to save anything.
  bool is_whole() const { return attention_.size() == 0; }
  std::int64_t attention_width() const { return attention_.rows(); }
  std::int64_t ffn_width() const { return ffn_.rows(); }

  template <class Scalar>
  Matrix<double> look_at(const std::string& tensor, const MovedMatrix<Scalar>& value) const;

 private:
  const Symmetry& symmetry_;
  Matrix<double> attention_, ffn_;  // [s, D]
};

}  // namespace regauge
