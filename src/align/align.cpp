#include "regauge/align/align.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "action/balance.h"
#include "action/moved_model.h"
#include "action/standard_form.h"
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

// A length that a norm forgets, and that nothing else balances.
bool is_length(const Space& space) {
  return space.category == Category::scales ||
         (space.width() == 1 && space.dimension() > 0 &&
          (space.category == Category::heads || space.category == Category::qk));
}

// No gauge changes the size of this tensor: what acts on it are lengths and isometries.
bool has_a_size(const Symmetry& symmetry, const std::string& name) {
  const TensorAxes& axes = symmetry.tensors.at(name);
  for (const auto* axis : {&axes.rows, &axes.cols}) {
    for (const auto& part : *axis) {
      const Space& space = *symmetry.find_space(part.space);
      const bool pattern = part.take == AxisPart::Take::permutation ||
                           part.take == AxisPart::Take::signs ||
                           part.take == AxisPart::Take::pattern;
      // A gain that is folded away says nothing; its readers are settled then.
      const bool folded = space.category == Category::norms && !name.ends_with(".gain");
      if (!pattern && !folded && space.dimension() > 0 && !space.is_orthogonal() &&
          !is_length(space)) {
        return false;
      }
    }
  }
  return !name.ends_with(".bias");
}

// The first length in a layer that `known` does not hold yet, such that what has it becomes of root
// mean square 1; nothing if there is none.
Element unit_length(const Symmetry& symmetry, const Parameters<double>& tensors,
                    const Element& known) {
  Element element;
  for (const auto& [name, tensor] : tensors) {
    if (!has_a_size(symmetry, name)) continue;
    const TensorAxes& axes = symmetry.tensors.at(name);
    for (const int axis : {0, 1}) {
      for (const auto& part : axis == 0 ? axes.rows : axes.cols) {
        const Space& space = *symmetry.find_space(part.space);
        if (!is_length(space) || part.dual || part.take != AxisPart::Take::whole ||
            known.maps.contains(space.name)) {
          continue;
        }
        const Matrix<double> rows = axis == 0 ? Matrix<double>(tensor.transpose()) : tensor;
        const auto run = rows.cols() / space.count;
        Matrix<double> factors(space.count, 1);
        for (Eigen::Index i = 0; i < space.count; ++i) {
          const auto block = rows.middleCols(i * run, run);
          const double size = block.norm() / std::sqrt(static_cast<double>(block.size()));
          factors(i, 0) = size > 0 ? 1 / size : 1;
        }
        element.maps[space.name] = BlockMap<double>(space.count, 1, {}, factors);
        return element;
      }
    }
  }
  return element;
}

Element unit_lengths(const Symmetry& symmetry, const ReadTensor& model, const Element& form) {
  Element lengths;
  const bool any = std::any_of(symmetry.spaces.begin(), symmetry.spaces.end(), is_length);
  for (std::int64_t layer = -1; any && layer < symmetry.architecture.layers; ++layer) {
    Parameters<double> tensors =
        MovedModel(model, symmetry, compose(symmetry, lengths, form)).layer(layer);
    for (;;) {
      const Element next = unit_length(symmetry, tensors, lengths);
      if (next.is_identity()) break;
      act_on_layer(symmetry, next, layer, tensors);
      lengths.maps.insert(next.maps.begin(), next.maps.end());
    }
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
  std::vector<std::string> limits;
  Element form = scope.restrict(
      symmetry, standard_form(model, symmetry, sign, limits, progress, UnknownShifts::kept));
  form = compose(symmetry, scope.restrict(symmetry, unit_lengths(symmetry, model, form)), form);
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
