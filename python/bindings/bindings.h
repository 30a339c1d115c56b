#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "regauge/arch/layout.h"
#include "regauge/symmetry/element.h"

namespace regauge::python {

namespace nb = nanobind;

// A group, shared by its elements.
using Group = std::shared_ptr<const Symmetry>;
Group group_of(const Architecture& architecture);

// A member that knows its group.
struct Member {
  Group group;
  Element element;
};

// Each file adds its part to the module.
void add_errors(nb::module_& module);
void add_models(nb::module_& module);
void add_groups(nb::module_& module);
void add_rewrites(nb::module_& module);
void add_diffs(nb::module_& module);
void add_aligns(nb::module_& module);
void add_learning(nb::module_& module);

}  // namespace regauge::python
