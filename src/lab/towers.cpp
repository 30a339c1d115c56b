#include "towers.h"

#include "regauge/base/error.h"

namespace regauge::lab {
namespace {

// What a tower of several reads of a batch: its tokens, or its vectors, of which a sequence may
// have another number.
Batch part_of(const Batch& batch, const Architecture& architecture) {
  Batch part;
  part.sequences = batch.sequences;
  part.length = batch.length;
  if (architecture.input == Input::tokens) {
    part.tokens = batch.tokens;
    part.types = batch.types;
  } else {
    part.vectors = batch.vectors;
    part.length = batch.vectors.rows() / std::max<std::int64_t>(1, batch.sequences);
  }
  return part;
}

}  // namespace

Towers::Towers(const Architecture& architecture, const Batch& like, at::ScalarType type)
    : towers_(towers_of(architecture)) {
  if (towers_.size() == 1) {
    transformers_.emplace_back(architecture, like.length, type, like.source_length);
    return;
  }
  for (const Tower& tower : towers_) {
    const Batch part = part_of(like, tower.architecture);
    if (part.length <= 0) {
      throw UsageError(
          "the batch does not fit the architecture: two models side by side need "
          "inputs for both");
    }
    transformers_.emplace_back(tower.architecture, part.length, type);
  }
}

at::Tensor Towers::operator()(const Tensors& parameters, const Batch& batch, Tensors* taps) const {
  if (towers_.size() == 1) return transformers_.front()(parameters, batch, taps);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < towers_.size(); ++i) {
    Tensors own, tapped;
    for (const auto& [name, value] : parameters) {
      if (auto name_alone = towers_[i].own(name)) own.emplace(std::move(*name_alone), value);
    }
    outputs.push_back(transformers_[i](own, part_of(batch, towers_[i].architecture),
                                       taps == nullptr ? nullptr : &tapped)
                          .flatten(1));
    for (auto& [name, value] : tapped) taps->emplace(towers_[i].among_all(name), value);
  }
  return at::cat(outputs, 1);
}

}  // namespace regauge::lab
