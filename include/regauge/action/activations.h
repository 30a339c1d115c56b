#pragma once

#include "regauge/arch/parameters.h"

namespace regauge {

// What a model computes on its way, one row per position, sequence after sequence:
//   NAME.norm.input    the stream that a norm reads (embed, layers.N.attn, layers.N.ffn, head)
//   layers.N.attn.heads   every head's mixture of values, [h * d_v], what attn.o.weight reads
//   layers.N.attn.patterns   every head's attention from this position, [h * positions]
//   layers.N.ffn.hidden   the hidden units, [m], what ffn.down.weight reads
//   head.hidden        the units of a head's transform, where there is one
//   head.input         what the head reads
template <class Scalar>
using Taps = std::map<std::string, Matrix<Scalar>>;

// Two models at work on the same inputs, batch by batch: the lab makes one from data, a Python user
// from models of their own.
class PairActivations {
 public:
  virtual ~PairActivations() = default;
  virtual std::int64_t batches() const = 0;  // left
  // What both compute on the next batch; there must be one.
  virtual void next(Taps<float>& a, Taps<float>& b) = 0;
};

}  // namespace regauge
