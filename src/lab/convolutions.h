#pragma once

#include "regauge/arch/architecture.h"
#include "tensors.h"

namespace regauge::lab {

// What an architecture's convolutions make of vectors: [sequences, positions, width] of both.
at::Tensor convolved(const Architecture& architecture, const Tensors& parameters,
                     const at::Tensor& vectors);

// What its positional convolution adds to the stream.
at::Tensor positional(const Architecture& architecture, const Tensors& parameters,
                      const at::Tensor& stream);

}  // namespace regauge::lab
