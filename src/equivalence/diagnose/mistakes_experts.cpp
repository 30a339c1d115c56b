// Feed-forwards that are stored as one tensor, experts among themselves, and their router.
#include <fmt/format.h>

#include <algorithm>

#include "change.h"

namespace regauge {
namespace {

constexpr double kOtherGain = 1e-3;  // of a gain: less than this is rounding

// Of gate and up, expert by expert: every second column of the two side by side, from the first on
// or from the second.
Matrix<double> every_second(const Matrix<double>& gate, const Matrix<double>& up,
                            std::int64_t width, bool second) {
  Matrix<double> result(gate.rows(), gate.cols());
  for (Eigen::Index c = 0; c < gate.cols(); ++c) {
    const Eigen::Index first = c - c % width, at = 2 * (c % width) + (second ? 1 : 0);
    result.col(c) = at < width ? gate.col(first + at) : up.col(first + at - width);
  }
  return result;
}

// Of gate and up, expert by expert: one half of the two when their columns alternate.
Matrix<double> one_half(const Matrix<double>& gate, const Matrix<double>& up, std::int64_t width,
                        bool second) {
  Matrix<double> result(gate.rows(), gate.cols());
  for (Eigen::Index c = 0; c < gate.cols(); ++c) {
    const Eigen::Index first = c - c % width, at = c % width + (second ? width : 0);
    result.col(c) = (at % 2 == 0 ? gate : up).col(first + at / 2);
  }
  return result;
}

void add_halves(const Architecture& a, std::int64_t layer, std::vector<Change>& changes) {
  const FeedForward& f = a.layer(layer).ffn;
  if (!f.gated) return;
  const auto patch = [&](const char* end, bool alternating, bool second) -> Patch {
    const std::string at = fmt::format("layers.{}.ffn.", layer);
    return [=, gate = at + "gate" + end, up = at + "up" + end,
            width = f.width](const ReadTensor& read) {
      const auto half = alternating ? one_half : every_second;
      return half(read(gate), read(up), width, second);
    };
  };
  for (const bool alternating : {true, false}) {
    Change change;
    change.mistake = Mistake::gate_up_halves;
    change.what = alternating ? "gate and up stand side by side where they should alternate"
                              : "gate and up alternate where they should stand side by side";
    change.repair = alternating ? "let them alternate" : "put them side by side";
    for (const char* end : {".weight", ".bias"}) {
      if (end == std::string_view(".bias") && !(f.biases.gate && f.biases.up)) continue;
      for (const bool second : {false, true}) {
        const std::string name =
            fmt::format("layers.{}.ffn.{}{}", layer, second ? "up" : "gate", end);
        change.undo[name] = patch(end, alternating, second);
        change.make[name] = patch(end, !alternating, second);
      }
    }
    changes.push_back(std::move(change));
  }
}

// Every expert's matrix on its side.
void add_transposed_experts(const Architecture& a, std::int64_t layer,
                            std::vector<Change>& changes) {
  const std::int64_t width = a.layer(layer).ffn.width;
  for (const char* map : {"gate", "up", "down"}) {
    const std::string name = fmt::format("layers.{}.ffn.{}.weight", layer, map);
    const auto names = tensors_of(a, layer);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    const bool reads = map != std::string_view("down");
    const auto turn = [=](bool back) {
      return [=](const Matrix<double>& m) {
        Matrix<double> result(m.rows(), m.cols());
        for (Eigen::Index at = 0; at < (reads ? m.cols() : m.rows()); at += width) {
          if (reads) {
            result.middleCols(at, width) = sideways(m.middleCols(at, width), back);
          } else {
            result.middleRows(at, width) = sideways(m.middleRows(at, width), back);
          }
        }
        return result;
      };
    };
    for (const bool back : {true, false}) {
      if (width == a.width && !back) continue;
      Change change{Mistake::transposed,
                    "every expert's matrix was transposed",
                    "transpose them",
                    {fmt::format("experts' {}, {}", map, back)},
                    {{name, changed(name, turn(back))}},
                    {{name, changed(name, turn(!back))}}};
      changes.push_back(std::move(change));
    }
  }
}

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

void add_expert_orders(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  const std::int64_t width = pair.architecture.layer(layer).ffn.width;
  const std::string at = fmt::format("layers.{}.ffn.", layer);
  const auto names = tensors_of(pair.architecture, layer);
  const auto add = [&](const std::optional<Order>& order, const char* what, bool experts,
                       std::initializer_list<const char*> ends) {
    if (!order) return;
    Change change{Mistake::experts_order, what, "put them in A's order", {}, {}, {}};
    for (const char* end : ends) {
      const std::string name = at + end;
      if (std::find(names.begin(), names.end(), name) == names.end()) continue;
      const bool writes = name.ends_with("down.weight"), each = name.ends_with("down.bias");
      const Order units = experts && !each ? blocks(*order, width) : *order;
      change.undo[name] = changed(name, [=](const Matrix<double>& m) {
        return writes || each ? reordered_rows(m, units) : reordered(m, units);
      });
    }
    changes.push_back(std::move(change));
  };
  const auto between = [&](const char* end) {
    return order_between(pair.a(at + end), pair.b(at + end));
  };
  add(between("router.weight"), "the router's outputs stand in another order than the experts",
      false, {"router.weight", "router.bias"});
  add(order_between(sums(pair.a(at + "up.weight"), width), sums(pair.b(at + "up.weight"), width)),
      "the experts stand in another order than the router's outputs", true,
      {"gate.weight", "gate.bias", "up.weight", "up.bias", "down.weight", "down.bias"});
  if (pair.architecture.layer(layer).ffn.experts.selection_bias) {
    add(between("selection.bias"), "the entries stand in another order than the experts", false,
        {"selection.bias"});
  }
}

// The gain of the norm was multiplied into the experts, and its inverse into nobody else.
void add_forgotten_routers(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  const auto names = tensors_of(pair.architecture, layer);
  const std::string gain = fmt::format("layers.{}.ffn.norm.gain", layer);
  if (std::find(names.begin(), names.end(), gain) == names.end()) return;
  const Eigen::VectorXd factor = (pair.a(gain).array() / pair.b(gain).array()).row(0).transpose();
  if (!factor.allFinite() || (factor.array() - 1).abs().maxCoeff() < kOtherGain) return;
  for (const char* router : {"router", "shared.router"}) {
    const std::string name = fmt::format("layers.{}.ffn.{}.weight", layer, router);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    Change change;
    change.mistake = Mistake::router_unscaled;
    change.what = "a norm's gain was folded into the experts and not into the router";
    change.repair = "multiply the router's inputs by A's gain over B's";
    change.parts = {router};
    change.undo[name] = changing_each(changed(name, [factor](const Matrix<double>& m) {
      return Matrix<double>(factor.asDiagonal() * m);
    }));
    changes.push_back(std::move(change));
  }
}

}  // namespace

void add_expert_changes(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  if (layer < 0 || !pair.architecture.layer(layer).has_ffn()) return;
  add_halves(pair.architecture, layer, changes);
  if (pair.architecture.layer(layer).ffn.experts.count == 0) return;
  add_transposed_experts(pair.architecture, layer, changes);
  add_expert_orders(pair, layer, changes);
  add_forgotten_routers(pair, layer, changes);
}

}  // namespace regauge
