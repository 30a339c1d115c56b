#pragma once

#include <map>
#include <string>

#include "regauge/arch/parameter_source.h"

namespace regauge {

// A model cut down to a part of it: what carries the whole of B to A carries this part, and that
// nothing does is seen in a fraction of the time. One layer between embedding and head (all of
// them unless norms stand before the sub-layers: else a layer's constants belong to the one
// before; and of encoder-decoders), and a few tokens for each coordinate of the stream.
// `layer` is the one that is kept.
Architecture excerpt_of(const Architecture& shape, std::int64_t layer);

class ExcerptReader {
 public:
  explicit ExcerptReader(const Model& model) : model_(model) {}
  // The model, read as `shape` through `patches`; of the layers, where there is one, `layer` is it.
  ParameterSource operator()(const Architecture& shape, const Patches& patches, std::int64_t layer);

 private:
  const Model& model_;
  std::map<std::string, Matrix<double>> ends_;  // what the few tokens have of embedding and head
};

}  // namespace regauge
