#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

#include "action/moved_model.h"
#include "arch/names.h"
#include "declarations.h"
#include "equivalence/beside/unread.h"
#include "equivalence/nearest.h"
#include "equivalence/recover/recover.h"
#include "equivalence/rounding.h"
#include "equivalence/towers/towers.h"
#include "excerpt.h"
#include "explain.h"
#include "misread.h"
#include "mistakes_stream.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/base/error.h"
#include "regauge/equivalence/diff.h"

namespace regauge {
namespace {

constexpr std::size_t kMostLayers = 12;  // of which any two may have changed places

// Tensors among which a wrong one spoils the others' fit: "layers.3.attn", or embedding and head.
std::string site_of(const std::string& tensor) {
  return layer_of(tensor) >= 0 ? sublayer_of(tensor) : "ends";
}

// Every tensor as the element moves it.
Patches moved_by(const Symmetry& symmetry, const Element& element) {
  struct Moved {
    Symmetry symmetry;
    Element element;
    std::int64_t layer = -2;
    Parameters<double> tensors;
  };
  const auto moved = std::make_shared<Moved>(Moved{symmetry, element, -2, {}});
  Patches patches;
  for (const auto& spec : parameter_specs(symmetry.architecture)) {
    patches[spec.name] =
        mixing([moved, name = spec.name, layer = spec.layer](const ReadTensor& read) {
          if (moved->layer != layer) {
            moved->tensors = moved_layer(moved->symmetry, moved->element, layer, read);
            moved->layer = layer;
          }
          return moved->tensors.at(name);
        });
  }
  return patches;
}

// What is done on the way to a step of another job: it may be cancelled, and is not shown.
class Quiet final : public Progress {
 public:
  explicit Quiet(Progress& outer) : outer_(outer) {}
  void advance(std::int64_t) override { outer_.advance(0); }

 private:
  Progress& outer_;
};

class Diagnostician {
 public:
  // `b` declares A's numbers and switches.
  Diagnostician(const Model& a, const Model& b, const Diff& found, Progress& progress)
      : a_(a),
        b_(b),
        found_(found),
        progress_(progress),
        quiet_(progress),
        excerpt_of_a_(a),
        excerpt_of_b_(b),
        shape_(found.architecture) {
    for (const auto& residual : found.residuals) {
      if (!residual.agrees()) wrong_.insert(residual.tensor);
    }
  }

  Diagnosis run() {
    if (in_place()) return result_;
    if ((!found_.a_from_b.is_identity() || !near_in_place_) && moved()) return result_;
    result_ = {};
    if (near_in_place_) {
      damage({}, in_place_);
    } else if (found_.verdict == Verdict::perturbed) {
      damage(found_.a_from_b, found_.residuals);
    }
    if (result_.causes.empty()) result_ = std::move(probable_);
    return result_;
  }

 private:
  ParameterSource source_a(const Architecture& shape, Patches patches = {}) const {
    return {a_, shape, std::move(patches)};
  }
  ParameterSource source_b(const Architecture& shape, Patches patches = {}) const {
    return {b_, shape, std::move(patches)};
  }

  // Both models read as `shape`, B as the element moves it.
  Pair pair(const Architecture& shape, const Symmetry& symmetry, const Element& element) const {
    const auto reader = [](const Model& model, const Architecture& as, const Patches& patches) {
      const auto source = std::make_shared<ParameterSource>(model, as, patches);
      return ReadTensor([source](std::string_view name) { return source->read<double>(name); });
    };
    Pair result;
    result.architecture = shape;
    result.a = reader(a_, shape, {});
    result.adapted = adapted_of(a_, shape);
    if (element.is_identity()) result.misread = MadeByMisreading(a_, b_, shape);
    result.b = reader(b_, shape, element.is_identity() ? Patches{} : moved_by(symmetry, element));
    for (std::int64_t n = 0; n < shape.layers && !result.halves; ++n) {
      if (shape.layer(n).has_delta()) continue;
      result.halves = b_.layout.has_halves(fmt::format("layers.{}.attn.q.weight", n));
    }
    return result;
  }

  // A layer in which B differs, if there is one that is read otherwise than it stands.
  std::int64_t telling_layer(const Patches& on_a, const Patches& on_b) const {
    std::int64_t first = -1;
    for (const auto& spec : parameter_specs(shape_)) {
      if (spec.layer < 0 || !wrong_.contains(spec.name)) continue;
      if (first < 0) first = spec.layer;
      if (on_a.contains(spec.name) || on_b.contains(spec.name)) return spec.layer;
    }
    return std::max<std::int64_t>(first, 0);
  }

  // Every tensor agrees, or was calculated by a patch and has the digits that that leaves.
  static bool is_explained(const std::vector<TensorResidual>& residuals, const Patches& on_a,
                           const Patches& on_b) {
    constexpr double kDigitsLeft = 6;  // times rounding
    const auto calculated = [](const Patches& patches, const std::string& tensor) {
      const auto patch = patches.find(tensor);
      return patch != patches.end() && patch->second.does != Patch::Does::move;
    };
    return std::all_of(residuals.begin(), residuals.end(), [&](const TensorResidual& r) {
      const bool made = calculated(on_a, r.tensor) || calculated(on_b, r.tensor);
      return r.agrees() || (made && r.residual <= kDigitsLeft * r.rounding);
    });
  }

  // No element carries even an excerpt of B to A's.
  bool is_refuted(const Symmetry& symmetry, const Patches& on_a, const Patches& on_b) {
    const Architecture& shape = symmetry.architecture;
    const std::int64_t layer = telling_layer(on_a, on_b);
    const Architecture cut = excerpt_of(shape, layer);
    if (cut == shape) return false;
    const Symmetry less = symmetry_of(cut);
    const ParameterSource a = excerpt_of_a_(shape, on_a, layer);
    const ParameterSource b = excerpt_of_b_(shape, on_b, layer);
    const double rounding = std::max(coarsest_rounding(a), coarsest_rounding(b));
    const Recovery recovery = recover(less, a, b, rounding, quiet_);
    if (!recovery.limits.empty()) return false;
    return !is_explained(compare(less, recovery.a_from_b, a, b, quiet_), on_a, on_b);
  }

  // The element that carries B, read so, to A, read so.
  std::optional<Element> equal(const Symmetry& symmetry, const Patches& on_a, const Patches& on_b) {
    const ParameterSource a = source_a(symmetry.architecture, on_a);
    const ParameterSource b = source_b(symmetry.architecture, on_b);
    try {
      if (is_refuted(symmetry, on_a, on_b)) return std::nullopt;
    } catch (const NoStandardForm&) {
      return std::nullopt;  // no standard form: nothing that this way could show
    }
    Nearest nearest = bring_near(symmetry, a, b, quiet_);
    if (!is_explained(nearest.residuals, on_a, on_b)) return std::nullopt;
    return std::move(nearest.a_from_b);
  }

  void conclude(const Architecture& shape, const std::vector<Change>& changes, bool certain) {
    result_.causes = causes_of(shape, changes);
    result_.certain = certain;
    result_.architecture = shape;
    result_.repairable = !changes.empty();
    for (const auto& change : changes) {
      for (const auto& [name, patch] : change.undo) {
        if (patch) {
          result_.patches[name] = patch;
        } else {
          result_.repairable = false;
        }
      }
    }
  }

  bool in_place() {
    const Symmetry symmetry = symmetry_of(shape_);
    in_place_ = found_.a_from_b.is_identity()
                    ? found_.residuals
                    : compare_in_place(source_a(shape_), source_b(shape_), progress_);
    near_in_place_ = mostly_near(in_place_);
    Explainer explainer(pair(shape_, symmetry, {}), in_place_, progress_);
    explainer.explain(Explainer::Where::in_place);
    if (!explainer.all_explained()) return false;
    conclude(shape_, explainer.changes(), true);
    result_.certain =
        all_agree(compare_in_place(source_a(shape_), source_b(shape_, result_.patches), progress_));
    if (!result_.certain) probable_ = result_;
    return result_.certain;
  }

  // The mistake was made in other coordinates than A's, or B was moved after it.
  bool moved() {
    const Symmetry symmetry = symmetry_of(shape_);
    result_.moved = true;
    if (!found_.a_from_b.is_identity()) {
      Explainer explainer(pair(shape_, symmetry, found_.a_from_b), found_.residuals, progress_,
                          ReadPart(symmetry, source_a(shape_)));
      explainer.explain(Explainer::Where::recovered);
      if (explainer.all_explained()) {
        conclude(shape_, explainer.changes(), true);
        result_.patches = stacked(moved_by(symmetry, found_.a_from_b), result_.patches);
        return true;
      }
    }
    const bool some_agree =
        std::any_of(found_.residuals.begin(), found_.residuals.end(),
                    [](const TensorResidual& r) { return !r.single_row && r.agrees(); });
    Architecture untied = shape_;
    untied.tied = false;
    const bool unties = problems_of(untied).empty();
    const Symmetry turning = symmetry_of(unties ? untied : shape_);
    if (!some_agree && !streams_are_related(pair(turning.architecture, turning, {}), turning)) {
      return false;
    }
    if (unties && turned_stream(turning)) return true;
    const auto guesses = hypotheses(pair(shape_, symmetry, {}));
    progress_.start("trying known mistakes", static_cast<std::int64_t>(guesses.size()) + 1);
    bool found = false;
    for (auto guess = guesses.begin(); guess != guesses.end() && !found; ++guess) {
      found = holds(symmetry, *guess);
      progress_.advance(1);
    }
    found = found || without_rotation();
    progress_.finish();
    return found;
  }

  bool turned_stream(const Symmetry& untied) {
    const Architecture& shape = untied.architecture;
    for (const auto& change : stream_changes(pair(shape, untied, {}), untied)) {
      if (!equal(untied, {}, change.undo)) continue;
      conclude(shape, {change}, true);
      return true;
    }
    return false;
  }

  // Undone in B, or made in A, it leaves nothing but an element between them.
  bool holds(const Symmetry& symmetry, const std::vector<Change>& hypothesis) {
    Patches undo, make;
    for (const auto& change : hypothesis) {
      undo.insert(change.undo.begin(), change.undo.end());
      make.insert(change.make.begin(), change.make.end());
    }
    const bool lossy = hypothesis.front().mistake == Mistake::centred;
    if (!lossy && equal(symmetry, {}, undo)) {
      conclude(shape_, hypothesis, true);
      return true;
    }
    if (make.empty()) return false;
    if (const auto made_from_b = equal(symmetry, make, {})) {
      conclude(shape_, hypothesis, true);
      result_.patches = stacked(moved_by(symmetry, *made_from_b), undo);
      return true;
    }
    if (!lossy) return false;
    // What cannot be undone is made in B's coordinates of the stream.
    for (const auto& stream : b_streams_from_a(pair(shape_, symmetry, {}), symmetry)) {
      if (!equal(symmetry, stacked(moved_by(symmetry, stream), make), {})) continue;
      conclude(shape_, hypothesis, true);
      result_.repairable = false;
      for (auto& cause : result_.causes) cause.repair.clear();
      return true;
    }
    return false;
  }

  // The same change on all layers that differ; where it concerns several tensors, also on each
  // alone.
  std::vector<std::vector<Change>> hypotheses(const Pair& both) const {
    std::set<std::string> wrong_sites;
    std::vector<std::int64_t> layers;
    for (const auto& tensor : wrong_) wrong_sites.insert(site_of(tensor));
    std::vector<Change> changes;
    for (std::int64_t layer = -1; layer < shape_.layers; ++layer) {
      const auto names = tensors_of(shape_, layer);
      if (std::none_of(names.begin(), names.end(),
                       [&](const auto& name) { return wrong_.contains(name); })) {
        continue;
      }
      if (layer >= 0) layers.push_back(layer);
      add_changes(both, layer, changes);
    }
    std::vector<std::vector<Change>> result;
    std::map<std::pair<std::string, std::string>, std::size_t> groups;
    const auto group = [&](const Change& change, const std::string& part) {
      const auto [at, is_new] = groups.try_emplace({change.what, part}, result.size());
      if (is_new) result.emplace_back();
      result[at->second].push_back(change);
    };
    for (const auto& change : changes) {
      if (change.mistake != Mistake::transposed) group(change, "");
      for (const auto& part : change.parts) group(change, part);
    }
    for (std::size_t i = 0; i < layers.size() && layers.size() <= kMostLayers; ++i) {
      for (std::size_t j = i + 1; j < layers.size(); ++j) {
        if (auto change = layer_exchange(both, layers[i], layers[j])) {
          result.push_back({std::move(*change)});
        }
      }
    }
    std::erase_if(result, [&](const std::vector<Change>& hypothesis) {
      return std::none_of(hypothesis.begin(), hypothesis.end(), [&](const Change& change) {
        return std::any_of(change.undo.begin(), change.undo.end(), [&](const auto& entry) {
          return wrong_sites.contains(site_of(entry.first));
        });
      });
    });
    return result;
  }

  // Were the heads not rotary, B would be A.
  bool without_rotation() {
    std::vector<Layer> still_layers;
    for (std::int64_t n = 0; n < shape_.layers; ++n) {
      Layer layer = shape_.layer(n);
      if (layer.attention.has_latents()) return false;  // their rotary part is a map of its own
      if (layer.attention.positions == Positions::rotary)
        layer.attention.positions = Positions::none;
      layer.attention.rotary_dims = 0;
      layer.attention.rotary_frequencies.clear();
      layer.attention.grid = layer.attention.positions != Positions::none && layer.attention.grid;
      still_layers.push_back(std::move(layer));
    }
    Architecture still = shape_;
    still.set_layers(still_layers);
    if (still == shape_) return false;
    if (!equal(symmetry_of(still), {}, {})) return false;
    Change change;
    change.mistake = Mistake::not_rotary;
    change.what = "a basis change inside the heads that does not commute with their rotations";
    for (const auto& residual : found_.residuals) {
      const bool qk = residual.tensor.find(".attn.q.") != std::string::npos ||
                      residual.tensor.find(".attn.k.") != std::string::npos;
      if (qk && !residual.agrees()) change.undo[residual.tensor] = nullptr;
    }
    conclude(shape_, {change}, true);
    return true;
  }

  void damage(const Element& element, const std::vector<TensorResidual>& residuals) {
    const Symmetry symmetry = symmetry_of(shape_);
    result_.moved = !element.is_identity();
    std::optional<ReadPart> read;
    if (result_.moved) read.emplace(symmetry, source_a(shape_));
    Explainer explainer(pair(shape_, symmetry, element), residuals, progress_, std::move(read));
    if (result_.moved) {
      explainer.explain(Explainer::Where::recovered);
    } else {
      explainer.explain(Explainer::Where::in_place);
      explainer.explain(Explainer::Where::trained);
    }
    explainer.find_other_base();
    explainer.locate_damage();
    conclude(shape_, explainer.changes(), false);
    if (result_.moved) result_.repairable = false;
  }

  const Model& a_;
  const Model& b_;
  const Diff& found_;
  Progress& progress_;
  Quiet quiet_;
  ExcerptReader excerpt_of_a_, excerpt_of_b_;
  Architecture shape_;
  std::set<std::string> wrong_;  // tensors that differ in the coordinates that were found
  Diagnosis result_;
  Diagnosis
      probable_;  // what explains every tensor in place, and leaves a little more than rounding
  std::vector<TensorResidual> in_place_;
  bool near_in_place_ = false;
};

// B's family has words for it. (A rope scaling that only fits its own base cannot be written.)
bool can_declare(const Model& b, const Architecture& architecture) {
  return architecture == b.architecture ||
         can_say(b.layout.family(), b.layout.format(), architecture, b.checkpoint.config());
}

// What B has to declare: its own tensors if all patches are of those.
void settle_architecture(const Architecture& own, Diagnosis& result) {
  const auto specs = parameter_specs(own);
  const bool enough =
      std::all_of(result.patches.begin(), result.patches.end(), [&](const auto& entry) {
        return std::any_of(specs.begin(), specs.end(),
                           [&](const ParameterSpec& spec) { return spec.name == entry.first; });
      });
  if (enough) result.architecture = own;
}

}  // namespace

Diagnosis diagnose(const Model& a, const Model& b, const Diff& found, Progress& progress) {
  const bool agrees = !found.residuals.empty() && all_agree(found.residuals);
  if (found.verdict == Verdict::same || agrees) return {};
  if (!a.architecture.beside.empty()) return diagnose_towers(a, b, found, progress);
  const auto declared = declared_as(a.architecture, b.architecture);
  if (!declared) return {};
  const std::vector<Cause> declarations = declaration_causes(*declared, b.architecture);
  Model reread = read_as(b, *declared);
  reread.architecture = *declared;
  const Reread packed =
      reread_packed(a, reread, joint_architecture(a.architecture, *declared), progress);
  reread = with_packings(std::move(reread), packed.packings);
  const bool as_before = declarations.empty() && packed.packings.empty();
  const Diff again = as_before ? found : diff(a, reread, progress);
  Diagnosis result;
  if (again.verdict == Verdict::same) {
    result.certain = result.repairable = true;
    result.moved = !again.a_from_b.is_identity();
  } else if (again.residuals.empty() || differing(again.residuals) > 0) {
    result = Diagnostician(a, reread, again, progress).run();
  }
  if (!declarations.empty() && again.verdict != Verdict::same && !result.certain) {
    result.besides = fmt::format("with the config put right {} of {} tensors still differ",
                                 disagreeing(again.residuals), again.residuals.size());
  }
  const Unread unread = compare_unread(a, b, progress);
  if (result.certain && !unread.differ.empty()) {
    result.certain = false;
    result.besides =
        fmt::format("not understood, and not put right: {}", fmt::join(unread.differ, "; "));
  }
  result.packings = packed.packings;
  settle_architecture(*declared, result);
  if (result.repairable && !can_declare(b, result.architecture)) result.repairable = false;
  // What is left of a tensor that was reread is not another mistake.
  std::erase_if(result.causes, [&](const Cause& cause) {
    return std::ranges::all_of(cause.tensors,
                               [&](const std::string& tensor) {
                                 return std::ranges::any_of(packed.changes,
                                                            [&](const Change& change) {
                                                              return change.undo.contains(tensor);
                                                            });
                               }) &&
           !cause.tensors.empty() && !result.certain;
  });
  const std::vector<Cause> misread = causes_of(again.architecture, packed.changes);
  result.causes.insert(result.causes.begin(), misread.begin(), misread.end());
  result.causes.insert(result.causes.begin(), declarations.begin(), declarations.end());
  return result;
}

}  // namespace regauge
