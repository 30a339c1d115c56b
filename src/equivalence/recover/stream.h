#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "equivalence/read_part.h"
#include "regauge/arch/parameters.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// The directions of A's stream in which B, as it is moved so far, agrees with A: all of them, or
// the orthonormal rows' span.
class Known {
 public:
  explicit Known(std::int64_t width) : width_(width) {}
  explicit Known(Matrix<double> rows)
      : width_(rows.cols()), all_(rows.rows() == rows.cols()), rows_(std::move(rows)) {}

  bool is_all() const { return all_; }
  std::int64_t dimension() const { return all_ ? width_ : rows_.rows(); }
  // [any, dimension] to [any, D].
  Matrix<double> embed(const Matrix<double>& rows) const { return all_ ? rows : rows * rows_; }

 private:
  std::int64_t width_;
  bool all_ = true;
  Matrix<double> rows_;
};

// The map of the stream that carries b's vectors to a's.
struct StreamFit {
  BlockMap<double> map;
  bool reversed = false;  // all coordinates change their sign, where only that is free
  Known known;            // where the vectors, rounded as they are, determine it
  double determined = 1;  // how well, from 1 down to 0
};

// Vectors of the stream, compared coordinate by coordinate: the sum of b^T a over all that were
// added, each set in units of its own size, and the squared lengths of the coordinates. Tensors
// count less where their rounding is enlarged.
struct StreamCorrelation {
  explicit StreamCorrelation(const Symmetry& symmetry, Enlarged enlarged = {},
                             std::string stream = "residual");
  // All tensors that live in the stream, of each at most `most` vectors, evenly spaced.
  template <class Scalar>
  void add(const Symmetry& symmetry, const Parameters<Scalar>& a, const Parameters<Scalar>& b,
           std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // Vectors as rows, [any, D]. Both are there for float and double.
  template <class Scalar>
  void add(const Matrix<Scalar>& rows_a, const Matrix<Scalar>& rows_b, double weight = 1);
  // As if b had been moved before.
  void move(const StreamFit& fit);

  std::string stream;    // its space
  Matrix<double> cross;  // [D, D], or empty where the stream has no group
  Eigen::VectorXd squares_a, squares_b;

 private:
  Enlarged enlarged_;
};

// For symmetries whose stream has a group.
StreamFit fit_stream(const Symmetry& symmetry, const StreamCorrelation& sum, double rounding);

// The lengths that norms forget, as far as the tensors of one layer show them: every factor that is
// not found yet and acts on one of them. True if there was any.
bool recover_scales(const Symmetry& symmetry, const Parameters<double>& a,
                    const Parameters<double>& b, Element& found);

}  // namespace regauge
