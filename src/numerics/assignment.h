#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "regauge/base/progress.h"

namespace regauge {

// Where a matrix of similarities comes from: S (n x n, row-major float), S_ij large if row i and
// column j belong together. To minimise a cost, give its negative.
class Similarity {
 public:
  // Writes the rows [first, first + count) to `rows`, count x n.
  using Produce = std::function<void(std::int64_t first, std::int64_t count, float* rows)>;
  enum class Memory {
    keep,      // every row is produced once: 4 n^2 bytes
    recompute  // rows are produced again when they are needed: 4 n kBlock bytes. The blocks are
               // always the same, and must come out with the same bits each time
  };
  static constexpr std::int64_t kBlock = 64;  // rows asked for at a time

  // The matrix is used where it is and must outlive the solver. Throws UsageError if size is
  // negative or above 2^31 - 1, here and below.
  Similarity(std::int64_t size, const float* matrix);
  Similarity(std::int64_t size, Produce produce, Memory memory = Memory::keep);

  std::int64_t size() const { return size_; }
  const float* matrix() const { return matrix_; }  // or nullptr
  const Produce& produce() const { return produce_; }
  Memory memory() const { return memory_; }

 private:
  std::int64_t size_;
  const float* matrix_ = nullptr;
  Produce produce_;
  Memory memory_ = Memory::keep;
};

// A permutation with the proof of how good it is. For the aligned model, neuron i is B's neuron
// column_of_row[i].
struct Assignment {
  std::vector<std::int64_t> column_of_row;
  double value = 0;  // sum_i S(i, column_of_row[i])

  // The certificate: u_i + v_j >= S_ij for all i, j, so that no permutation is worth more than
  // value + gap = sum u + sum v. Matched pairs of an optimal assignment have equality; sums and
  // differences are rounded as doubles of S's magnitude are.
  std::vector<double> row_potential;     // u
  std::vector<double> column_potential;  // v
  double gap = 0;
};

struct AssignmentOptions {
  // Stop as soon as gap <= relative_gap * |value|; 0: optimal, with a gap of rounding only.
  double relative_gap = 0;
  // Candidates kept per row, 8 bytes each; more of them cost time, fewer cost looks at whole rows.
  std::int64_t candidates = 32;
};

// The permutation of largest value. Progress counts rows: each is read once and matched once.
// Equal similarities give equal results. Throws UsageError for NaN and infinities in S, for a
// negative or NaN relative_gap and for fewer than 2 candidates.
Assignment assign(const Similarity& similarity, const AssignmentOptions& options = {},
                  Progress& progress = Progress::silent());

struct CertificateCheck {
  double violation = 0;  // max_ij S_ij - u_i - v_j, at least 0: how far the bound is from proved
  double gap = 0;        // sum u + sum v - value, value summed anew
  bool permutation = false;
};

// Reads all of S again; needs nothing of how the assignment was found.
CertificateCheck check_certificate(const Similarity& similarity, const Assignment& assignment,
                                   Progress& progress = Progress::silent());

}  // namespace regauge
