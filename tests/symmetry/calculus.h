#pragma once

#include <cstdint>

#include "regauge/arch/architecture.h"

namespace regauge {

// The dimension of the symmetry algebra of an architecture, by the calculus of theory.md section
// 1b: every wire gets an infinitesimal change, every module says as linear equations which changes
// it passes on, and the answer is the dimension of the parameter part of their solutions. Shares
// nothing with symmetry_of.
struct CalculusResult {
  std::int64_t dimension = 0;
  double gap = 0;  // smallest singular value kept / largest one dropped, over all rank decisions
};

// Rules that are deliberately wrong: negative controls.
enum class Mistake {
  none,
  rotary_forgotten,        // logits as without positions
  centring_forgotten,      // a layer norm sees the component along 1
  tie_forgotten,           // the head of a tied model as a tensor of its own
  router_shift_forgotten,  // a router's softmax notices what all logits have in common
  sigmoid_forgotten,       // a sigmoid does not notice it either
  choice_forgotten,        // what only selects may change at will
  latent_norm_forgotten,   // a latent may change by any linear map
  key_shift_forgotten,     // softmax notices a constant over the keys
  table_doubled,           // encoder and decoder have a token table each
  sink_forgotten,          // rows of a softmax sum to one in spite of a sink
  clamp_forgotten,         // what is clamped scales as if it were not
  layer_scale_forgotten,   // a layer scale cannot change
  registers_forgotten,     // nothing reads the registers
  gate_forgotten,          // an output gate does not see coordinates
  kernel_forgotten,        // the kernels of a convolution cannot change
  value_norm_forgotten,    // values are read as they are
  stream_scale_forgotten,  // a number on the stream may change at will
  vectors_forgotten,       // nothing reads the vectors among tokens
  gelu_forgotten,          // nothing stands behind the last convolution
  passes_forgotten,        // a layer is gone through once
  length_forgotten,        // a kernel is not divided by its length
  shared_keys_apart,       // keys that another layer takes may change there in a way of their own
  table_gain_apart,        // the maps of tables have a gain of each layer's own
};

// At random_parameters(architecture, seed). Rules hold for all inputs of any length, and every
// position's output counts. Not modelled: contexts too short for rotations or buckets to differ, so
// few tokens that the first feed-forward of a parallel block is under-determined, input vectors of
// width below 3 without bias or positions, QK-norm with d_k > D.
CalculusResult calculus(const Architecture& architecture, std::uint64_t seed,
                        Mistake mistake = Mistake::none);

}  // namespace regauge
