#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "regauge/symmetry/symmetry.h"

namespace regauge {

// A member of a Symmetry: theta -> S theta + I, basis changes first and then shifts. A space or
// shift that is not named is left alone; a follower that is not named moves with its leader.
struct Element {
  std::map<std::string, BlockMap<double>> maps;  // by space
  std::map<std::string, Matrix<double>> shifts;  // by shift, [1, length]

  bool is_identity() const { return maps.empty() && shifts.empty(); }
};

// (second * first) acts as first, then second: (I', S')(I, S) = (I' + S' I, S' S).
Element compose(const Symmetry& symmetry, const Element& second, const Element& first);
// The part of it that acts on the tensors of a layer (of embedding and head for -1).
Element compose_on_layer(const Symmetry& symmetry, const Element& second, const Element& first,
                         std::int64_t layer);
// element <- step * element, at the cost of what the step moves.
void compose_onto(const Symmetry& symmetry, const Element& step, Element& element);
Element inverse(const Symmetry& symmetry, const Element& element);

// A generic member, well conditioned; only the given categories move (and what has to follow them).
// The same seed gives the same element, factor by factor, whatever else is drawn.
// With Blocks::identity it moves the same tensors by maps of the same size and costs nothing to
// draw.
Element random_element(const Symmetry& symmetry, std::uint64_t seed);
Element random_element(const Symmetry& symmetry, std::uint64_t seed, const std::set<Category>& only,
                       Blocks blocks = Blocks::random);

// Largest difference of any number of the two.
double distance(const Symmetry& symmetry, const Element& a, const Element& b);

// Throws UsageError, all problems at once, unless every map and shift belongs to the symmetry
// (within `tolerance`).
void check_member(const Symmetry& symmetry, const Element& element, double tolerance = 1e-6);

// The cheap part of it: names, sizes and permutations. Throws UsageError.
void check_shapes(const Symmetry& symmetry, const Element& element);

// The element's map of a space, identity or a follower's permutation where the element does not
// name it.
BlockMap<double> map_of(const Symmetry& symmetry, const Element& element, const Space& space);
// What a follower's blocks, or its coordinates, move with.
BlockMap<double> leader_of(const Symmetry& symmetry, const Element& element, const Space& follower);
// The map with which the element acts on an axis in this way; `through` is the caller's business.
BlockMap<double> axis_map(const Symmetry& symmetry, const Element& element, const AxisPart& part);

// What an element file may say besides: __metadata__, and tensors named "note.*".
struct ElementNotes {
  std::map<std::string, std::string> metadata = {};
  std::map<std::string, Matrix<double>> tensors = {};
};
// Throws where no element's file can be written, as CheckpointWriter::check_path does.
void check_element_path(const std::filesystem::path& path);
// A safetensors file with the architecture in its metadata: anyone can apply it.
void save_element(const Symmetry& symmetry, const Element& element,
                  const std::filesystem::path& path, const ElementNotes& notes = {});
// Throws UsageError if the file is of another architecture or not a member.
Element load_element(const Symmetry& symmetry, const std::filesystem::path& path);

}  // namespace regauge
