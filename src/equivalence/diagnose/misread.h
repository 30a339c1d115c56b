#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "change.h"
#include "regauge/arch/layout.h"
#include "regauge/arch/parameter_source.h"

namespace regauge {

// What of B's codes, scales and zero points is to be read otherwise than the file says.
struct Reread {
  std::vector<Change> changes;  // what is wrong with them; there is nothing to undo them by but:
  Packings packings;
};
// Tensors of B that are A's, or very nearly so, if they are read so. `b` is read as `a` declares.
Reread reread_packed(const Model& a, const Model& b, const Architecture& shape, Progress& progress);
Model with_packings(Model model, const Packings& packings);

// Whether B's tensor is what a known mistake makes of A's codes and scales. Nothing where A has
// none of them. The models must outlive this and what undoes the mistake.
class MadeByMisreading {
 public:
  MadeByMisreading(const Model& a, const Model& b, const Architecture& shape);
  std::optional<Change> operator()(const ParameterSpec& tensor) const;

 private:
  std::shared_ptr<const ParameterSource> a_, b_;  // null where A has no codes
};

}  // namespace regauge
