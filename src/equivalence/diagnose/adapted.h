#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/packings/low_rank.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/equivalence/diagnosis.h"

namespace regauge {

// A model that is a base and an adapter, read in other ways.
struct Adapted {
  // What a wrong merge would have made: canonical tensors, as the model's own.
  struct Variant {
    Mistake mistake;
    std::string what;
    ReadTensor read;
  };
  ReadTensor whole, base;
  std::vector<Variant> variants;
  // How the adapter adds to a canonical tensor; null where it does not.
  std::function<const io::LowRank*(std::string_view tensor)> packing;
};
// Nothing for a model without an adapter; the model must outlive it.
std::optional<Adapted> adapted_of(const Model& model, const Architecture& shape);

}  // namespace regauge
