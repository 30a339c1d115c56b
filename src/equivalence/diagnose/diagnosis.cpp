#include "regauge/equivalence/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "declarations.h"
#include "equivalence/judge/in_place.h"
#include "equivalence/tolerances.h"
#include "misread.h"
#include "regauge/action/rewrite.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/diff.h"

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
    case Mistake::layer_scale:
      return "layer-scale";
    case Mistake::post_gain_folded:
      return "post-gain-folded";
    case Mistake::gate_up_swapped:
      return "gate-up-swapped";
    case Mistake::gate_up_halves:
      return "gate-up-halves";
    case Mistake::experts_order:
      return "experts-order";
    case Mistake::router_unscaled:
      return "router-unscaled";
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
    case Mistake::adapter_missing:
      return "adapter-missing";
    case Mistake::adapter_doubled:
      return "adapter-doubled";
    case Mistake::adapter_scale:
      return "adapter-scale";
    case Mistake::adapter_transposed:
      return "adapter-transposed";
    case Mistake::adapter_halves:
      return "adapter-halves";
    case Mistake::adapter_experts:
      return "adapter-experts";
    case Mistake::adapter_base:
      return "adapter-other-base";
    case Mistake::scale_missing:
      return "scale-missing";
    case Mistake::scale_inverted:
      return "scale-inverted";
    case Mistake::scale_transposed:
      return "scale-transposed";
    case Mistake::scale_blocks:
      return "scale-blocks";
    case Mistake::scale_other:
      return "scale-other";
    case Mistake::zero_point:
      return "zero-point";
    case Mistake::code_order:
      return "code-order";
    case Mistake::rope:
      return "rope";
    case Mistake::constant:
      return "constant";
    case Mistake::lost:
      return "lost";
    case Mistake::damaged:
      return "damaged";
  }
  return "";
}

bool Diagnosis::is_exact() const {
  return !moved && std::all_of(patches.begin(), patches.end(), [](const auto& entry) {
    return entry.second.does == Patch::Does::move;
  });
}

namespace {

double relative(const TensorResidual& r) { return r.residual / (r.size > 0 ? r.size : 1); }

// The written model against A.
struct Outcome {
  std::vector<std::string> problems;  // tensors that are not A's, each with how far it is off
  std::string sentence;               // without problems: what it is
};

Outcome compare_written(const Model& a, const Model& written, const ParameterSource& undone,
                        const Diagnosis& diagnosis, Progress& progress) {
  Outcome outcome;
  outcome.problems = architecture_differences(a.architecture, written.architecture);
  if (!outcome.problems.empty()) return outcome;
  const Architecture joint = joint_architecture(a.architecture, written.architecture);
  const ParameterSource from_a(a, joint), from_written(written, joint);
  // A number that was calculated is rounded once more when it is written. What was calculated was
  // compared with A, and what was written must be its rounding.
  const auto last_digits = [&](const ParameterSpec& spec, const TensorResidual& r) {
    const auto patch = diagnosis.patches.find(spec.name);
    const bool patched = patch != diagnosis.patches.end();
    const bool calculated = patched && patch->second.does != Patch::Does::move;
    // A's numbers within the steps of packed ones, which the file that was written does not have.
    const bool reread = !patched && !diagnosis.moved && !diagnosis.packings.empty();
    if (!calculated && !reread) return false;
    if (calculated && patch->second.does == Patch::Does::mix)
      return r.residual <= kAcceptedWhole * r.rounding;
    return compare_tensor_in_place(spec, undone, from_written).relation <= Relation::b_rounds_a;
  };
  double farthest = 0;
  for (const auto& spec : parameter_specs(joint)) {
    const TensorResidual r = compare_tensor_in_place(spec, from_a, from_written, progress);
    if (!r.agrees() && !last_digits(spec, r)) {
      outcome.problems.push_back(
          fmt::format("{} is off by {:.2g} of its size", r.tensor, relative(r)));
    }
    farthest = std::max(farthest, relative(r));
  }
  outcome.sentence =
      farthest == 0
          ? "every number is A's"
          : fmt::format("A's numbers but for the last digits: off by up to {:.1g} of a tensor",
                        farthest);
  if (outcome.problems.empty() || !diagnosis.moved) return outcome;
  if (diff(a, written, progress).verdict == Verdict::same) {
    return {{}, "the same function as A, in other coordinates"};
  }
  return outcome;
}

}  // namespace

std::string repair(const Model& a, const Model& b, const Diagnosis& diagnosis,
                   const std::filesystem::path& path, Progress& progress) {
  if (!diagnosis.repairable || !diagnosis.certain) {
    throw UsageError(
        "[repair] nothing to repair by: the difference is no known mistake that can be undone");
  }
  const auto declared = declared_as(diagnosis.architecture, b.architecture);
  const Model model =
      with_packings(read_as(b, declared.value_or(b.architecture)), diagnosis.packings);
  const ParameterSource source(model, diagnosis.architecture, diagnosis.patches);
  const Symmetry symmetry = symmetry_of(diagnosis.architecture);
  const Element identity;
  Rewrite(source, symmetry, identity, Rewrite::same_as(b)).run(path, progress);
  const auto [lines, sentence] = compare_written(a, Model::open(path), source, diagnosis, progress);
  if (lines.empty()) return sentence;
  std::filesystem::remove_all(path);
  constexpr std::size_t kNamed = 3;
  throw UsageError(fmt::format(
      "[repair] with the mistake undone B is still not A, and nothing was written: {}{}",
      fmt::join(lines.begin(),
                lines.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, lines.size())), "; "),
      lines.size() > kNamed ? fmt::format(" and {} more", lines.size() - kNamed) : ""));
}

}  // namespace regauge
