#include "regauge/align/align.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "action/balance.h"
#include "action/moved_model.h"
#include "action/standard_form.h"
#include "action/unit_lengths.h"
#include "regauge/arch/joint_architecture.h"
#include "regauge/arch/parameter_source.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr std::array<std::string_view, 4> kMethods = {"two_stage", "weights", "activations",
                                                      "learned"};

constexpr std::array<std::string_view, 3> kStreamMaps = {"none", "permutation", "orthogonal"};

template <class Enum, std::size_t Size>
Enum choice_from_name(const std::array<std::string_view, Size>& names, std::string_view what,
                      std::string_view name) {
  for (std::size_t i = 0; i < Size; ++i) {
    if (names.at(i) == name) return static_cast<Enum>(i);
  }
  throw UsageError(fmt::format("[align] there is no {} '{}'; it is one of {}", what, name,
                               fmt::join(names, ", ")));
}

Element all_unit_lengths(const Symmetry& symmetry, const ReadTensor& model, const Element& form) {
  Element lengths;
  if (!has_free_lengths(symmetry)) return lengths;
  for (std::int64_t layer = -1; layer < symmetry.architecture.layers; ++layer) {
    const Element so_far = compose_on_layer(symmetry, lengths, form, layer);
    const auto moved = moved_layer(symmetry, so_far, layer, model);
    lengths.maps.merge(unit_lengths(symmetry, layer, moved, lengths).maps);
  }
  return lengths;
}

}  // namespace

std::string_view method_name(AlignMethod method) {
  return kMethods.at(static_cast<std::size_t>(method));
}

AlignMethod method_from_name(std::string_view name) {
  return choice_from_name<AlignMethod>(kMethods, "method", name);
}

std::string_view stream_map_name(StreamMap map) {
  return kStreamMaps.at(static_cast<std::size_t>(map));
}

StreamMap stream_map_from_name(std::string_view name) {
  return choice_from_name<StreamMap>(kStreamMaps, "map of the stream", name);
}

bool reverses_stream(const Element& element) {
  const auto found = element.maps.find("residual.sign");
  return found != element.maps.end() && found->second.has_blocks() &&
         found->second.blocks()(0, 0) < 0;
}

Element comparable_form(const Symmetry& symmetry, const ReadTensor& model, const Scope& scope,
                        Progress& progress, double sign) {
  const Architecture& shape = symmetry.architecture;
  const bool shares = std::ranges::any_of(
      shape.kinds, [](const Layer& kind) { return kind.attention.shares_keys; });
  if (shape.has_tables() || shares) {
    throw UsageError(
        "[align] models whose layers have tables, or take keys and values from an earlier layer, "
        "are not aligned yet");
  }
  std::vector<std::string> limits;
  Element form = scope.restrict(
      symmetry, standard_form(model, symmetry, sign, limits, progress, UnknownShifts::kept));
  form = compose(symmetry, scope.restrict(symmetry, all_unit_lengths(symmetry, model, form)), form);
  const MovedModel folded(model, symmetry, form);
  Element balanced;
  for (std::int64_t layer = -1; layer < symmetry.architecture.layers; ++layer) {
    balanced.maps.merge(balance(symmetry, folded.layer(layer)).maps);
  }
  return compose(symmetry, scope.restrict(symmetry, std::move(balanced)), form);
}

Element between_models(const Symmetry& symmetry, const Element& a_form, const Element& relative,
                       const Element& b_form) {
  return compose(symmetry, inverse(symmetry, a_form), compose(symmetry, relative, b_form));
}

Alignment align(AlignMethod method, const Symmetry& symmetry, const ReadTensor& a,
                const ReadTensor& b, const AlignOptions& options, Progress& progress) {
  if (runs_models(method)) {
    throw UsageError(
        fmt::format("[align] {} needs data to run the models on", method_name(method)));
  }
  const auto by = method == AlignMethod::two_stage ? align_two_stage : align_weights;
  return by(symmetry, a, b, options, progress);
}

Alignment align(const Model& a, const Model& b, AlignMethod method, const AlignOptions& options,
                Progress& progress) {
  const Architecture shape = require_joint_architecture(a.architecture, b.architecture);
  const ParameterSource from_a(a, shape), from_b(b, shape);
  return align(method, symmetry_of(shape), from_a.reader(), from_b.reader(), options, progress);
}

}  // namespace regauge
