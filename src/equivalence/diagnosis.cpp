#include "regauge/equivalence/diagnosis.h"

#include "declarations.h"
#include "regauge/action/rewrite.h"
#include "regauge/base/error.h"

namespace regauge {

std::string_view mistake_name(Mistake mistake) {
  switch (mistake) {
    case Mistake::rotary_missing:
      return "rotary-missing";
    case Mistake::rotary_doubled:
      return "rotary-doubled";
    case Mistake::rotary_inverted:
      return "rotary-inverted";
    case Mistake::rotary_heads:
      return "rotary-heads";
    case Mistake::not_rotary:
      return "not-rotary";
    case Mistake::gain_offset:
      return "gain-offset";
    case Mistake::centred:
      return "centred";
    case Mistake::gate_up_swapped:
      return "gate-up-swapped";
    case Mistake::qkv_order:
      return "qkv-order";
    case Mistake::transposed:
      return "transposed";
    case Mistake::layers_exchanged:
      return "layers-exchanged";
    case Mistake::tensors_exchanged:
      return "tensors-exchanged";
    case Mistake::rows_elsewhere:
      return "rows-elsewhere";
    case Mistake::across_heads:
      return "across-heads";
    case Mistake::rotation_unfolded:
      return "rotation-unfolded";
    case Mistake::rotation_incomplete:
      return "rotation-incomplete";
    case Mistake::rope:
      return "rope";
    case Mistake::constant:
      return "constant";
    case Mistake::damaged:
      return "damaged";
  }
  return "";
}

void repair(const Model& b, const Diagnosis& diagnosis, const std::filesystem::path& path,
            Progress& progress) {
  if (!diagnosis.repairable) {
    throw UsageError(
        "[repair] nothing to repair by: the difference is no known mistake that can be undone");
  }
  const auto declared = declared_as(diagnosis.architecture, b.architecture);
  const Model model = read_as(b, declared.value_or(b.architecture));
  const ParameterSource source(model, diagnosis.architecture, diagnosis.patches);
  const Symmetry symmetry = symmetry_of(diagnosis.architecture);
  const Element identity;
  Rewrite(source, symmetry, identity, Rewrite::same_as(b)).run(path, progress);
}

}  // namespace regauge
