#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "similarity_rows.h"

namespace regauge {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Prices v_j of the columns. They only rise; everything below rests on that.
class Prices {
 public:
  explicit Prices(std::int64_t size)
      : exact_(static_cast<std::size_t>(size)), below_(static_cast<std::size_t>(size)) {}

  double operator[](std::int32_t j) const { return exact_[static_cast<std::size_t>(j)]; }
  void raise_to(std::int32_t j, double price);
  const std::vector<double>& exact() const { return exact_; }
  const float* below() const { return below_.data(); }  // the largest floats <= the prices

 private:
  std::vector<double> exact_;
  std::vector<float> below_;
};

struct Candidate {
  std::int32_t column;
  float similarity;
};

// For each row i the columns of largest S_ij - v_j at some time, and a bound that S_ij - v_j of all
// others will never exceed: prices rise. So one need not look at a whole row until the bound is
// passed, and what is found on the lists is exact. A list is empty until it is needed, unless rows
// are produced anew for each look.
class Candidates {
 public:
  // `rows` and `prices` must outlive this. Prices are 0 now, the bounds begin at the largest S_ij.
  // Throws UsageError for what is not finite.
  Candidates(SimilarityRows& rows, const Prices& prices, std::int64_t per_row, Progress& progress);

  std::int64_t size() const { return rows_.size(); }
  std::int64_t per_row() const { return per_row_; }
  SimilarityRows& rows() { return rows_; }
  // The column of the largest S_ij.
  Candidate first_choice(std::int32_t row) const {
    return first_choice_[static_cast<std::size_t>(row)];
  }
  // per_row() columns, or none.
  std::span<const Candidate> of(std::int32_t row) const {
    return {entries_.data() + row * per_row_,
            static_cast<std::size_t>(listed_[static_cast<std::size_t>(row)] ? per_row_ : 0)};
  }
  // No column off the list has S_ij - v_j above this; -infinity if there is none.
  double bound(std::int32_t row) const { return bound_[static_cast<std::size_t>(row)]; }

  // Makes the list of a row anew at the present prices.
  void refresh(std::int32_t row);
  // The same with the `count` best columns, of which the list keeps the best: the others are
  // returned only, with the bound for what is not among them. Valid until the next call.
  struct Wide {
    std::span<const Candidate> candidates;
    double bound;
  };
  Wide widen(std::int32_t row, std::int64_t count);

  // max_j S_ij - v_j over the whole row.
  double best(std::int32_t row);
  // At least best(row), for no more than a look at the list.
  double ceiling(std::int32_t row) const;
  std::int64_t looks() const { return looks_; }  // at whole rows, so far

 private:
  struct Valued {
    double value;
    Candidate candidate;
  };
  void find_peaks(const float* similarity);
  bool find_peaks_at_no_price(const float* similarity);
  void collect(std::int32_t row, const float* similarity, float threshold);
  void keep_best(std::size_t count);
  double select(std::int32_t row, std::int64_t count);
  void store(std::int32_t row);
  double best_listed(std::int32_t row) const;

  SimilarityRows& rows_;
  const Prices& prices_;
  std::int64_t per_row_;
  std::vector<Candidate> first_choice_;
  std::vector<Candidate> entries_;
  std::vector<bool> listed_;
  std::vector<double> bound_;
  std::vector<float> peaks_;
  std::vector<float> ordered_peaks_;
  std::vector<Valued> selected_;
  std::vector<Candidate> wide_;
  std::int64_t looks_ = 0;
};

}  // namespace regauge
