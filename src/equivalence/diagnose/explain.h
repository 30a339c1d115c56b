#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "change.h"
#include "equivalence/read_part.h"
#include "regauge/equivalence/compare.h"

namespace regauge {

inline constexpr double kBeyondRounding = 12;  // times a tensor's rounding

// Finds changes that turn tensors of B into those of A, both in the same coordinates.
class Explainer {
 public:
  // `residuals` of A against B, tensor by tensor; of maps as `read` says, if B was moved.
  Explainer(Pair pair, const std::vector<TensorResidual>& residuals, Progress& progress,
            std::optional<ReadPart> read = std::nullopt);

  enum class Where {
    in_place,
    // B was trained on besides: undoing the mistake only brings its tensors much nearer.
    trained,
    // In coordinates that were found with the mistake in them: rows may be out of place, and bases
    // wrong, for want of better.
    recovered
  };
  // Known mistakes, then tensors and rows that stand elsewhere.
  void explain(Where where);
  // Tensors to which an adapter was added that have another base.
  void find_other_base();
  // Where the rest differs, unless that is nearly everywhere.
  void locate_damage();

  const std::vector<Change>& changes() const { return changes_; }
  // Tensors that differ and have no explanation.
  std::vector<std::string> unexplained() const;
  bool all_explained() const { return unexplained().empty(); }

 private:
  struct Sample;

  void try_changes(std::int64_t layer);
  void try_change(Change candidate);
  void find_misplaced_experts();
  void find_misplaced_tensors();
  void find_misplaced_rows();
  void fit_heads();

  bool is_open(const std::string& tensor) const;
  // `factor`: by which the rounding of B grew with its numbers.
  bool matches(const std::string& tensor, const Matrix<double>& value, double factor = 1) const;
  bool matches_all(const Patches& undo) const;
  bool was_found(const std::string& what) const;  // elsewhere in the model
  bool mostly_open() const;
  void accept(Change change);

  Pair pair_;
  Progress& progress_;
  std::optional<ReadPart> read_;
  std::map<std::string, TensorResidual> residuals_;
  std::set<std::string> explained_;
  std::vector<Change> changes_;
  bool loosely_ = false;
};

// Changes that are alike as one cause.
std::vector<Cause> causes_of(const Architecture& architecture, const std::vector<Change>& changes);

}  // namespace regauge
