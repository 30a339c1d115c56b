// The heart of it: an element changes the numbers and not the function.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>

#include "controls.h"
#include "function.h"
#include "regauge/action/act.h"
#include "regauge/action/fold.h"
#include "symmetry/architectures.h"

namespace regauge {
namespace {

using testing::architectures;
using testing::change;
using testing::well_conditioned;

TEST(Invariance, WholeGroup) {
  int tested = 0;
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const auto parameters = random_parameters(a, seed);
      if (!well_conditioned(symmetry, parameters)) continue;
      auto moved = parameters;
      act(symmetry, random_element(symmetry, seed), moved);
      EXPECT_LE(change(a, parameters, moved), 1e-9) << seed << " " << to_json(a).dump();
      ++tested;
    }
  }
  EXPECT_GT(tested, 400);
}

// 16-bit checkpoints are worked on in float.
TEST(Invariance, InFloat) {
  for (const auto& known : known_architectures()) {
    const Architecture& a = known.architecture;
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 3);
    if (!well_conditioned(symmetry, parameters)) continue;
    auto narrow = cast<float>(parameters);
    act(symmetry, random_element(symmetry, 3), narrow);
    EXPECT_LE(change(a, parameters, cast<double>(narrow)), 5e-4) << known.name;
  }
}

TEST(Invariance, EachFactorAloneMovesSomething) {
  std::map<Category, int> moving;
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 7);
    if (!well_conditioned(symmetry, parameters)) continue;
    for (const Category category : all_categories()) {
      auto moved = parameters;
      act(symmetry, random_element(symmetry, 5, {category}), moved);
      EXPECT_LE(change(a, parameters, moved), 1e-9)
          << category_name(category) << " " << to_json(a).dump();
      moving[category] += moved != parameters ? 1 : 0;
    }
  }
  for (const Category category : all_categories()) EXPECT_GT(moving[category], 5);
}

TEST(Invariance, Fold) {
  for (const auto& a : architectures()) {
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 11);
    const Element element = fold_element(symmetry, reader_of(parameters), {}, Progress::silent());
    auto folded = parameters;
    act(symmetry, element, folded);
    EXPECT_LE(change(a, parameters, folded), 1e-9) << to_json(a).dump();
    for (const auto& [name, site] : symmetry.norms) {
      if (symmetry.find_space(name) == nullptr) continue;
      EXPECT_LE((folded.at(site.gain()).array() - 1).abs().maxCoeff(), 1e-12);
    }
    const bool centred = a.norm == Norm::layer;
    const char* writer =
        a.layer(0).has_delta() ? "layers.0.delta.o.weight" : "layers.0.attn.o.weight";
    const double mean = folded.at(writer).rowwise().mean().cwiseAbs().maxCoeff();
    EXPECT_EQ(mean < 1e-12, centred);
  }
}

TEST(NegativeControls, AreSeen) {
  for (const auto& known : known_architectures()) {
    for (const auto& control : testing::negative_controls()) {
      const Architecture& a = known.architecture;
      if (!control.concerns(a)) continue;
      const auto parameters = random_parameters(a, 1);
      auto changed = parameters;
      control.apply(a, changed);
      EXPECT_GT(change(a, parameters, changed), 1e-3) << known.name << ": " << control.name;
    }
  }
}

TEST(NegativeControls, OfTablesAndSharedKeysAreSeen) {
  int own = 0;
  for (const bool text : {true, false}) {
    const Architecture a =
        gemma4_small_architecture({.table_width = 3, .shared = 1, .vectors = text ? 0 : 7});
    for (const auto& control : testing::negative_controls()) {
      if (!control.concerns(a)) continue;
      own += control.concerns(gemma4_architecture()) ? 0 : 1;
      const auto parameters = random_parameters(a, 1);
      auto changed = parameters;
      control.apply(a, changed);
      EXPECT_GT(change(a, parameters, changed), 1e-3) << control.name;
    }
  }
  EXPECT_GE(own, 2 * 4);
}

TEST(NegativeControls, OfDeltaNetsAndOutputGatesAreSeen) {
  Architecture delta = qwen3_next_architecture(8, 2, true);
  delta.kinds[0].delta.key_heads = 2;
  delta.kinds[0].delta.value_heads = 4;
  int own = 0;
  for (const Architecture& a : {qwen3_next_architecture(8, 2, false), delta}) {
    for (const auto& control : testing::negative_controls()) {
      if (!control.concerns(a)) continue;
      own += control.concerns(known_architecture("llama")) ? 0 : 1;
      const auto parameters = random_parameters(a, 1);
      auto changed = parameters;
      control.apply(a, changed);
      EXPECT_GT(change(a, parameters, changed), 1e-3) << control.name;
    }
  }
  EXPECT_EQ(own, 5);
}

// What a pooler pins: the same element of the group without that output moves it.
TEST(NegativeControls, APoolerThatCountsIsSeen) {
  Architecture a = known_architecture("bert");
  a.pooler = a.classes_pooled = true;
  a.output.add(Output::classes);
  a.classes = 3;
  const Symmetry unseen = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  for (const bool whole : {true, false}) {
    Element element = random_element(unseen, 2);
    if (!whole) element = {};
    if (!whole) element.maps["head.pooler"] = random_element(unseen, 2).maps.at("head.pooler");
    auto moved = parameters;
    act(unseen, element, moved);
    EXPECT_LE(change(a, parameters, moved), 1e-9);
    Architecture seen = a;
    seen.output.add(Output::pooled);
    EXPECT_GT(change(seen, parameters, moved), 1e-2);
    EXPECT_EQ(symmetry_of(seen).find_space("head.pooler"), nullptr);
    // A unit's sign without that of what reads it.
    auto turned = parameters;
    turned.at("head.pooler.weight").col(1) *= -1;
    turned.at("head.pooler.bias").col(1) *= -1;
    EXPECT_GT(change(a, parameters, turned), 1e-2);
    turned.at("head.classes.weight").row(1) *= -1;
    EXPECT_LE(change(a, parameters, turned), 1e-12);
  }
  // Hidden states that count leave the stream as it is.
  Architecture hidden = a;
  hidden.output.add(Output::hidden);
  auto moved = parameters;
  act(unseen, random_element(unseen, 3, {Category::residual}), moved);
  EXPECT_LE(change(a, parameters, moved), 1e-9);
  EXPECT_GT(change(hidden, parameters, moved), 1e-2);
}

// Each tower is moved by its own element: the same tensors of one, moved by the other's, are seen.
TEST(NegativeControls, ATowerMovedByTheOthersElementIsSeen) {
  Architecture a = text_tower(false);
  Architecture other = a;
  a.beside = {other};
  a.beside.front().input = Input::vectors;
  a.beside.front().vocabulary = 0;
  a.beside.front().input_width = 7;
  validate(a);
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  const Element element = random_element(symmetry, 2);
  auto moved = parameters;
  act(symmetry, element, moved);
  EXPECT_LE(change(a, parameters, moved), 1e-9);
  auto mixed = moved;
  mixed.at("layers.2.attn.q.weight") = moved.at("layers.0.attn.q.weight");
  EXPECT_GT(change(a, parameters, mixed), 1e-2);
  Element exchanged = element;
  std::swap(exchanged.maps.at("residual"), exchanged.maps.at("beside.residual"));
  auto by_other = parameters;
  act(symmetry, exchanged, by_other);  // a member, too, and another one
  EXPECT_LE(change(a, parameters, by_other), 1e-9);
  by_other.at("beside.head.weight") = moved.at("beside.head.weight");
  EXPECT_GT(change(a, parameters, by_other), 1e-2);
}

// The stream's rotation reaches a map through the layer scale behind it; registers have no
// positions that could take a constant.
TEST(NegativeControls, ALayerScaleOrARegisterLeftBehindIsSeen) {
  const Architecture a = dinov2_architecture(2, 2, true);
  Architecture unscaled = a;
  unscaled.kinds[0].layer_scale = false;
  const Symmetry symmetry = symmetry_of(a), without = symmetry_of(unscaled);
  const auto parameters = random_parameters(a, 1);
  const Element rotation = random_element(symmetry, 2, {Category::residual});
  auto moved = parameters;
  act(symmetry, rotation, moved);
  EXPECT_LE(change(a, parameters, moved), 1e-9);
  auto past = parameters;
  std::erase_if(past, [&](const auto& entry) { return !without.tensors.contains(entry.first); });
  act(without, rotation, past);
  past.insert(parameters.begin(), parameters.end());
  EXPECT_GT(change(a, parameters, past), 1e-2);

  const std::string scale = "layers.0.ffn.layer_scale", down = "layers.0.ffn.down.weight";
  Element factors;
  factors.maps[scale] = random_element(symmetry, 3).maps.at(scale);
  auto scaled = parameters;
  act(symmetry, factors, scaled);
  EXPECT_LE(change(a, parameters, scaled), 1e-9);
  for (const std::string& left : {scale + ".gain", down}) {
    auto half = scaled;
    half.at(left) = parameters.at(left);
    EXPECT_GT(change(a, parameters, half), 1e-2) << left;
  }

  Element exchange;
  exchange.shifts["embed.exchange.class_token"] =
      random_element(symmetry, 4).shifts.at("embed.exchange.class_token");
  auto shifted = parameters;
  act(symmetry, exchange, shifted);
  EXPECT_LE(change(a, parameters, shifted), 1e-9);
  auto of_register = parameters;
  of_register.at("embed.registers").row(0) +=
      shifted.at("embed.class_token") - parameters.at("embed.class_token");
  of_register.at("embed.positions") = shifted.at("embed.positions");
  EXPECT_GT(change(a, parameters, of_register), 1e-2);
}

// A transform behind a final norm reads the stream, and its neurons are not the stream's
// coordinates; what is tied to its output is, as the tokens' table is.
TEST(NegativeControls, ATransformLeftBehindIsSeen) {
  const auto left_behind = [](const Architecture& a, Category category, const char* tensor) {
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 1);
    auto moved = parameters;
    for (std::uint64_t seed = 1; moved.at(tensor) == parameters.at(tensor); ++seed) {
      moved = parameters;
      act(symmetry, random_element(symmetry, seed, {category}), moved);
    }
    EXPECT_LE(change(a, parameters, moved), 1e-9);
    moved.at(tensor) = parameters.at(tensor);
    return change(a, parameters, moved);
  };
  const Architecture untied = transform_architecture(false, false);
  EXPECT_GT(left_behind(untied, Category::residual, "head.transform.weight"), 1e-2);
  EXPECT_GT(left_behind(untied, Category::ffn, "head.weight"), 1e-2);
  EXPECT_GT(left_behind(untied, Category::norms, "head.norm.gain"), 1e-2);
  for (const bool embedding_norm : {false, true}) {
    const Architecture tied = transform_architecture(true, embedding_norm);
    EXPECT_GT(left_behind(tied, Category::residual, "head.transform.weight"), 1e-2);
    EXPECT_GT(left_behind(tied, Category::residual, "head.transform.norm.gain"), 1e-2);
    EXPECT_FALSE(symmetry_of(tied).find_space("residual")->is_orthogonal());
  }
}

// Heads that read one table of distances move in all layers at once, as in T5's stacks; only rows
// that no distance of the position table falls into are free.
TEST(NegativeControls, ALayerBesideASharedTableOrARowThatIsReachedIsSeen) {
  const Architecture a = mpnet_architecture(2, 3);
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  auto moved = parameters;
  for (std::uint64_t seed = 1; moved == parameters; ++seed) {
    act(symmetry, random_element(symmetry, seed, {Category::heads}), moved);
  }
  EXPECT_LE(change(a, parameters, moved), 1e-9);
  auto half = moved;
  for (const auto& [name, value] : parameters) {
    if (layer_of(name) == 1) half.at(name) = value;
  }
  EXPECT_GT(change(a, parameters, half), 1e-4);
  for (std::int64_t row = 0; row < 8; ++row) {
    auto changed = parameters;
    changed.at("layers.0.attn.relative_bias")(row, 0) += 1;
    const bool free = row == 3 || row == 4 || row == 7;
    EXPECT_EQ(change(a, parameters, changed) < 1e-12, free) << row;
  }
}

// One table feeds both stacks, so that their streams move together; one table of distances serves
// all layers of a stack, so that their heads do.
TEST(NegativeControls, AStackOrALayerThatMovesAloneIsSeen) {
  for (const bool tied : {false, true}) {
    const Architecture a = t5_architecture({14, 6, 2, 2, 3, 5}, !tied, tied);
    const Symmetry symmetry = symmetry_of(a);
    const auto parameters = random_parameters(a, 1);
    // What an element of this category does, with the tensors of some layers left as they were.
    const auto without = [&](Category category, const std::function<bool(std::string_view)>& left) {
      std::uint64_t seed = 1;
      auto moved = parameters;
      while (moved.at("layers.1.attn.o.weight") == parameters.at("layers.1.attn.o.weight")) {
        moved = parameters;
        act(symmetry, random_element(symmetry, seed++, {category}), moved);
      }
      EXPECT_LE(change(a, parameters, moved), 1e-9);
      for (const auto& [name, value] : parameters) {
        if (left(name)) moved.at(name) = value;
      }
      return change(a, parameters, moved);
    };
    const auto of_decoder = [&](std::string_view name) {
      const std::int64_t layer = layer_of(name);
      if (layer < 0) return !name.starts_with("encoder.");
      const bool reads_encoder = name.ends_with("attn.k.weight") || name.ends_with("attn.v.weight");
      if (a.layer(layer).attention.cross && reads_encoder) return false;
      return layer >= a.encoder_layers;
    };
    EXPECT_GT(without(Category::residual, of_decoder), 1e-2);
    EXPECT_GT(without(Category::heads, [](auto name) { return layer_of(name) == 1; }), 1e-4);
    EXPECT_GT(without(Category::heads, [](auto name) { return layer_of(name) == 0; }), 1e-4);
  }
}

// BART: the streams permute together, the encoder's last gain goes into keys and values, and of
// cross-attention's constants those of the queries count.
TEST(NegativeControls, WhatPassesFromStackToStackIsSeen) {
  const Architecture a =
      bart_architecture({14, 6, 1, 1, 2, 5}, PositionTable::learned, Placement::post, true);
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  const Element random = random_element(symmetry, 3);
  // The function behind a part of the element, and behind the same with some tensors left alone.
  const auto expect_seen = [&](const Element& part, const std::vector<std::string>& left) {
    auto moved = parameters;
    act(symmetry, part, moved);
    EXPECT_LE(change(a, parameters, moved), 1e-9);
    for (const std::string& name : left) moved.at(name) = parameters.at(name);
    EXPECT_GT(change(a, parameters, moved), 1e-3) << left.front();
  };
  Element part;
  part.maps["residual"] = random.maps.at("residual");
  expect_seen(part, {"encoder.embed.positions"});
  expect_seen(part, {"encoder.embed.norm.gain"});
  expect_seen(part, {"layers.2.attn.k.weight", "layers.2.attn.v.weight"});
  part = {};
  part.maps["layers.0.ffn.norm"] = random.maps.at("layers.0.ffn.norm");
  expect_seen(part, {"layers.2.attn.k.weight"});
  part = {};
  part.shifts["layers.2.attn.v.constant"] = random.shifts.at("layers.2.attn.v.constant");
  expect_seen(part, {"layers.2.attn.o.bias"});
  part = {};
  part.shifts["layers.0.ffn.norm.shift"] = random.shifts.at("layers.0.ffn.norm.shift");
  expect_seen(part, {"layers.2.attn.v.bias"});

  auto shifted = parameters;
  shifted.at("layers.2.attn.k.bias").array() += 0.5;
  EXPECT_LE(change(a, parameters, shifted), 1e-9);
  shifted = parameters;
  shifted.at("layers.2.attn.q.bias").array() += 0.5;
  EXPECT_GT(change(a, parameters, shifted), 1e-3);
  // The last gain of the decoder, which the tied table reads, and that in front of cross-attention.
  for (const char* gain : {"layers.2.ffn.norm", "layers.1.attn.norm"}) {
    EXPECT_EQ(symmetry.find_space(gain), nullptr);
  }
}

// Whisper: channels and the encoder's coordinates change places everywhere, or nowhere; the streams
// apart.
TEST(NegativeControls, AConvolutionOrAStreamLeftBehindIsSeen) {
  const Architecture a = whisper_architecture({14, 8, 1, 1, 2, 5});
  const Symmetry symmetry = symmetry_of(a);
  const auto parameters = random_parameters(a, 1);
  const Element random = random_element(symmetry, 3);
  const auto expect_seen = [&](const std::string& space, const std::vector<std::string>& left) {
    Element part;
    part.maps[space] = random.maps.at(space);
    auto moved = parameters;
    act(symmetry, part, moved);
    EXPECT_LE(change(a, parameters, moved), 1e-9) << space;
    for (const std::string& name : left) moved.at(name) = parameters.at(name);
    EXPECT_GT(change(a, parameters, moved), 1e-3) << left.front();
  };
  expect_seen("encoder.embed.conv.0", {"encoder.embed.conv.1.weight"});
  expect_seen("encoder.embed.conv.0", {"encoder.embed.conv.0.bias"});
  expect_seen("encoder.residual", {"encoder.embed.positions"});
  expect_seen("encoder.residual", {"encoder.embed.conv.1.weight"});
  expect_seen("encoder.residual", {"layers.2.attn.k.weight"});
  expect_seen("encoder.residual", {"encoder.norm.gain"});
  expect_seen("residual", {"layers.2.attn.q.weight"});
}

}  // namespace
}  // namespace regauge
