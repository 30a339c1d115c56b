#pragma once

#include "tensors.h"

namespace regauge::lab {

// What attention sees of tokens for contacts, [sequences, 1, n, n]: nothing of the token that ends
// a protein, ESM's third.
at::Tensor seen_for_contacts(const at::Tensor& tokens, at::ScalarType type);

// The contacts of a layer's heads, patterns [sequences, heads, n, n] and weights [1, heads],
// without the first and the last position: of each head the symmetric part less the product of its
// sums by rows and columns over its sum. [sequences, n - 2, n - 2].
at::Tensor contacts_of(const at::Tensor& patterns, const at::Tensor& seen,
                       const at::Tensor& weights);

}  // namespace regauge::lab
