#include "nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "arch/names.h"
#include "element_noise.h"
#include "equivalence/judge/compare_layers.h"
#include "equivalence/judge/directions.h"
#include "equivalence/judge/products.h"
#include "equivalence/recover/recover.h"
#include "equivalence/towers/towers.h"
#include "honest_copy.h"
#include "io/parts.h"
#include "layer_tables.h"
#include "regauge/base/error.h"
#include "rounding.h"
#include "tolerances.h"

namespace regauge {
namespace {

constexpr double kNearer = 2;  // times: what an element has to bring a tensor
constexpr double kNear = 0.5;  // of a size: nearer than what is unrelated
// Multiplications that a verdict may take to apply the element to all of B: about a second's.
constexpr double kPlainWork = 5e10;

bool brings_a_matrix_near(const std::vector<TensorResidual>& in_place,
                          const std::vector<TensorResidual>& moved) {
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const bool nearer = in_place[i].residual > kNearer * moved[i].residual;
    if (!moved[i].single_row && nearer) return true;
  }
  return false;
}

double plain_work(const Architecture& a) {
  return static_cast<double>(parameter_count(a)) * static_cast<double>(a.width);
}

struct Found {
  Recovery recovery;
  std::vector<TensorResidual> residuals;
};

// Finds and judges elements between two files, and between honest copies that are stored as they
// are.
class Search {
 public:
  Search(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
         const std::vector<TensorResidual>& in_place, Progress& progress)
      : symmetry_(symmetry),
        a_(a),
        b_(b),
        stay_(spaces_that_stay(symmetry, in_place)),
        progress_(progress) {}

  Found find(const ParameterSource& a, const ParameterSource& b, double rounding,
             const Layers& judged = {}) {
    const bool plain = plain_work(symmetry_.architecture) <= kPlainWork;
    const std::optional<std::uint64_t> known =
        plain ? 0 : unless_others_find([&] { return seed(); });
    Found found{recover(symmetry_, a, b, rounding, progress_), {}};
    if (!known) throw Parts::ShareDone();
    found.recovery.a_from_b = without_noise(symmetry_, found.recovery.a_from_b, rounding, stay_);
    const Element& element = found.recovery.a_from_b;
    found.residuals =
        plain ? compare_layers(symmetry_, element, a, b, judged, progress_)
              : compare_layers_sketched(symmetry_, element, a, b, *known, judged, progress_);
    return found;
  }

 private:
  std::uint64_t seed() {
    if (!seed_) seed_ = directions_seed(a_, b_, progress_);
    return *seed_;
  }

  const Symmetry& symmetry_;
  const ParameterSource& a_;
  const ParameterSource& b_;
  std::set<std::string> stay_;
  std::optional<std::uint64_t> seed_;  // of the files
  Progress& progress_;
};

// The most that was found of a tensor in honest copies.
struct Honest {
  double excess = 0, residual = 0;
  double deviation = 0;  // the excess of a vector, in the units of its numbers
  double share = 0;      // of the residual in the tensor's size
};

// How many times as much a tensor of B stands out as its like in the worst honest copy may.
double beyond_honest(const TensorResidual& r, const Honest& honest) {
  const double rounding = std::max(r.rounding, honest.residual);
  // What rounding explains of a vector is not the same in every copy.
  const bool plain_vector = r.single_row && r.standing_out.empty();
  const double excess = plain_vector
                            ? r.excess * r.rounding / std::max(r.rounding, honest.deviation)
                            : r.excess / honest.excess;
  return std::max(excess, r.residual / rounding) / kLikeHonest;
}

bool is_hopeless(const TensorResidual& r) { return r.size > 0 && r.rounding > kHopeless * r.size; }

bool is_in_doubt(const TensorResidual& r) { return !r.agrees() && !r.by_entry; }

// Sub-layers (they share the maps that an element has inside a layer) in which an honest copy is
// off by a good deal of a matrix.
std::set<std::string> lost_parts(const std::vector<TensorResidual>& residuals,
                                 const std::vector<Honest>& most) {
  std::set<std::string> parts;
  for (std::size_t i = 0; i < most.size(); ++i) {
    const TensorResidual& r = residuals[i];
    if (!r.single_row && most[i].share > kHopeless) parts.insert(sublayer_of(r.tensor));
  }
  return parts;
}

// The element is as certain as was assumed: what differs differs, but for what chance may do.
bool is_certain(const std::vector<Honest>& most) {
  return std::all_of(most.begin(), most.end(), [](const Honest& h) { return h.excess <= 1; });
}

// As many honest copies as the decision takes: more where a few more could turn it. Once it is
// known that the element is not certain, layers without doubt have no more to say.
std::vector<Honest> honest_copies(const Symmetry& symmetry, const ParameterSource& a,
                                  const ParameterSource& b, double rounding, Search& search,
                                  const Found& found) {
  std::vector<Honest> most(found.residuals.size());
  const auto is_close = [&] {
    for (std::size_t i = 0; i < most.size(); ++i) {
      const TensorResidual& r = found.residuals[i];
      if (!is_in_doubt(r)) continue;
      const double beyond = beyond_honest(r, most[i]);
      if (beyond > 1 && beyond <= (r.single_row ? kCloseVector : kCloseToHonest)) return true;
    }
    return false;
  };
  Layers in_doubt;
  for (const TensorResidual& r : found.residuals) {
    if (is_in_doubt(r)) in_doubt.insert(symmetry.index->tensors.at(r.tensor).layer);
  }
  for (int draw = 0; draw < kHonestCopies || (draw < kMostHonestCopies && is_close()); ++draw) {
    const HonestCopy copy(symmetry, found.recovery.a_from_b, a, b, draw);
    const Layers judged = is_certain(most) ? Layers() : in_doubt;
    const Found honest = search.find(copy.a(), copy.b(), rounding, judged);
    for (std::size_t i = 0; i < most.size(); ++i) {
      const TensorResidual& r = honest.residuals[i];
      most[i].excess = std::max(most[i].excess, r.excess);
      most[i].residual = std::max(most[i].residual, r.residual);
      most[i].deviation = std::max(most[i].deviation, r.excess * r.rounding);
      // Of its own size where A's and B's are equal, whose size was not needed.
      const double size = found.residuals[i].size > 0 ? found.residuals[i].size : r.size;
      if (r.residual > 0) most[i].share = std::max(most[i].share, r.residual / size);
    }
  }
  return most;
}

// An element that was read off rounded numbers is not exact, and how far it is off depends on the
// element and on the types. Honest copies that are stored as these two are tell: a tensor that
// looks like the same tensor of an honest copy agrees. Returns what remains in doubt: parts of
// which honest copies know next to nothing, unless a tensor of another part stands out.
std::vector<std::string> compare_with_honest_copies(const Symmetry& symmetry,
                                                    const ParameterSource& a,
                                                    const ParameterSource& b, double rounding,
                                                    Search& search, Found& found) {
  const auto most = honest_copies(symmetry, a, b, rounding, search, found);
  std::vector<std::string> limits;
  const bool certain = is_certain(most);
  const std::set<std::string> lost = lost_parts(found.residuals, most);
  bool stands_out = false;
  for (std::size_t i = 0; i < most.size(); ++i) {
    TensorResidual& r = found.residuals[i];
    if (!is_in_doubt(r)) continue;
    const double beyond = beyond_honest(r, most[i]);
    if (certain) {
      if (beyond <= 1) r.relation = Relation::hidden;
      continue;
    }
    r.rounding = std::max(r.rounding, most[i].residual);
    if (beyond <= 1) {
      const double hidden = std::max(r.rounding, r.residual);
      const bool coarse = hidden > most_hidden(a, b, r.tensor) * r.size;
      r.relation = coarse ? Relation::hidden : Relation::both_round;
      r.excess = beyond;
      r.standing_out.clear();
      r.like_honest = true;
    } else if (lost.contains(sublayer_of(r.tensor)) || is_hopeless(r)) {
      limits.push_back(fmt::format(
          "{}: honest copies, moved and stored as B is, are not recognised either", r.tensor));
    } else if (beyond > kCloseToHonest) {
      stands_out = true;
    }
  }
  if (stands_out) limits.clear();
  if (!certain) hide_coarse_products(a, b, found.residuals);
  return limits;
}

// All but gains is equal where it stands: then no element explains a gain.
bool only_gains_differ(const std::vector<TensorResidual>& in_place) {
  return std::all_of(in_place.begin(), in_place.end(), [](const TensorResidual& r) {
    return r.relation == Relation::equal || (r.single_row && r.tensor.ends_with(".gain"));
  });
}

}  // namespace

std::int64_t differing(const std::vector<TensorResidual>& residuals) {
  return std::count_if(residuals.begin(), residuals.end(),
                       [](const TensorResidual& r) { return r.relation == Relation::differs; });
}

namespace {

Nearest brought_near(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                     Progress& progress, Doubt doubt) {
  if (!symmetry.architecture.beside.empty()) {
    return bring_towers_near(symmetry, a, b, progress, doubt);
  }
  Nearest result;
  result.residuals = compare_in_place(a, b, progress);
  if (all_agree(result.residuals)) return result;
  try {
    // One of the two was made from the other, or both from a third: the noise is that of the one
    // that is coarser only if the finer one was not made from it.
    const double rounding_a = coarsest_rounding(a), rounding_b = coarsest_rounding(b);
    const double finer = std::min(rounding_a, rounding_b),
                 coarser = std::max(rounding_a, rounding_b);
    Search search(symmetry, a, b, result.residuals, progress);
    Found found = search.find(a, b, finer);
    if (!all_agree(found.residuals) && coarser > finer) {
      Found other = search.find(a, b, coarser);
      if (disagreeing(other.residuals) < disagreeing(found.residuals)) found = std::move(other);
    }
    result.limits = found.recovery.limits;
    const bool near = brings_a_matrix_near(result.residuals, found.residuals);
    const bool unsure = std::any_of(found.residuals.begin(), found.residuals.end(), is_in_doubt);
    if (doubt == Doubt::resolve && unsure && near) {
      const auto limits = compare_with_honest_copies(symmetry, a, b, coarser, search, found);
      result.limits.insert(result.limits.end(), limits.begin(), limits.end());
    }
    if (differing(found.residuals) >= differing(result.residuals)) return result;
    // Of a model that was changed where it stands, vectors may fit another element by chance.
    if (!all_agree(found.residuals) && !near) return result;
    // An element that moves nothing beyond rounding explains nothing.
    auto movements = describe(symmetry, found.recovery.a_from_b, found.residuals, a, b);
    if (movements.empty()) return result;
    result.residuals = std::move(found.residuals);
    result.a_from_b = std::move(found.recovery.a_from_b);
    result.movements = std::move(movements);
  } catch (const NoStandardForm& error) {
    if (!only_gains_differ(result.residuals)) result.limits.emplace_back(error.what());
  }
  return result;
}

}  // namespace

Nearest bring_near(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   Progress& progress, Doubt doubt) {
  Nearest result = brought_near(symmetry, a, b, progress, doubt);
  if (auto alike = alike_by_token(symmetry, a, b, result)) result.limits.push_back(*alike);
  return result;
}

bool mostly_near(const std::vector<TensorResidual>& residuals) {
  std::int64_t near = 0, all = 0;
  for (const auto& r : residuals) {
    if (r.single_row) continue;
    ++all;
    if (r.agrees() || r.residual <= kNear * r.size) ++near;
  }
  return 2 * near > all;
}

}  // namespace regauge
