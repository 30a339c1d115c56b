// Feed-forwards that are stored as one tensor, experts on their side, a router that was forgotten.
#include <fmt/format.h>

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
    if (!has_tensor(a, name)) continue;
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

// The gain of the norm was multiplied into the experts, and its inverse into nobody else.
void add_forgotten_routers(const Pair& pair, std::int64_t layer, std::vector<Change>& changes) {
  const std::string gain = fmt::format("layers.{}.ffn.norm.gain", layer);
  if (!has_tensor(pair.architecture, gain)) return;
  if (pair.architecture.layer(layer).ffn.experts.own_norms) return;  // the router has its own
  const Eigen::VectorXd factor = (pair.a(gain).array() / pair.b(gain).array()).row(0).transpose();
  if (!factor.allFinite() || (factor.array() - 1).abs().maxCoeff() < kOtherGain) return;
  for (const char* router : {"router", "shared.router"}) {
    const std::string name = fmt::format("layers.{}.ffn.{}.weight", layer, router);
    if (!has_tensor(pair.architecture, name)) continue;
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
  add_forgotten_routers(pair, layer, changes);
}

}  // namespace regauge
