// A basis change inside rotary heads that the rotations do not commute with: right for heads that
// do not rotate.
#include <fmt/format.h>

#include "explain.h"
#include "numerics/decompositions.h"

namespace regauge {
namespace {

// The matrix x of one head with b = a x, [d_k, d_k]; heads side by side in a and b.
Matrix<double> fit(const Matrix<double>& a, const Matrix<double>& b, std::int64_t head,
                   std::int64_t width) {
  return least_squares(a.middleCols(head * width, width), b.middleCols(head * width, width));
}

}  // namespace

void Explainer::fit_heads() {
  const Architecture& a = pair_.architecture;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    const Attention& shape = a.layer(layer).attention;
    const std::int64_t width = shape.qk_width;
    if (shape.positions != Positions::rotary || a.width <= width) continue;
    if (shape.has_latents() || shape.shares_keys) continue;
    const std::int64_t group = shape.group();
    const std::string at = fmt::format("layers.{}.attn.", layer);
    if (!is_open(at + "q.weight") || !is_open(at + "k.weight")) continue;
    const Matrix<double> q_a = pair_.a(at + "q.weight"), q_b = pair_.b(at + "q.weight");
    // Per kv head: q -> q x, k -> k x^-T.
    std::vector<Matrix<double>> maps;
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      maps.push_back(fit(q_a, q_b, kv * group, width));
    }
    Change change;
    change.mistake = Mistake::not_rotary;
    change.what = "a basis change inside the heads that does not commute with their rotations";
    change.repair = "undo it head by head";
    for (const auto& name : tensors_of(a, layer)) {
      const bool q = name.starts_with(at + "q."), k = name.starts_with(at + "k.");
      if (!q && !k) continue;
      change.undo[name] = mixing(changed(name, [=](const Matrix<double>& m) {
        Matrix<double> result = m;
        const std::int64_t heads = m.cols() / width;
        for (std::int64_t head = 0; head < heads; ++head) {
          const Matrix<double>& x = maps[static_cast<std::size_t>(q ? head / group : head)];
          const Matrix<double> back = q ? inverse(x) : Matrix<double>(x.transpose());
          result.middleCols(head * width, width) = m.middleCols(head * width, width) * back;
        }
        return result;
      }));
    }
    if (matches_all(change.undo)) accept(std::move(change));
  }
}

}  // namespace regauge
