#include "honest_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <memory>
#include <optional>

#include "action/moved_model.h"
#include "action/moved_slices.h"
#include "equivalence/diagnose/change.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr int kFromA = 0, kFromB = 1;  // draws; in later ones both are rounded elsewhere
// In steps: what is nearer to a number of the grid may lie on it and be off for another reason.
constexpr double kOnGrid = 0.05;

// A tensor, or a slice of it, as a ParameterSource reads it.
struct Place {
  std::string name;
  std::int64_t layer = -1;
  std::int64_t slice = ParameterSource::kAll;

  auto operator<=>(const Place&) const = default;
};

// The numbers as the file of a source would hold them: floats of its type, or multiples of the
// step of a block above or below those that it holds.
Matrix<double> to_nearest(const ParameterSource& source, const Place& at, Matrix<double> value) {
  const std::string& name = at.name;
  const StoredTensor* tensor = source.stored(name);
  if (tensor == nullptr) return value;
  if (is_floating(tensor->dtype)) {
    const std::span numbers(value.data(), static_cast<std::size_t>(value.size()));
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(stored_bytes(tensor->dtype, value.size())));
    encode<double>(tensor->dtype, numbers, bytes);
    decode<double>(tensor->dtype, bytes, numbers);
    return value;
  }
  const Matrix<double> held = source.read<double>(name, at.slice);
  const Matrix<double> steps = (12 * source.variances<double>(name, at.slice)).cwiseSqrt();
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    const double step = steps.data()[i], before = held.data()[i];
    double& number = value.data()[i];
    if (step > 0) number = before + step * std::round((number - before) / step);
  }
  return value;
}

// In how many slices both hold a tensor.
std::int64_t common_slices(const ParameterSource& a, const ParameterSource& b,
                           const std::string& name) {
  return a.slices(name) == b.slices(name) ? a.slices(name) : 1;
}

// A model moved by an element, a layer of it in memory but for experts, of which there is one. They
// are asked for slice by slice if `other` has them so, too.
class Moved {
 public:
  Moved(const ParameterSource& source, const ParameterSource& other, const Symmetry& symmetry,
        const Element& element)
      : source_(source),
        other_(other),
        symmetry_(symmetry),
        element_(element),
        model_(source, symmetry, element) {}

  Matrix<double> read(const Place& at) {
    if (!plan_ || at.layer != plan_->layer) begin(at.layer);
    if (at.slice == ParameterSource::kAll) return tensors_.at(at.name);
    if (sliced_ != at.name) {
      const auto tensor =
          std::find_if(plan_->matrices.begin(), plan_->matrices.end(),
                       [&](const TensorPlan& candidate) { return candidate.spec.name == at.name; });
      slices_.emplace(source_, *tensor, source_.slices(at.name), *executor_);
      sliced_ = at.name;
    }
    return slices_->read(at.slice);
  }

 private:
  void begin(std::int64_t layer) {
    sliced_.clear();
    slices_.reset();
    plan_ = make_layer_plan(symmetry_, element_, layer);
    executor_.emplace(symmetry_, element_);
    executor_->begin(
        *plan_, [&](const TensorPlan& tensor) { return source_.read<double>(tensor.spec.name); });
    tensors_ = model_.layer(layer, [&](const std::string& matrix) {
      return common_slices(source_, other_, matrix) == 1;
    });
  }

  const ParameterSource& source_;
  const ParameterSource& other_;
  const Symmetry& symmetry_;
  Element element_;
  MovedModel model_;
  std::optional<LayerPlan> plan_;
  std::optional<Executor> executor_;
  Parameters<double> tensors_;
  std::string sliced_;
  std::optional<MovedSlices<double>> slices_;
};

// What was made stays as long as there is room, vectors always; of the rest the last one, as its
// numbers and their variances are asked for one after the other.
class Held {
 public:
  template <class Make>
  const Matrix<double>& get(const Place& at, const Make& make) {
    if (const auto found = held_.find(at); found != held_.end()) return found->second;
    if (last_place_ == at) return last_;
    Matrix<double> value = make(at);
    if (value.rows() == 1 || numbers_ + value.size() <= kNumbers) {
      numbers_ += value.size();
      return held_.emplace(at, std::move(value)).first->second;
    }
    last_place_ = at;
    return last_ = std::move(value);
  }
  static constexpr std::int64_t kNumbers = std::int64_t{1} << 25;

 private:
  std::map<Place, Matrix<double>> held_;
  std::int64_t numbers_ = 0;
  Place last_place_;
  Matrix<double> last_;
};

// `value(place)` in the place of every tensor, slice by slice where both have it so. The numbers of
// a block keep its step.
template <class Value>
Patches everywhere(const ParameterSource& source, const ParameterSource& other,
                   const Value& value) {
  const auto held = std::make_shared<Held>();
  const auto read = [=](const Place& at) { return Matrix<double>(held->get(at, value)); };
  Patches patches;
  for (const auto& spec : parameter_specs(source.architecture())) {
    const Place all{spec.name, spec.layer};
    Patch patch([=](const ReadTensor&) { return read(all); });
    if (spec.rows > 1 && common_slices(source, other, spec.name) > 1) {
      patch.make_slice = [=](std::int64_t slice) { return read({all.name, all.layer, slice}); };
    }
    const StoredTensor* tensor = source.stored(spec.name);
    const bool blocks = tensor != nullptr && is_quantised(tensor->dtype);
    patches[spec.name] = blocks ? changing_each(std::move(patch)) : std::move(patch);
  }
  if (parameter_count(source.architecture()) > Held::kNumbers) return patches;
  // All of it layer by layer, before others ask for it in their own order.
  auto specs = parameter_specs(source.architecture());
  std::ranges::stable_sort(specs, {}, &ParameterSpec::layer);
  for (const auto& spec : specs) {
    const bool whole = common_slices(source, other, spec.name) == 1;
    if (whole) held->get({spec.name, spec.layer}, value);
  }
  return patches;
}

// The other model in the place of a source's numbers, rounded as its file rounds.
Patches rounded(const Symmetry& symmetry, const ParameterSource& source,
                const ParameterSource& other, const Element& element) {
  const auto moved = std::make_shared<Moved>(other, source, symmetry, element);
  return everywhere(source, other, [&source, moved](const Place& at) {
    return to_nearest(source, at, moved->read(at));
  });
}

// What rounding adds to a value on a grid that lies a random part of a step beside that of the
// source's file: numbers that are alike have errors that are alike, as in the rows of all tokens
// that were never trained. What lies on the grid itself has an error of its own.
Matrix<double> errors_elsewhere(const ParameterSource& source, const Place& at,
                                const Matrix<double>& value, const std::string& stream) {
  const Matrix<double> steps = (12 * source.variances<double>(at.name, at.slice)).cwiseSqrt();
  Matrix<double> errors = to_nearest(source, at, value) - value;
  Random random(0, "rounding/" + stream);
  const double moved = random.uniform();
  for (Eigen::Index i = 0; i < errors.size(); ++i) {
    const double step = steps.data()[i], own = random.uniform();
    double& error = errors.data()[i];
    if (step == 0) {
      error = 0;
      continue;
    }
    const double part = error / step + moved;
    error = step * (std::abs(error) < kOnGrid * step ? own - 0.5 : part - std::round(part));
  }
  return errors;
}

// A source's numbers, or those of the other model in their place, as if its file were written
// again. Where the other file is the coarser one its numbers do not say how this one rounds.
Patches written_again(const ParameterSource& source, const ParameterSource& other,
                      const std::shared_ptr<Moved>& moved, bool is_base, const std::string& name) {
  return everywhere(source, other, [&source, &other, moved, is_base, name](const Place& at) {
    const bool all = at.slice == ParameterSource::kAll;
    const std::string stream =
        fmt::format("{}/{}{}", name, at.name, all ? "" : fmt::format("/{}", at.slice));
    const StoredTensor* of_source = source.stored(at.name);
    const StoredTensor* of_other = other.stored(at.name);
    const bool finer = of_source != nullptr && of_other != nullptr &&
                       rounding_of(*of_source) < rounding_of(*of_other);
    Matrix<double> base = is_base ? source.read<double>(at.name, at.slice) : moved->read(at);
    if (finer) {
      return regauge::perturbed(stream, std::move(base),
                                source.variances<double>(at.name, at.slice));
    }
    base += errors_elsewhere(source, at, is_base ? moved->read(at) : base, stream);
    return base;
  });
}

Patches patches_of_a(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                     const ParameterSource& b, int draw) {
  if (draw == kFromA) return {};
  if (draw == kFromB) return rounded(symmetry, a, b, a_from_b);
  const auto moved = std::make_shared<Moved>(b, a, symmetry, a_from_b);
  return written_again(a, b, moved, true, fmt::format("a/{}", draw));
}

Patches patches_of_b(const Symmetry& symmetry, const Element& b_from_a, const ParameterSource& a,
                     const ParameterSource& b, int draw) {
  if (draw == kFromA) return rounded(symmetry, b, a, b_from_a);
  if (draw == kFromB) return {};
  const auto moved = std::make_shared<Moved>(a, b, symmetry, b_from_a);
  return written_again(b, a, moved, false, fmt::format("b/{}", draw));
}

}  // namespace

HonestCopy::HonestCopy(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                       const ParameterSource& b, int draw)
    : a_(a.model(), a.architecture(), patches_of_a(symmetry, a_from_b, a, b, draw)),
      b_(b.model(), b.architecture(),
         patches_of_b(symmetry, inverse(symmetry, a_from_b), a, b, draw)) {}

}  // namespace regauge
