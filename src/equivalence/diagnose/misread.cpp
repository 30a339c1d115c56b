#include "misread.h"

#include <algorithm>
#include <memory>
#include <set>

#include "equivalence/judge/in_place.h"
#include "equivalence/tolerances.h"
#include "io/packings/misread.h"

namespace regauge {
namespace {

using io::Misread;
using io::Misreading;

constexpr double kNearerReread = 0.7;  // of the residual before, where a quantiser was calibrated
constexpr std::int64_t kTellingLayer = 2;  // the last one that tells of all

Mistake mistake_of(Misread what) {
  switch (what) {
    case Misread::no_scales:
      return Mistake::scale_missing;
    case Misread::inverted_scales:
      return Mistake::scale_inverted;
    case Misread::transposed_scales:
      return Mistake::scale_transposed;
    case Misread::other_blocks:
      return Mistake::scale_blocks;
    case Misread::other_zeros:
      return Mistake::zero_point;
    case Misread::other_code_order:
      return Mistake::code_order;
  }
  return Mistake::damaged;
}

// The stored tensors that hold a parameter.
std::set<std::string> holders_of(const ParameterSource& source, const std::string& tensor) {
  std::set<std::string> holders;
  for (const auto& piece : source.pieces(tensor)) holders.insert(piece.holder);
  return holders;
}

// What a mistake makes of all tensors that hold a parameter: the `nth` of those that are known.
Packings all_misread(const Model& model, const std::set<std::string>& holders, std::size_t nth) {
  Packings result;
  for (const std::string& holder : holders) {
    const StoredTensor& stored = model.checkpoint.at(holder);
    if (!stored.packing) return {};
    const auto readings = io::misreadings_of(*stored.packing);
    if (nth >= readings.size()) return {};
    result[holder] = readings[nth].packing;
  }
  return result;
}

std::vector<Misreading> known_misreadings(const Model& model,
                                          const std::set<std::string>& holders) {
  if (holders.empty()) return {};
  const StoredTensor& stored = model.checkpoint.at(*holders.begin());
  return stored.packing ? io::misreadings_of(*stored.packing) : std::vector<Misreading>();
}

TensorResidual residual_of(const ParameterSpec& spec, const Architecture& shape, const Model& a,
                           const Model& b) {
  const ParameterSource from_a(a, shape), from_b(b, shape);
  return compare_tensor_in_place(spec, from_a, from_b);
}

// How near a reading is: 0 for A's numbers, 1 where a quantiser cut some off or was calibrated, so
// that they are not A's nearest ones but much nearer than before; 2 for neither.
int distance(const TensorResidual& now, const TensorResidual& before) {
  if (now.agrees()) return 0;
  const bool tells = now.rounding <= kTooCoarse * now.size && now.residual <= now.size;
  const bool cut_off = now.relation == Relation::hidden && before.relation == Relation::differs;
  const bool nearer = now.residual <= kNearerReread * before.residual &&
                      now.residual <= kMostByCalibration * now.rounding;
  return tells && (cut_off || nearer) ? 1 : 2;
}

}  // namespace

Model with_packings(Model model, const Packings& packings) {
  model.checkpoint =
      model.checkpoint.repacked([&](const StoredTensor& tensor) -> std::shared_ptr<const Packing> {
        const auto found = packings.find(tensor.name);
        return found == packings.end() ? nullptr : found->second;
      });
  return model;
}

namespace {

Model reread_with(const Reread& found, const Model& b, const std::set<std::string>& holders,
                  std::size_t nth) {
  Packings packings = found.packings;
  for (auto& [holder, packing] : all_misread(b, holders, nth)) packings[holder] = packing;
  return with_packings(b, packings);
}

}  // namespace

Reread reread_packed(const Model& a, const Model& b, const Architecture& shape,
                     Progress& progress) {
  Reread result;
  const ParameterSource own(b, b.architecture);
  std::optional<std::string> last;  // what was found before is tried first
  for (const auto& spec : parameter_specs(shape)) {
    if (spec.rows == 1 || (spec.layer > kTellingLayer && result.changes.empty())) continue;
    const auto holders = holders_of(own, spec.name);
    const auto known = known_misreadings(b, holders);
    if (known.empty()) continue;
    const TensorResidual before = residual_of(spec, shape, a, with_packings(b, result.packings));
    if (before.agrees()) continue;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < known.size(); ++i) {
      if (known[i].undoes_itself) order.push_back(i);
    }
    std::ranges::stable_partition(order, [&](std::size_t i) { return known[i].what == last; });
    std::optional<std::size_t> best;
    int least = 2;
    for (const std::size_t nth : order) {
      const TensorResidual now = residual_of(spec, shape, a, reread_with(result, b, holders, nth));
      progress.advance(0);
      if (const int found = distance(now, before); found < least) {
        best = nth;
        least = found;
      }
      if (least == 0) break;
    }
    if (!best) continue;
    Change change;
    change.mistake = mistake_of(known[*best].mistake);
    change.what = known[*best].what + " in B";
    change.repair = "read the codes as they were meant";
    change.undo[spec.name] = nullptr;
    result.changes.push_back(std::move(change));
    for (auto& [holder, packing] : all_misread(b, holders, *best)) {
      result.packings[holder] = packing;
    }
    last = known[*best].what;
  }
  return result;
}

MadeByMisreading::MadeByMisreading(const Model& a, const Model& b, const Architecture& shape) {
  const auto has_codes = [](const StoredTensor& tensor) { return tensor.packing != nullptr; };
  if (std::ranges::none_of(a.checkpoint.tensors(), has_codes)) return;
  a_ = std::make_shared<ParameterSource>(a, shape);
  b_ = std::make_shared<ParameterSource>(b, shape);
}

std::optional<Change> MadeByMisreading::operator()(const ParameterSpec& tensor) const {
  if (a_ == nullptr) return std::nullopt;
  const auto holders = holders_of(*a_, tensor.name);
  const auto known = known_misreadings(a_->model(), holders);
  if (known.empty() || compare_tensor_in_place(tensor, *a_, *b_).agrees()) return std::nullopt;
  for (std::size_t nth = 0; nth < known.size(); ++nth) {
    const Packings packings = all_misread(a_->model(), holders, nth);
    if (packings.empty()) continue;
    const Model misread = with_packings(a_->model(), packings);
    const ParameterSource from_misread(misread, a_->architecture());
    if (!compare_tensor_in_place(tensor, from_misread, *b_).agrees()) continue;
    Change change;
    change.mistake = mistake_of(known[nth].mistake);
    change.what = known[nth].what;
    change.repair = "decode the codes and scales of A again";
    change.undo[tensor.name] = [source = a_, name = tensor.name](const ReadTensor&) {
      return source->read<double>(name);
    };
    return change;
  }
  return std::nullopt;
}

}  // namespace regauge
