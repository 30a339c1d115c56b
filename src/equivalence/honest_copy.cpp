#include "honest_copy.h"

#include <fmt/format.h>

#include <cmath>

#include "action/moved_model.h"
#include "equivalence/diagnose/change.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr int kFromA = 0, kFromB = 1;  // draws; later ones are noise

// The numbers as the file of a source would hold them: floats of its type, or multiples of the
// step of a block above or below those that it holds.
Matrix<double> to_nearest(const ParameterSource& source, const std::string& name,
                          Matrix<double> value) {
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
  const Matrix<double> held = source.read<double>(name);
  const Matrix<double> steps = (12 * source.variances<double>(name)).cwiseSqrt();
  for (Eigen::Index i = 0; i < value.size(); ++i) {
    const double step = steps.data()[i], at = held.data()[i];
    double& number = value.data()[i];
    if (step > 0) number = at + step * std::round((number - at) / step);
  }
  return value;
}

// A model moved by an element, a layer of it in memory.
class Moved {
 public:
  Moved(const ParameterSource& source, const Symmetry& symmetry, Element element)
      : model_(source, symmetry, std::move(element)) {}

  const Matrix<double>& read(const std::string& name, std::int64_t layer) {
    if (layer != layer_ || tensors_.empty()) {
      tensors_ = model_.layer(layer);
      layer_ = layer;
    }
    return tensors_.at(name);
  }

 private:
  MovedModel model_;
  std::int64_t layer_ = -1;
  Parameters<double> tensors_;
};

// `value(name, layer)` in the place of every tensor; the last one is kept, as its numbers and their
// variances are asked for one after the other. The numbers of a block keep its step.
template <class Value>
Patches everywhere(const ParameterSource& source, const Value& value) {
  struct Last {
    std::string name;
    Matrix<double> value;
  };
  const auto last = std::make_shared<Last>();
  Patches patches;
  const Architecture& architecture = source.architecture();
  for (std::int64_t layer = -1; layer < architecture.layers; ++layer) {
    for (const auto& name : tensors_of(architecture, layer)) {
      Patch patch([=](const ReadTensor&) {
        if (last->name != name) *last = {name, value(name, layer)};
        return last->value;
      });
      const StoredTensor* tensor = source.stored(name);
      const bool blocks = tensor != nullptr && is_quantised(tensor->dtype);
      patches[name] = blocks ? changing_each(std::move(patch)) : std::move(patch);
    }
  }
  return patches;
}

// The other model in the place of a source's numbers, rounded as its file rounds.
Patches rounded(const Symmetry& symmetry, const ParameterSource& source,
                const ParameterSource& other, const Element& element) {
  const auto moved = std::make_shared<Moved>(other, symmetry, element);
  return everywhere(source, [&source, moved](const std::string& name, std::int64_t layer) {
    return to_nearest(source, name, moved->read(name, layer));
  });
}

Patches patches_of_a(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                     const ParameterSource& b, int draw) {
  if (draw == kFromA) return {};
  if (draw == kFromB) return rounded(symmetry, a, b, a_from_b);
  return everywhere(a, [&a, draw](const std::string& name, std::int64_t) {
    return regauge::perturbed(fmt::format("a/{}/{}", draw, name), a.read<double>(name),
                              a.variances<double>(name));
  });
}

Patches patches_of_b(const Symmetry& symmetry, const Element& b_from_a, const ParameterSource& a,
                     const ParameterSource& b, int draw) {
  if (draw == kFromA) return rounded(symmetry, b, a, b_from_a);
  if (draw == kFromB) return {};
  const auto moved = std::make_shared<Moved>(a, symmetry, b_from_a);
  return everywhere(b, [&b, moved, draw](const std::string& name, std::int64_t layer) {
    return regauge::perturbed(fmt::format("b/{}/{}", draw, name), moved->read(name, layer),
                              b.variances<double>(name));
  });
}

}  // namespace

HonestCopy::HonestCopy(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                       const ParameterSource& b, int draw)
    : a_(a.model(), a.architecture(), patches_of_a(symmetry, a_from_b, a, b, draw)),
      b_(b.model(), b.architecture(),
         patches_of_b(symmetry, inverse(symmetry, a_from_b), a, b, draw)) {}

}  // namespace regauge
