#pragma once

#include <map>
#include <string>
#include <vector>

#include "calculus_wires.h"
#include "regauge/arch/architecture.h"

namespace regauge::calculus_system {

using Tensors = std::map<std::string, Tensor>;

// The tables of which every embedded token or vector is a sum of rows; a class token has position
// 0 instead.
// `stack`: "encoder.", or nothing.
std::vector<Tensor> summed_tables(const Architecture& a, const Tensors& tensors,
                                  const std::string& stack);
// The class token at its position and, if asked for, the registers.
Tensor leading_rows(const Architecture& a, const Tensors& tensors, bool registers);
// Those, or what vectors among tokens have in common: the bias of their map, or 0.
Tensor rows_alone(const Architecture& a, const Tensors& tensors, bool registers);

// Softmax ignores one constant per head; a bucket that no distance falls into is never read.
void require_relative_bias(System& system, const Architecture& model, const Tensors& tensors,
                           std::int64_t layer);

}  // namespace regauge::calculus_system
