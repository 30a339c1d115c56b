// Experts, what their router writes, or its selection bias in another order than the rest.
#include <fmt/format.h>

#include <optional>

#include "explain.h"

namespace regauge {
namespace {

// The order of B's columns in which they are nearest to A's; nothing if that is how they stand, or
// if two of A's are nearest to the same one.
std::optional<Order> order_between(const Matrix<double>& a, const Matrix<double>& b) {
  Order order(static_cast<std::size_t>(a.cols()));
  std::vector<bool> taken(order.size());
  for (Eigen::Index c = 0; c < a.cols(); ++c) {
    Eigen::Index nearest = 0;
    (b.colwise() - a.col(c)).colwise().squaredNorm().minCoeff(&nearest);
    if (taken[static_cast<std::size_t>(nearest)]) return std::nullopt;
    taken[static_cast<std::size_t>(nearest)] = true;
    order[static_cast<std::size_t>(c)] = nearest;
  }
  if (is_identity(order)) return std::nullopt;
  return order;
}

// Blocks of `width` columns in this order.
Order blocks(const Order& order, std::int64_t width) {
  Order result;
  for (const std::int64_t block : order) {
    for (std::int64_t i = 0; i < width; ++i) result.push_back(block * width + i);
  }
  return result;
}

Matrix<double> reordered_rows(const Matrix<double>& value, const Order& order) {
  return reordered(value.transpose(), order).transpose();
}

// Experts by what they read: the sum of each one's columns.
Matrix<double> sums(const Matrix<double>& up, std::int64_t width) {
  Matrix<double> result(up.rows(), up.cols() / width);
  for (Eigen::Index e = 0; e < result.cols(); ++e) {
    result.col(e) = up.middleCols(e * width, width).rowwise().sum();
  }
  return result;
}

}  // namespace

void Explainer::find_misplaced_experts() {
  const Architecture& a = pair_.architecture;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    const FeedForward& f = a.layer(layer).ffn;
    if (f.experts.count == 0) continue;
    const std::string at = fmt::format("layers.{}.ffn.", layer);
    const auto try_order = [&](const std::optional<Order>& order, const char* what,
                               std::int64_t width, std::initializer_list<const char*> ends) {
      if (!order) return;
      Change change{Mistake::experts_order, what, "put them in A's order", {}, {}, {}};
      for (const char* end : ends) {
        const std::string name = at + end;
        if (!has_tensor(a, name)) continue;
        const bool writes = name.ends_with("down.weight"), each = name.ends_with("down.bias");
        const Order units = blocks(*order, each ? 1 : width);
        change.undo[name] = changed(name, [=](const Matrix<double>& m) {
          return writes || each ? reordered_rows(m, units) : reordered(m, units);
        });
      }
      try_change(std::move(change));
    };
    const auto both = [&](const char* end, auto&& seen) {
      return order_between(seen(pair_.a(at + end)), seen(pair_.b(at + end)));
    };
    const auto as_it_is = [](const Matrix<double>& m) { return m; };
    if (is_open(at + "router.weight")) {
      try_order(both("router.weight", as_it_is),
                "the router's outputs stand in another order than the experts", 1,
                {"router.weight", "router.bias"});
    }
    if (is_open(at + "up.weight")) {
      try_order(both("up.weight", [&](const Matrix<double>& m) { return sums(m, f.width); }),
                "the experts stand in another order than the router's outputs", f.width,
                {"gate.weight", "gate.bias", "up.weight", "up.bias", "down.weight", "down.bias"});
    }
    if (is_open(at + "selection.bias")) {
      try_order(both("selection.bias", as_it_is),
                "the entries stand in another order than the experts", 1, {"selection.bias"});
    }
    if (is_open(at + "experts.scale.gain")) {
      try_order(both("experts.scale.gain", as_it_is),
                "the factors stand in another order than the experts", 1, {"experts.scale.gain"});
    }
    progress_.advance(0);
  }
}

}  // namespace regauge
