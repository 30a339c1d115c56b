#pragma once

#include <optional>

#include "regauge/lab/data.h"
#include "tensors.h"

namespace regauge::lab {

// The one forward pass: every switch of Architecture, no family. For sequences of one length; what
// depends on nothing but positions is computed once.
class Transformer {
 public:
  // `source_length`: of what an encoder reads.
  Transformer(const Architecture& architecture, std::int64_t length, at::ScalarType type,
              std::int64_t source_length = 0);

  // [sequences, positions, outputs], or [sequences, classes]. Differentiable in the parameters.
  at::Tensor operator()(const Tensors& parameters, const Batch& batch,
                        Tensors* taps = nullptr) const;

 private:
  class Pass;
  // What attention needs of the positions alone; undefined where it does not.
  struct Tables {
    at::Tensor turns;         // [positions, pairs], complex
    at::Tensor mask;          // [1 or h, positions, positions], added to the logits
    at::Tensor buckets;       // [positions * positions], rows of the relative table
    at::Tensor temperatures;  // [positions, 1], of queries
  };
  static Tables tables(const Attention& attention, bool causal, std::int64_t positions,
                       std::int64_t leading, at::ScalarType type);
  const Tables& tables_of(std::int64_t layer) const {
    const auto& pattern = architecture_.pattern;
    const auto& of_stack = layer < architecture_.encoder_layers ? encoder_tables_ : tables_;
    return of_stack.at(pattern.empty()
                           ? 0
                           : static_cast<std::size_t>(pattern.at(static_cast<std::size_t>(layer))));
  }

  Architecture architecture_;
  std::int64_t length_;     // of the batch
  std::int64_t positions_;  // with the learned rows in front
  std::int64_t source_length_;
  at::ScalarType type_;
  at::Tensor sinusoids_;                         // [positions, D]
  std::vector<Tables> tables_, encoder_tables_;  // by the kind of layer
};

}  // namespace regauge::lab
