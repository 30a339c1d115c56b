#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "adapted.h"
#include "regauge/equivalence/diagnosis.h"

namespace regauge {

// A known mistake on the tensors of one place, and how it is undone.
struct Change {
  Mistake mistake = Mistake::damaged;
  std::string what;                // said after the tensors; equal wherever the same was done
  std::string repair;              // what `undo` does
  std::vector<std::string> parts;  // of what is done to all or to some: which this belongs to
  Patches undo;  // B's tensors as they should have been; no function where that is lost
  Patches make;  // A's as the mistake leaves them; none where that takes more than A
};

// Two models in the same canonical form; B is to be explained.
struct Pair {
  Architecture architecture;
  ReadTensor a, b;
  bool halves = false;                            // B's file stores rotary pairs as halves
  std::optional<Adapted> adapted = std::nullopt;  // if A is a base and an adapter
  // What a mistake with A's codes and scales made of a tensor; none where B was moved.
  std::function<std::optional<Change>(const ParameterSpec& tensor)> misread = nullptr;
};

// What may have happened to the tensors of one layer (-1: embedding and head).
void add_adapter_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_rotary_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_gain_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_centring_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_layer_scale_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_gate_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_qkv_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_transpose_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_post_gain_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_expert_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_scale_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);
void add_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes);  // all these
// B's tensor has what the adapter adds, above other numbers; what they are is lost.
std::optional<Change> other_base(const Pair& pair, const std::string& tensor);
// Two layers in each other's place; nothing if they are not of one shape.
std::optional<Change> layer_exchange(const Pair& pair, std::int64_t first, std::int64_t second);

// Names of the canonical tensors of a layer.
std::vector<std::string> tensors_of(const Architecture& architecture, std::int64_t layer);
bool has_tensor(const Architecture& architecture, const std::string& name);

// Column c of the result is column order[c].
using Order = std::vector<std::int64_t>;
Matrix<double> reordered(const Matrix<double>& value, const Order& order);
Order inverse(const Order& order);
Order compose(const Order& first, const Order& then);  // reordered by `first`, then by `then`
bool is_identity(const Order& order);
// Where the columns of `heads` heads lie when the first `dims` of each, in adjacent pairs, are
// stored as halves.
Order halves_order(std::int64_t cols, std::int64_t heads, std::int64_t dims);

// A matrix of the same shape: its numbers in row-major order are those of `value` in column-major
// order, or the reverse.
Matrix<double> sideways(const Matrix<double>& value, bool back);

// The tensor of the same name with its numbers moved.
Patch changed(const std::string& name, std::function<Matrix<double>(const Matrix<double>&)> how);
// The same patch, which changes each number in its place, or mixes numbers.
Patch changing_each(Patch patch);
Patch mixing(Patch patch);
// First the ones, which mix numbers, then the others on top.
Patches stacked(const Patches& first, const Patches& then);

}  // namespace regauge
