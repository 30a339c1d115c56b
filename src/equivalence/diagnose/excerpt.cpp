#include "excerpt.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "arch/names.h"

namespace regauge {
namespace {

constexpr std::int64_t kTokens = 4;  // for each coordinate

// The layer can stand in the place of the first one: its tensors have the same names and shapes.
bool fits_in_front(const Architecture& shape, std::int64_t layer) {
  const auto first = parameter_specs(shape.with_layers_like(0, 1));
  const auto own = parameter_specs(shape.with_layers_like(layer, 1));
  return std::ranges::equal(first, own, [](const ParameterSpec& a, const ParameterSpec& b) {
    return a.name == b.name && a.rows == b.rows && a.cols == b.cols;
  });
}

}  // namespace

Architecture excerpt_of(const Architecture& shape, std::int64_t layer) {
  const bool one_layer = shape.layers_stand_alone() && fits_in_front(shape, layer);
  Architecture excerpt = one_layer ? shape.with_layers_like(layer, 1) : shape;
  excerpt.vocabulary = std::min(shape.vocabulary, kTokens * shape.width);
  if (excerpt.dropped_token >= excerpt.vocabulary) excerpt.dropped_token = -1;
  if (excerpt.vector_row >= excerpt.vocabulary) excerpt.vector_row = 0;
  return excerpt;
}

ParameterSource ExcerptReader::operator()(const Architecture& shape, const Patches& patches,
                                          std::int64_t layer) {
  const Architecture excerpt = excerpt_of(shape, layer);
  std::set<std::string> held;
  for (const auto& spec : parameter_specs(model_.architecture)) held.insert(spec.name);
  // Patches may need more of a tensor than the excerpt has of it.
  const auto whole = std::make_shared<ParameterSource>(model_, shape);
  Patches cut;
  for (const auto& spec : parameter_specs(excerpt)) {
    const bool only = spec.layer >= 0 && excerpt.layers == 1;
    const std::string name = only ? name_of_layer(layer, name_in_layer(spec.name)) : spec.name;
    const auto patch = patches.find(name);
    if (patch != patches.end()) {
      const auto made = std::make_shared<std::optional<Matrix<double>>>();  // once
      cut[spec.name] = [whole, spec, made, patch = patch->second](const ReadTensor&) {
        if (!*made) *made = patch(whole->reader()).topLeftCorner(spec.rows, spec.cols);
        return **made;
      };
    } else if (name != spec.name && held.contains(name)) {
      cut[spec.name] = [name](const ReadTensor& read) { return read(name); };
    } else if (spec.layer < 0 && spec.rows > 1) {
      cut[spec.name] = [this, name](const ReadTensor& read) {
        const auto end = ends_.find(name);
        return end != ends_.end() ? end->second : ends_.emplace(name, read(name)).first->second;
      };
    }
  }
  return {model_, excerpt, std::move(cut)};
}

}  // namespace regauge
