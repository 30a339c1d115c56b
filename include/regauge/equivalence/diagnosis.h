#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/arch/parameter_source.h"
#include "regauge/base/progress.h"

namespace regauge {

// What a converter or a rewrite is known to do wrong. All are stated on canonical tensors.
enum class Mistake {
  rotary_missing,       // rotary pairs left in the other layout
  rotary_doubled,       // brought into the right layout twice
  rotary_inverted,      // by the inverse of the right permutation
  rotary_heads,         // with another number of heads, or of coordinates that rotate
  not_rotary,           // a basis change inside rotary heads that no rotation commutes with
  gain_offset,          // w where 1 + w was meant, or the reverse
  centred,              // a mean taken out that an rms norm sees
  layer_scale,          // folded into the map in front of it and kept, or lost
  post_gain_folded,     // a gain behind a norm, into the map in front of it
  gate_up_swapped,      // the two maps into a gated feed-forward
  gate_up_halves,       // side by side where they should alternate, or the reverse
  experts_order,        // experts and their router's outputs in different orders
  router_unscaled,      // a norm's gain folded into the experts, not into their router
  qkv_order,            // q, k, v exchanged or cut out of one tensor in the wrong places
  transposed,           // or its numbers read in the other order
  layers_exchanged,     // a layer's tensors stand in another layer
  tensors_exchanged,    // a tensor stands in another's place
  rows_elsewhere,       // some rows or columns stand elsewhere, or are another tensor's
  across_heads,         // coordinates of one head in another
  rotation_unfolded,    // the stream rotated without the norms' gains being folded
  rotation_incomplete,  // the stream rotated, but not in embedding or head: a tie, or an oversight
  adapter_missing,      // of a base and an adapter: only the base is there
  adapter_doubled,      // merged twice
  adapter_scale,        // merged with another scale than the adapter's config says
  adapter_transposed,   // B A added on its side
  adapter_halves,       // gate's part added to up, and up's to gate
  adapter_experts,      // factors of several experts cut into ranks in the wrong order
  adapter_base,         // merged into another base
  scale_missing,        // codes without their scales
  scale_inverted,       // multiplied by 1 / scale
  scale_transposed,     // each block with the scale of the one across
  scale_blocks,         // the scales of blocks of another shape
  scale_other,          // the scales of another tensor: each block has a factor of its own
  zero_point,           // off by one, or left out
  code_order,           // the codes of a word in another format's order
  rope,                 // the config's rotary frequencies
  constant,             // another number or switch of the config
  lost,                 // zero everywhere
  damaged               // none of these, but confined to a known place
};
std::string_view mistake_name(Mistake mistake);  // "rotary-missing"

// How stored tensors are to be read, by their names.
using Packings = std::map<std::string, std::shared_ptr<const Packing>>;

struct Cause {
  Mistake mistake = Mistake::damaged;
  std::string sentence;              // what was done, where
  std::string repair;                // what undoes it; empty where nothing in the files does
  std::vector<std::string> tensors;  // canonical; empty for a config
};

// Why B is not A, which is taken as right.
struct Diagnosis {
  std::vector<Cause> causes;  // none: no known mistake explains the difference
  bool certain = false;       // with all causes undone, compare() finds B the same as A
  bool moved = false;         // besides, B stands in other coordinates
  // Where the configs differ, a line on what still does once B's is put right; or empty.
  std::string besides;
  // B with the causes undone: read as this architecture, its stored tensors by these
  // packings, through these patches. They refer to both
  // models, which must outlive them.
  bool repairable = false;
  Architecture architecture;
  Packings packings;
  Patches patches;

  // Undoing them only moves numbers: what it makes of B is A to the last digit.
  bool is_exact() const;
};

// Writes B with the causes undone, in its own family, format and types, and compares what it wrote
// with A. Throws UsageError if the diagnosis has no certain repair, or if what was written is not
// A; then nothing is left of it. Where undoing takes arithmetic (an offset of gains, a rotation)
// the last digits may differ by a few units; the sentence that it returns says so: "every number is
// A's", "A's numbers but for the last digits: ...".
std::string repair(const Model& a, const Model& b, const Diagnosis& diagnosis,
                   const std::filesystem::path& path, Progress& progress);

}  // namespace regauge
