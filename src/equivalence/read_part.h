#pragma once

#include <map>
#include <string>

#include "regauge/arch/parameter_source.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// What is read of a map W behind a norm: gain W, here with a gain of size one, so that an element
// that rotates the stream is not asked for what small gains hide. Behind a layer norm with a bias,
// where no bias of W's own takes the constant, the normed stream meets gain W less its mean over
// the stream, the bias meets bias W. The mean alone counts by sum(bias/gain), which may almost
// vanish; an element that has to divide by it makes rounding large where nobody reads. W is
// therefore compared with the constant bias W in its mean's place, in units of sum|bias/gain|.
// Where no gain is zero, what is read is equal if and only if W is.
class ReadPart {
 public:
  // Behind the norms of A.
  ReadPart(const Symmetry& symmetry, const ParameterSource& a);
  bool concerns(const std::string& tensor) const { return behind_.contains(tensor); }
  // A map or a difference of two, or products of it with columns; others stay as they are.
  template <class Scalar>
  Matrix<Scalar> of(const std::string& tensor, Matrix<Scalar> value) const;
  // y such that y W = x of(W), for the rows of x.
  Matrix<double> transposed(const std::string& tensor, Matrix<double> x) const;
  // Weighed by the gain alone, as its entries' rounding is.
  template <class Scalar>
  Matrix<Scalar> weighed(const std::string& tensor, Matrix<Scalar> value) const;

 private:
  struct Behind {
    Eigen::RowVectorXd gain;
    Eigen::RowVectorXd bias_over_gain;  // empty where the mean counts like all else
  };
  std::map<std::string, Behind> behind_;
};

// How much larger, in the mean square, maps are stored in either model than what is read of them
// but for their mean: their rounding is larger by as much. Tensors that are not named are read as
// they are.
using Enlarged = std::map<std::string, double>;
Enlarged enlarged(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b);

}  // namespace regauge
