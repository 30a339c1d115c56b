#include "regauge/lab/forward.h"

#include "towers.h"

namespace regauge::lab {

template <class Scalar>
Matrix<Scalar> forward(const Architecture& architecture, const Parameters<Scalar>& parameters,
                       const Batch& batch, Taps<Scalar>* taps) {
  const c10::NoGradGuard no_gradient;
  const Towers towers(architecture, batch, kType<Scalar>);
  Tensors tapped;
  const at::Tensor outputs = towers(view(parameters), batch, taps == nullptr ? nullptr : &tapped);
  if (taps != nullptr) {
    for (const auto& [name, value] : tapped) (*taps)[name] = matrix<Scalar>(value);
  }
  return matrix<Scalar>(outputs);
}

template Matrix<float> forward(const Architecture&, const Parameters<float>&, const Batch&,
                               Taps<float>*);
template Matrix<double> forward(const Architecture&, const Parameters<double>&, const Batch&,
                                Taps<double>*);

}  // namespace regauge::lab
