#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "regauge/symmetry/element.h"

namespace regauge {

// A part of a model, and of its group: which factors an alignment may use, the others staying the
// identity; which tensors a training starts anew. Written as
//   all | attention | block | CATEGORY[,CATEGORY...]     then optionally  :FIRST[-LAST]  layers
// "attention" is heads, qk, vo and the shifts inside; "block" is all that belongs to a layer;
// categories are those of `regauge act --only`. With layers given, what belongs to none (the
// stream, embedding, head) stays out.
class Scope {
 public:
  Scope() = default;                      // all
  explicit Scope(std::string_view text);  // throws UsageError with the choices

  const std::string& text() const { return text_; }
  bool is_all() const { return text_ == "all"; }
  bool contains(const Space& space) const { return contains(space.name, space.category); }
  bool contains(const Shift& shift) const { return contains(shift.name, Category::shifts); }
  // The layers as they are written, with their colon; empty: all.
  std::string_view layers() const;
  // Tensors by canonical name. Attention is its maps and their biases, without the norm before it.
  // Throws UsageError for a scope of categories, which tensors do not have.
  bool contains_tensor(std::string_view name) const;
  // The element's factors inside the scope.
  Element restrict(const Symmetry& symmetry, Element element) const;

 private:
  bool contains(const std::string& name, Category category) const;

  bool contains_layer(std::string_view name) const;

  std::string text_ = "all";
  std::set<Category> categories_ = all_categories();
  bool attention_ = false;  // of the shifts only those inside attention
  bool layered_ = false;    // only what belongs to a layer, first_ to last_
  std::int64_t first_ = 0;
  std::optional<std::int64_t> last_;
};

}  // namespace regauge
