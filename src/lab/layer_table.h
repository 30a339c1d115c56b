#pragma once

#include <string>

#include "tensors.h"

namespace regauge::lab {

// The r numbers of each position that the third branch of a layer makes of the stream x and of its
// table (Architecture::table_width); `at` names it. `embedded`: the stream in front of all layers;
// `tokens`: a negative one is a vector; undefined: all are.
at::Tensor of_table(const Architecture& architecture, const Layer& layer, const Tensors& parameters,
                    const std::string& at, const at::Tensor& x, const at::Tensor& embedded,
                    const at::Tensor& tokens);

}  // namespace regauge::lab
