#pragma once

#include <map>
#include <string>
#include <vector>

#include "regauge/symmetry/space.h"

namespace regauge {

// One way in which a tensor axis lives in a space: which map of the space acts on it.
struct AxisPart {
  enum class Take {
    whole,        // the map as it is
    permutation,  // only where blocks go
    diagonal,     // only the blocks
    signs,        // the blocks' signs, in place
    pattern,      // signs and permutation
    absolute      // moduli and permutation
  };
  std::string space = {};
  bool dual = false;  // by the inverse transpose
  Take take = Take::whole;
  std::int64_t repeat = 1;  // each number of the map stands for this many coordinates
  std::int64_t tile = 1;    // the map acts on this many consecutive runs alike
  std::string lift = {};    // a space of query heads, when the map is of kv heads
  // A norm, y = x_hat gain: the stream's map R acts on y as gain^-1 R gain', gain' the new one.
  // A layer scale, x += y gain: as gain R gain'^-1; then `before` is true.
  std::string through = {};
  bool before = false;

  // Coordinates count times the gain in the stream's units, and not over it.
  bool times_gain() const { return dual || before; }
};
using Axis = std::vector<AxisPart>;  // applied in this order

// The axes of one canonical tensor.
struct TensorAxes {
  Axis rows;
  Axis cols;
  bool pinned = false;  // a fixed position table is added: rows count from minus fixed_origin
};

// A norm's own tensors and who reads its output; or a layer scale, which has a gain alone, and what
// it multiplies.
struct Reader {
  std::string weight;
  std::string bias;         // empty: none
  bool transposed = false;  // a tied head: reads with the token table's transpose
};
struct NormSite {
  std::string name;  // "layers.0.attn.norm"
  std::string bias;  // empty: none
  std::vector<Reader> readers;
  std::string writer = {};  // of a layer scale: the map before it, "layers.0.attn.o"

  std::string gain() const { return name + ".gain"; }
  bool is_layer_scale() const { return !writer.empty(); }
};

// What a shift vector v does to one tensor T, or W where it reads a norm. `gain` and `bias` are
// those of `norm`, u = bias/gain; 1 is a row of ones. A `target` is a bias that takes a constant.
// Before a layer scale, which is `norm` then, the stream's 1 is 1/gain, and a mean that of T gain.
//
//   add_rows         T[first_row, last_row) += factor 1^T v;  target -= factor (bias . v)
//   add_columns      T += v^T 1
//   add_all          T += v, a single number;  target -= sum(bias) v
//   add_gained       T += factor (v gain), T a vector
//   reader           W += (1/gain)^T v;  target -= sum(u) v
//   reader_constant  W += (1/gain)^T v / sum(u);  a single number v counts for all columns
//   reader_columns   W += (v/gain)^T 1;  target -= u . v, or W -= (1/gain)^T 1 (u . v) / sum(u)
//   absorb           target -= v W, W's rows those of query heads; less its mean if `centred`
//   norm_reader      target -= (v gain) W, or W -= (1/gain)^T (v gain) W / sum(u + v)
struct Effect {
  enum class Kind {
    add_rows,
    add_columns,
    add_all,
    add_gained,
    reader,
    reader_constant,
    reader_columns,
    absorb,
    norm_reader
  };
  Kind kind = Kind::add_rows;
  std::string tensor;  // T or W
  std::string target;  // the bias that takes the constant; may be empty
  std::string norm;
  double factor = 1;
  std::int64_t first_row = 0;
  std::int64_t last_row = -1;  // -1: all
  std::int64_t spread = 1;     // absorb: query heads per kv head
  std::int64_t width = 0;      // absorb: d_v
  bool centred = false;
  bool transposed = false;  // norm_reader: a tied head
};

// A translation or an invisible component (theory.md's second and third kind): a vector that is
// added, in the coordinates of an axis, without changing the function. Shifts add up, and a basis
// change carries them along by `axis`.
struct Shift {
  std::string name;
  std::int64_t length = 0;
  std::int64_t dimension = 0;  // less than `length` where only some vectors are free
  Axis axis;
  std::vector<Effect> effects;
  bool sums_to_zero = false;  // only vectors with sum 0
  std::vector<bool> free;     // only coordinates i with free[i % free.size()]; empty: all
  // Free only on a subspace that depends on the parameters' values (a kernel): counted in the
  // dimension, never drawn at random.
  bool depends_on_values = false;

  bool is_free(std::int64_t i) const {
    return free.empty() || free[static_cast<std::size_t>(i) % free.size()];
  }
};

}  // namespace regauge
