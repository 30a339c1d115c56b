#include "regauge/equivalence/diagnosis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "declarations.h"
#include "regauge/action/rewrite.h"
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

namespace {

constexpr double kDigits = 3;  // times the rounding of both: what arithmetic on numbers adds

// Tensors of the written model that are not A's, each with how far it is off.
std::vector<std::string> not_repaired(const Model& a, const Model& written,
                                      const Diagnosis& diagnosis, Progress& progress) {
  std::vector<std::string> lines = architecture_differences(a.architecture, written.architecture);
  if (!lines.empty()) return lines;
  const Architecture joint = joint_architecture(a.architecture, written.architecture);
  const auto residuals =
      compare_in_place(ParameterSource(a, joint), ParameterSource(written, joint), progress);
  const auto calculated = [&](const TensorResidual& r) {
    const auto patch = diagnosis.patches.find(r.tensor);
    return patch != diagnosis.patches.end() && patch->second.calculates &&
           r.residual <= kDigits * r.rounding;
  };
  for (const auto& r : residuals) {
    if (r.agrees() || calculated(r)) continue;
    lines.push_back(fmt::format("{} is off by {:.2g} of its size", r.tensor,
                                r.residual / (r.size > 0 ? r.size : 1)));
  }
  if (lines.empty() || !diagnosis.moved) return lines;
  return diff(a, written, progress).verdict == Verdict::same ? std::vector<std::string>() : lines;
}

}  // namespace

void repair(const Model& a, const Model& b, const Diagnosis& diagnosis,
            const std::filesystem::path& path, Progress& progress) {
  if (!diagnosis.repairable || !diagnosis.certain) {
    throw UsageError(
        "[repair] nothing to repair by: the difference is no known mistake that can be undone");
  }
  const auto declared = declared_as(diagnosis.architecture, b.architecture);
  const Model model = read_as(b, declared.value_or(b.architecture));
  const ParameterSource source(model, diagnosis.architecture, diagnosis.patches);
  const Symmetry symmetry = symmetry_of(diagnosis.architecture);
  const Element identity;
  Rewrite(source, symmetry, identity, Rewrite::same_as(b)).run(path, progress);
  const auto lines = not_repaired(a, Model::open(path), diagnosis, progress);
  if (lines.empty()) return;
  std::filesystem::remove_all(path);
  constexpr std::size_t kNamed = 3;
  throw UsageError(fmt::format(
      "[repair] with the mistake undone B is still not A, and nothing was written: {}{}",
      fmt::join(lines.begin(),
                lines.begin() + static_cast<std::ptrdiff_t>(std::min(kNamed, lines.size())), "; "),
      lines.size() > kNamed ? fmt::format(" and {} more", lines.size() - kNamed) : ""));
}

}  // namespace regauge
