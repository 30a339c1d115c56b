#include "regauge/symmetry/scope.h"

#include <fmt/format.h>

#include <charconv>

#include "regauge/base/error.h"
#include "require_layers.h"

namespace regauge {
namespace {

std::int64_t parse_layer(std::string_view text) {
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || end != text.data() + text.size() || layer < 0) {
    throw UsageError(fmt::format("[scope] '{}' is no layer; layers are written :0 or :0-3", text));
  }
  return layer;
}

}  // namespace

Scope::Scope(std::string_view text) : text_(text) {
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    const std::string_view layers = text.substr(colon + 1);
    const auto dash = layers.find('-');
    layered_ = true;
    first_ = parse_layer(layers.substr(0, dash));
    last_ = dash == std::string_view::npos ? first_ : parse_layer(layers.substr(dash + 1));
    text = text.substr(0, colon);
  }
  if (text == "all") return;
  if (text == "block") {
    layered_ = true;
    return;
  }
  if (text == "attention") {
    attention_ = layered_ = true;
    categories_ = {Category::heads, Category::latents, Category::qk, Category::vo,
                   Category::shifts};
    return;
  }
  categories_.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto comma = std::min(text.find(',', begin), text.size());
    categories_.insert(category_from_name(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
}

std::string_view Scope::layers() const {
  const auto colon = text_.find(':');
  return colon == std::string::npos ? std::string_view() : std::string_view(text_).substr(colon);
}

void require_layers(const Scope& scope, std::int64_t layers) {
  const std::string_view text = scope.layers();
  if (text.empty()) return;
  if (parse_layer(text.substr(text.find_last_of(":-") + 1)) >= layers) {
    throw UsageError(fmt::format("[scope] '{}' names layers that are not there; there are 0 to {}",
                                 scope.text(), layers - 1));
  }
}

bool Scope::contains_layer(std::string_view name) const {
  if (!layered_) return true;
  const std::int64_t layer = layer_of(name);
  return layer >= 0 && layer >= first_ && (!last_ || layer <= *last_);
}

bool Scope::contains_tensor(std::string_view name) const {
  if (!attention_ && categories_ != all_categories()) {
    throw UsageError(
        fmt::format("[scope] '{}' has no tensors; a part of a model is all, attention or block, "
                    "with :0 or :0-3 "
                    "some layers of it",
                    text_));
  }
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return contains_layer(name) && (!attention_ || (has(".attn.") && !has(".norm.")));
}

bool Scope::contains(const std::string& name, Category category) const {
  if (!categories_.contains(category) || !contains_layer(name)) return false;
  if (!layered_) return true;
  const bool inside = name.find(".attn.") != std::string::npos && !name.ends_with(".norm.shift");
  return !attention_ || category != Category::shifts || inside;
}

Element Scope::restrict(const Symmetry& symmetry, Element element) const {
  std::erase_if(element.maps,
                [&](const auto& entry) { return !contains(*symmetry.find_space(entry.first)); });
  std::erase_if(element.shifts,
                [&](const auto& entry) { return !contains(*symmetry.find_shift(entry.first)); });
  return element;
}

}  // namespace regauge
