#pragma once

#include "regauge/arch/parameters.h"

namespace regauge::testing {

// The function of an architecture for one input, written as plainly as architecture.h states it: no
// batches, no caches, quadratic loops. `input` is one row per position: [T,1] token numbers,
// [T,2] token and type numbers, or [T,input_width] vectors; a vector among tokens, with those of
// the first layers, follows the two numbers, of which the first is -1. Returns [T,D] or [T,outputs]
// (classes: from one position, [1,classes]). `source`: what an encoder reads, or the model beside,
// as `input`; of two models side by side the outputs follow one another in a row.
Matrix<double> forward(const Architecture& architecture, const Parameters<double>& parameters,
                       const Matrix<double>& input, const Matrix<double>& source = {});

}  // namespace regauge::testing
