#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "calculus_system.h"
#include "regauge/arch/architecture.h"

namespace regauge::calculus_system {

// R_t of theory.md section 1 is a sum of fixed matrices times linearly independent functions of the
// distance t.
struct Rotation {
  Dense matrix;        // d_k x d_k
  bool constant_in_t;  // its function of t is 1
};
std::vector<Rotation> rotations(const Attention& attention);

// The rows of T5's table that some distance falls into. In bidirectional models row buckets/2, for
// a key at distance 0 after the query, is not among them; a position table bounds distances.
std::set<std::int64_t> reached_buckets(const Architecture& model, std::int64_t layer);

// A table with the affine hull of the sinusoids at positions first .. T-1, well conditioned. The
// frequencies differ, so the hull has dimension min(T - 1 - first, D), however small its singular
// values are.
Dense sinusoidal_hull(const Architecture& architecture, std::int64_t first);

}  // namespace regauge::calculus_system
