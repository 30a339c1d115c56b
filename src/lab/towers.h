#pragma once

#include <vector>

#include "regauge/arch/towers.h"
#include "transformer.h"

namespace regauge::lab {

// The forward pass of all models that stand side by side: the outputs of one behind those of the
// other, a row for each sequence. One that stands alone is a Transformer.
class Towers {
 public:
  // For batches whose sequences are as long as those of `like`.
  Towers(const Architecture& architecture, const Batch& like, at::ScalarType type);

  at::Tensor operator()(const Tensors& parameters, const Batch& batch,
                        Tensors* taps = nullptr) const;

 private:
  std::vector<Tower> towers_;
  std::vector<Transformer> transformers_;
};

}  // namespace regauge::lab
