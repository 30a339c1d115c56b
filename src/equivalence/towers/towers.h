#pragma once

#include "equivalence/nearest.h"
#include "regauge/arch/towers.h"
#include "regauge/equivalence/canon.h"
#include "regauge/equivalence/diff.h"

// Models that stand side by side are compared and brought into a form one after the other, each as
// if it stood alone; what is found is put together under the names that it has among all.
namespace regauge {

// As the functions without `towers` do. Patches are of the first tower.
Nearest bring_towers_near(const Symmetry& symmetry, const ParameterSource& a,
                          const ParameterSource& b, Progress& progress, Doubt doubt);
Canon canon_of_towers(const Symmetry& symmetry, const ParameterSource& source, Progress& progress);
// Nothing is repaired.
Diagnosis diagnose_towers(const Model& a, const Model& b, const Diff& found, Progress& progress);

}  // namespace regauge
