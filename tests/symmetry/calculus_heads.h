#pragma once

#include <string>
#include <vector>

#include "calculus_tables.h"

namespace regauge::calculus_system {

// What the heads of an attention read of a wire.
class HeadWires {
 public:
  HeadWires(System& system, const Attention& attention, const Tensors& tensors, bool forgets_length)
      : system_(system), a_(attention), tensors_(tensors), forgets_length_(forgets_length) {}

  // Queries or keys, head by head, as the logits see them.
  std::vector<Wire> queries_or_keys(const Wire& x, const std::string& name, Index count) const;
  // A norm of values has no gain. `at`: the attention's name with its dot.
  std::vector<Wire> values(const Wire& source, const std::string& at, bool norm_forgotten) const;

 private:
  System& system_;
  const Attention& a_;
  const Tensors& tensors_;
  bool forgets_length_;
};

// y = x W + b on columns [first, first + count).
Wire linear(const Tensors& tensors, const Wire& x, const std::string& name, Index first,
            Index count);

}  // namespace regauge::calculus_system
