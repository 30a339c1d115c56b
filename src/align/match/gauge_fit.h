#pragma once

#include "cross.h"
#include "regauge/arch/parameters.h"

namespace regauge {

// Makes a polar factor leave the directions alone that no tensor uses.
void hold_unused(Matrix<double>& cross);

// The orthogonal members of a block group that maximise <cross, G>, and what they reach.
struct BlockFit {
  Matrix<double> block;
  double value = 0;
};
BlockFit fit_block(const BlockGroup& group, const Matrix<double>& cross);
// What they reach, to some 1e-8 of the whole: a third of the work.
double best_value(const BlockGroup& group, const Matrix<double>& cross);

// The gauge of the heads of one layer (queries with keys, or values with outputs): how B's heads
// meet A's before any rotation.
class HeadCross {
 public:
  template <class Scalar>
  HeadCross(const Symmetry& symmetry, const Space& space, const Parameters<Scalar>& a,
            const Parameters<Scalar>& b);

  const Space& space() const { return *space_; }
  // Of B's kv head i and A's j; of B's query head i and A's j.
  Matrix<double> shared(std::int64_t i, std::int64_t j) const { return block(shared_, i, j); }
  Matrix<double> query(std::int64_t i, std::int64_t j) const { return block(query_, i, j); }

 private:
  Matrix<double> block(const Matrix<double>& of, std::int64_t i, std::int64_t j) const {
    const auto width = space_->width();
    return of.block(i * width, j * width, width, width);
  }
  const Space* space_;
  Matrix<double> shared_, query_;
};

}  // namespace regauge
