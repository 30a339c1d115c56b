#include "honest_copy.h"

#include <fmt/format.h>

#include "change.h"
#include "regauge/action/moved_model.h"
#include "rounding.h"

namespace regauge {

class HonestCopy::Moved {
 public:
  Moved(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a)
      : model_(a, symmetry, inverse(symmetry, a_from_b)) {}

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

namespace {

// Every tensor with noise of its own rounding; `value` is its value before.
template <class Value>
Patches with_noise(const ParameterSource& source, int draw, const char* side, const Value& value) {
  Patches patches;
  const Architecture& architecture = source.architecture();
  for (std::int64_t layer = -1; layer < architecture.layers; ++layer) {
    for (const auto& name : tensors_of(architecture, layer)) {
      const std::string noise = fmt::format("{}/{}/{}", side, draw, name);
      patches[name] = Patch([=, &source](const ReadTensor&) {
        return regauge::perturbed(noise, value(name, layer), source.variances<double>(name));
      });
    }
  }
  return patches;
}

}  // namespace

HonestCopy::HonestCopy(const Symmetry& symmetry, const Element& a_from_b, const ParameterSource& a,
                       const ParameterSource& b, int draw)
    : moved_(std::make_shared<Moved>(symmetry, a_from_b, a)),
      a_(a.model(), a.architecture(),
         with_noise(a, draw, "a",
                    [&a](const std::string& name, std::int64_t) { return a.read<double>(name); })),
      b_(b.model(), b.architecture(),
         with_noise(b, draw, "b", [moved = moved_](const std::string& name, std::int64_t layer) {
           return moved->read(name, layer);
         })) {}

}  // namespace regauge
