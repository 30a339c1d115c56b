#pragma once

#include <filesystem>

#include "regauge/arch/layout.h"
#include "regauge/base/progress.h"
#include "regauge/symmetry/element.h"

namespace regauge {

// Writes the folder of the adapter that adds to the base, moved by `element`, what `adapter` adds
// to the base: what it adds is moved as the base is, and cut into factors again (any GL(r) between
// them is as good). `both` is BASE+ADAPTER, of which `adapter` is the last. `path` must not exist.
// Throws UsageError for adapters whose factors belong to several tensors (experts), for DoRA, and
// for one that adds nothing. Whether the two make one model the caller has to compare: an element
// that moves a tensor by what is in another (a shift) does not leave it at the sum.
void write_moved_adapter(const Model& both, const std::filesystem::path& adapter,
                         const Symmetry& symmetry, const Element& element,
                         const std::filesystem::path& path, Progress& progress);

}  // namespace regauge
