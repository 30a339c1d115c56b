#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string_view>
#include <vector>

#include "regauge/action/fold.h"
#include "regauge/arch/layout.h"
#include "regauge/symmetry/scope.h"

namespace regauge {

// How to look for the element that brings B closest to A.
enum class AlignMethod {
  two_stage,    // heads and their gauges one layer at a time: the baseline, reconstructed
  weights,      // the whole group, from the weights alone
  activations,  // the whole group, from what both models compute on data
  learned       // from there on, by the loss between the models
};
// They need data; the others see weights alone.
constexpr bool runs_models(AlignMethod method) {
  return method == AlignMethod::activations || method == AlignMethod::learned;
}
std::string_view method_name(AlignMethod method);
AlignMethod method_from_name(std::string_view name);  // throws UsageError with the choices

// What two_stage does about the residual stream before it matches heads.
enum class StreamMap { none, permutation, orthogonal };
std::string_view stream_map_name(StreamMap map);
StreamMap stream_map_from_name(std::string_view name);  // throws UsageError with the choices

struct AlignOptions {
  Scope scope = {};
  std::uint64_t seed = 0;        // of random starts
  std::int64_t iterations = 40;  // of one start, at most
  std::int64_t starts = 4;
  // Only two_stage has these:
  bool compact = false;                // rotations and phases alone, without descent
  bool neurons = false;                // also an assignment of neurons by their weights
  StreamMap stream = StreamMap::none;  // fitted to embedding and head, norms folded first
  // Where the heads of a layer go, instead of what stage one finds: place by head of B.
  std::map<std::int64_t, std::vector<std::int64_t>> heads = {};
};

// What a method found. B moved by it stands in A's coordinates, gains and balance included, and
// computes what B computed.
struct Alignment {
  Element a_from_b;
  nlohmann::json report;  // of the method: objective by iteration, what was tried
};

// `a` and `b` read canonical tensors of symmetry.architecture. Memory: a few layers and D^2; by
// weights D^2 for every layer, and twice the square of the number of neurons.
Alignment align_two_stage(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                          const AlignOptions& options, Progress& progress);
Alignment align_weights(const Symmetry& symmetry, const ReadTensor& a, const ReadTensor& b,
                        const AlignOptions& options, Progress& progress);
// By either of them; throws UsageError for the methods that run models.
Alignment align(AlignMethod method, const Symmetry& symmetry, const ReadTensor& a,
                const ReadTensor& b, const AlignOptions& options, Progress& progress);
// Of two checkpoints; the element is one of symmetry_of(joint_architecture(...)). Throws UsageError
// if they differ in what they compute.
Alignment align(const Model& a, const Model& b, AlignMethod method, const AlignOptions& options,
                Progress& progress);

// The form in which models are compared: norms folded, shifts used up, scales balanced, as far as
// the scope goes. What is left between two forms of one function is compact: rotations, phases,
// signs, permutations. `sign` as for standard_form: -1 for B if the stream of A is B's reversed.
Element comparable_form(const Symmetry& symmetry, const ReadTensor& model, const Scope& scope,
                        Progress& progress, double sign = 1);
// All coordinates of the stream change their sign, which no other factor of the group can do.
bool reverses_stream(const Element& element);
// The element from B to A, given that `relative` carries b_form . B to a_form . A.
Element between_models(const Symmetry& symmetry, const Element& a_form, const Element& relative,
                       const Element& b_form);

}  // namespace regauge
