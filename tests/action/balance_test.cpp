// The balanced gauge: the same function, the least norm, and nothing lost on degenerate heads.
#include "action/balance.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "function.h"
#include "regauge/action/act.h"
#include "regauge/action/fold.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

const std::set<Category> kGauges = {Category::qk, Category::vo, Category::ffn};

double squared_norm(const Parameters<double>& parameters) {
  double sum = 0;
  for (const auto& [name, tensor] : parameters) sum += tensor.squaredNorm();
  return sum;
}

void fold(const Symmetry& symmetry, Parameters<double>& parameters) {
  act(symmetry, fold_element(symmetry, reader_of(parameters), {}, Progress::silent()), parameters);
}

// With eps = 0 a norm of queries and keys, or of values, forgets lengths: no length is the least.
Architecture with_lengths(Architecture a) {
  for (const auto& kind : a.kinds) {
    const bool forgets = kind.attention.has_qk_norm() || kind.attention.value_norm;
    if (forgets && a.norm_eps == 0) a.norm_eps = 1e-6;
  }
  return a;
}

// Between the identity and a drawn element, to look near as well as far.
Element part_of(const Symmetry& symmetry, const Element& element, double fraction) {
  Element result;
  for (const auto& [name, map] : element.maps) {
    const auto blocks = map.diagonal_part();
    const Space& space = *symmetry.find_space(name);
    const bool connected = space.dimension() > 0 && !space.is_orthogonal() &&
                           !std::holds_alternative<GainExchange>(space.group);
    if (!blocks.has_blocks() || !connected) continue;
    Matrix<double> mixed = blocks.blocks();
    for (std::int64_t i = 0; i < map.count(); ++i) {
      auto block = mixed.middleRows(i * map.width(), map.width());
      block =
          fraction * block + (1 - fraction) * Matrix<double>::Identity(map.width(), map.width());
    }
    result.maps[name] = BlockMap<double>(map.count(), map.width(), {}, mixed);
  }
  return result;
}

TEST(Balance, MinimisesTheNormAndKeepsTheFunction) {
  int lowered = 0;
  for (const auto& drawn : testing::architectures()) {
    const Architecture a = with_lengths(drawn);
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 17);
    auto folded = parameters;
    fold(symmetry, folded);
    const Element element = balance(symmetry, folded);
    check_member(symmetry, element);
    auto balanced = folded;
    act(symmetry, element, balanced);
    EXPECT_LE(testing::change(a, folded, balanced), 1e-9) << to_json(a).dump();
    const double least = squared_norm(balanced);
    EXPECT_LE(least, squared_norm(folded) * (1 + 1e-12));
    lowered += least < 0.99 * squared_norm(folded) ? 1 : 0;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Element other = random_element(symmetry, seed, kGauges);
      for (const double fraction : {1.0, 0.1, 0.001}) {
        auto moved = balanced;
        act(symmetry, fraction == 1 ? other : part_of(symmetry, other, fraction), moved);
        EXPECT_GE(squared_norm(moved), least * (1 - 1e-11)) << fraction << to_json(a).dump();
      }
    }
    EXPECT_LE(distance(symmetry, balance(symmetry, balanced), {}), 1e-8) << to_json(a).dump();
  }
  EXPECT_GT(lowered, 100);
}

TEST(Balance, DoesNotDependOnTheGaugeItStartsFrom) {
  for (const auto& drawn : testing::architectures()) {
    const Architecture a = with_lengths(drawn);
    const Symmetry symmetry = symmetry_of(a);
    auto here = random_parameters(a, 19);
    fold(symmetry, here);  // channels of heads that share a gain change places in units of it
    auto there = here;
    act(symmetry, random_element(symmetry, 4, kGauges), there);
    act(symmetry, balance(symmetry, here), here);
    act(symmetry, balance(symmetry, there), there);
    EXPECT_NEAR(squared_norm(there) / squared_norm(here), 1, 1e-10) << to_json(a).dump();
  }
}

TEST(Balance, GroupedHeadsShareTheirKey) {
  Architecture a = known_architectures()[1].architecture;  // no positions: GL(4)
  a.kinds[0].attention.heads = 4;
  const Symmetry symmetry = symmetry_of(a);
  auto parameters = random_parameters(a, 23);
  fold(symmetry, parameters);
  act(symmetry, balance(symmetry, parameters), parameters);
  const Matrix<double>&q = parameters.at("layers.1.attn.q.weight"),
        &k = parameters.at("layers.1.attn.k.weight"), &v = parameters.at("layers.1.attn.v.weight"),
        &o = parameters.at("layers.1.attn.o.weight");
  Matrix<double> q_gram = Matrix<double>::Zero(4, 4), o_gram = q_gram;
  for (const int head : {2, 3}) {
    q_gram += q.middleCols(head * 4, 4).transpose() * q.middleCols(head * 4, 4);
    o_gram += o.middleRows(head * 4, 4) * o.middleRows(head * 4, 4).transpose();
  }
  EXPECT_TRUE(q_gram.isApprox(k.rightCols(4).transpose() * k.rightCols(4), 1e-10));
  EXPECT_TRUE(o_gram.isApprox(v.rightCols(4).transpose() * v.rightCols(4), 1e-10));
  const Matrix<double>&up = parameters.at("layers.0.ffn.up.weight"),
        &down = parameters.at("layers.0.ffn.down.weight");
  EXPECT_TRUE(up.colwise().norm().isApprox(down.rowwise().norm().transpose(), 1e-12));
}

TEST(Balance, SurvivesDegenerateHeadsAndNeurons) {
  int tested = 0;
  for (const auto& known : known_architectures()) {
    const Architecture a = with_lengths(known.architecture);
    const Symmetry symmetry = symmetry_of(a);
    auto parameters = random_parameters(a, 29);
    fold(symmetry, parameters);
    const auto d = a.kinds[0].attention.qk_width;
    Matrix<double>& q = parameters.at("layers.0.attn.q.weight");
    Matrix<double>& k = parameters.at("layers.0.attn.k.weight");
    q.leftCols(d).setZero();                            // a head that asks nothing
    k.rightCols(d).col(1) = 2 * k.rightCols(d).col(0);  // keys of rank d - 1
    parameters.at("layers.1.attn.q.weight").rightCols(d).col(2).setZero();
    parameters.at("layers.1.attn.k.weight").rightCols(d).col(3).setZero();
    parameters.at("layers.1.attn.o.weight").setZero();           // values that nobody reads
    parameters.at("layers.1.ffn.down.weight").row(2).setZero();  // a dead neuron
    for (const char* bias : {"layers.0.attn.q.bias", "layers.0.attn.k.bias", "layers.1.attn.q.bias",
                             "layers.1.attn.k.bias"}) {
      if (parameters.contains(bias)) parameters.at(bias).setZero();
    }
    const Element element = balance(symmetry, parameters);
    check_member(symmetry, element);
    for (const auto& [name, map] : element.maps) {
      EXPECT_LE(map.blocks().norm() * map.inverse().blocks().norm(), 1e5) << known.name << name;
    }
    auto balanced = parameters;
    act(symmetry, element, balanced);
    EXPECT_LE(testing::change(a, parameters, balanced), 1e-9) << known.name;
    EXPECT_LE(distance(symmetry, balance(symmetry, balanced), {}), 1e-6) << known.name;
    // The neurons beside the dead one are balanced all the same.
    if (a.kinds[0].ffn.gated && !a.kinds[0].ffn.biases.up) {
      EXPECT_NEAR(balanced.at("layers.1.ffn.up.weight").col(1).norm(),
                  balanced.at("layers.1.ffn.down.weight").row(1).norm(), 1e-12);
      ++tested;
    }
  }
  EXPECT_GT(tested, 5);
}

}  // namespace
}  // namespace regauge
