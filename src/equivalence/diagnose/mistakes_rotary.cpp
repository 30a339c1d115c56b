// Rotary pairs in the wrong layout: the permutation between adjacent pairs and halves left out,
// done twice, done backwards, or done for heads of another width.
#include <fmt/format.h>

#include <set>

#include "change.h"

namespace regauge {
namespace {

struct Wrong {
  Mistake mistake;
  std::string what;
  Order order;  // B's tensor is A's in this order
};

// `layout` takes adjacent pairs to halves: column c lies at layout[c]. A file with halves should
// hold them so, one with pairs should hold what comes back from halves.
std::vector<Wrong> wrong_orders(const Pair& pair, std::int64_t dims, std::int64_t cols,
                                std::int64_t heads) {
  const std::int64_t width = cols / heads;
  const Order layout = halves_order(cols, heads, dims), back = inverse(layout);
  const Order& left_out = pair.halves ? layout : back;
  std::vector<Wrong> all = {
      {Mistake::rotary_missing, "the rotary layout permutation is missing", left_out},
      {Mistake::rotary_doubled, "the rotary layout permutation was applied twice",
       inverse(left_out)},
      {Mistake::rotary_inverted, "the rotary layout permutation was applied backwards",
       compose(left_out, left_out)}};
  const auto add = [&](std::int64_t other_heads, std::int64_t other_dims, std::string what) {
    const Order other = halves_order(cols, other_heads, other_dims);
    all.push_back({Mistake::rotary_heads, std::move(what),
                   pair.halves ? compose(inverse(other), layout) : compose(back, other)});
  };
  if (dims < width && width % 2 == 0) {
    add(heads, width,
        fmt::format("the rotary layout permutation was applied to {} coordinates of "
                    "each head, {} rotate",
                    width, dims));
  }
  for (std::int64_t n = 1; 2 * n <= cols; ++n) {
    if (n == heads || cols % n != 0 || cols / n % 2 != 0) continue;
    add(n, dims < width ? std::min(dims, cols / n) : cols / n,
        fmt::format("the rotary layout permutation was applied for {} heads, there are {}", n,
                    heads));
  }
  return all;
}

}  // namespace

void add_rotary_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (layer < 0) return;
  const Attention& a = pair.architecture.layer(layer).attention;
  if (a.rotary_dims < 4 || a.has_latents()) return;
  const auto add = [&](const std::string& name, const std::vector<std::string>& parts,
                       std::int64_t cols, std::int64_t heads) {
    std::set<Order> seen;
    for (const auto& wrong : wrong_orders(pair, a.rotary_dims, cols, heads)) {
      if (is_identity(wrong.order) || !seen.insert(wrong.order).second) continue;
      Change change{wrong.mistake, wrong.what, "put the rows back in the order of A",
                    parts,         {},         {}};
      change.undo[name] = changed(name, [order = inverse(wrong.order)](const Matrix<double>& m) {
        return reordered(m, order);
      });
      change.make[name] = changed(
          name, [order = wrong.order](const Matrix<double>& m) { return reordered(m, order); });
      changes.push_back(std::move(change));
    }
  };
  for (const auto& name : tensors_of(pair.architecture, layer)) {
    const bool q = name.find(".attn.q.") != std::string::npos;
    const bool k = name.find(".attn.k.") != std::string::npos;
    if (q) add(name, {"q", "q and k"}, a.heads * a.qk_width, a.heads);
    if (k) add(name, {"k", "q and k"}, a.kv_heads * a.qk_width, a.kv_heads);
    const bool joint = a.qk_norm == QkNorm::joint;
    for (const auto& [gain, heads] :
         {std::pair("q_norm.gain", a.heads), {"k_norm.gain", a.kv_heads}}) {
      const std::int64_t count = joint ? heads : 1;
      if (name.ends_with(gain)) add(name, {"gains"}, count * a.qk_width, count);
    }
  }
}

}  // namespace regauge
