#pragma once

#include "calculus.h"
#include "calculus_tables.h"

namespace regauge::calculus_system {

// What the third branch of a layer adds to the stream, as rows: of each token, and of vectors, if
// there are any. `raw`: the stream as it is; it changes by x -> x + x `stream`.
Dense from_table(System& system, const Architecture& a, const Tensors& tensors, std::int64_t layer,
                 const Wire& raw, const Forms& stream, Mistake mistake);

}  // namespace regauge::calculus_system
