#pragma once

#include "regauge/arch/architecture.h"
#include "tensors.h"

namespace regauge::lab {

at::Tensor activated(Activation activation, const at::Tensor& x);

}  // namespace regauge::lab
