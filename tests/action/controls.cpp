#include "controls.h"

#include "arch/experts.h"
#include "numerics/decompositions.h"
#include "numerics/random_matrix.h"
#include "regauge/action/act.h"
#include "regauge/symmetry/block_map.h"
#include "regauge/symmetry/matrix_group.h"

namespace regauge::testing {
namespace {

using P = Parameters<double>;

// One matrix on every head of q, its dual on every head of k.
void on_heads(const Architecture& a, P& p, const Matrix<double>& map) {
  const BlockMap<double> q(a.kinds[0].attention.heads, a.kinds[0].attention.qk_width, {},
                           map.replicate(a.kinds[0].attention.heads, 1));
  const BlockMap<double> k(a.kinds[0].attention.kv_heads, a.kinds[0].attention.qk_width, {},
                           map.replicate(a.kinds[0].attention.kv_heads, 1));
  for (const char* end : {"weight", "bias"}) {
    const std::string at = "layers.0.attn.";
    if (p.contains(at + "q." + end)) q.apply(p[at + "q." + end], 1);
    if (p.contains(at + "k." + end)) k.dual().apply(p[at + "k." + end], 1);
  }
}

void general_linear(const Architecture& a, P& p) {
  Random random(1, "control");
  on_heads(a, p, random_invertible(a.kinds[0].attention.qk_width, random));
}

// A turn of coordinates (0, dims/2), as if pairs were halves.
void wrong_pairs(const Architecture& a, P& p) {
  Matrix<double> turn =
      Matrix<double>::Identity(a.kinds[0].attention.qk_width, a.kinds[0].attention.qk_width);
  const auto half = a.kinds[0].attention.rotary_dims / 2;
  turn(0, 0) = turn(half, half) = std::cos(0.7);
  turn(0, half) = std::sin(0.7);
  turn(half, 0) = -std::sin(0.7);
  on_heads(a, p, turn);
}

// The columns of `heads` equal heads from pairs into halves.
void into_halves(Matrix<double>& value, std::int64_t heads, std::int64_t rotary_dims) {
  const Matrix<double> before = value;
  const std::int64_t width = value.cols() / heads;
  const std::int64_t dims = std::min(rotary_dims, width - width % 2);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < dims; ++i) {
      value.col(h * width + (i % 2) * (dims / 2) + i / 2) = before.col(h * width + i);
    }
  }
}

// A layout permutation of keys and queries that was done once too often.
void layout_twice(const Architecture& a, P& p) {
  into_halves(p["layers.0.attn.q.weight"], a.kinds[0].attention.heads,
              a.kinds[0].attention.rotary_dims);
  into_halves(p["layers.0.attn.k.weight"], a.kinds[0].attention.kv_heads,
              a.kinds[0].attention.rotary_dims);
}

// Keys permuted as if there were one head.
void wrong_kv_heads(const Architecture&, P& p) {
  auto& k = p["layers.0.attn.k.weight"];
  into_halves(k, 1, k.cols());
}

void across_heads(const Architecture& a, P& p) {
  auto& v = p["layers.0.attn.v.weight"];
  v.col(0).swap(v.col(a.kinds[0].attention.v_width));
  auto& o = p["layers.0.attn.o.weight"];
  const std::int64_t group = a.kinds[0].attention.heads / a.kinds[0].attention.kv_heads;
  for (std::int64_t i = 0; i < group; ++i) {
    o.row(i * a.kinds[0].attention.v_width).swap(o.row((group + i) * a.kinds[0].attention.v_width));
  }
  if (p.contains("layers.0.attn.v.bias")) {
    auto& bias = p["layers.0.attn.v.bias"];
    bias.col(0).swap(bias.col(a.kinds[0].attention.v_width));
  }
}

void centring(const Architecture&, P& p) {
  p["embed.tokens"].colwise() -= p["embed.tokens"].rowwise().mean().eval();
}

// Everything that writes to the stream or reads it turned: right where the gains are 1 and nothing
// is tied.
void rotation_past_gains(const Architecture& a, P& p) {
  Random random(2, "control");
  const BlockMap<double> rotation(1, a.width, {}, random_rotation(a.width, random));
  for (auto& [name, value] : p) {
    const bool table = name == "embed.tokens" || name == "embed.types" ||
                       name == "embed.positions" || name == "embed.class_token";
    const bool writes = table || name.ends_with("attn.o.weight") || name.ends_with("down.weight") ||
                        name.ends_with("attn.o.bias") || name.ends_with("down.bias");
    if (writes) {
      rotation.apply(value, 1);
    } else if (name.ends_with(".weight") && value.rows() == a.width) {
      rotation.apply(value, 0);
    }
  }
}

// Of the group of the untied model; the table moves as a writer only.
void rotation_of_a_tied_model(const Architecture& a, P& p) {
  Architecture untied = a;
  untied.tied = false;
  P moved = p;
  moved["head.weight"] = p.at("embed.tokens").transpose();
  const Symmetry symmetry = symmetry_of(untied);
  act(symmetry, random_element(symmetry, 1, {Category::residual}), moved);
  for (auto& [name, value] : p) value = moved.at(name);
}

void gains_as_offsets(const Architecture&, P& p) {
  for (auto& [name, value] : p) {
    if (name.ends_with(".gain")) value.array() -= 1;
  }
}

// Two experts of layer 0 change places, with all that is theirs.
void exchange_experts(const Architecture& a, P& p, std::int64_t one, std::int64_t other) {
  const std::int64_t m = a.kinds[0].ffn.width;
  const std::string at = "layers.0.ffn.";
  for (std::int64_t i = 0; i < m; ++i) {
    for (const char* name : {"gate.weight", "up.weight"}) {
      if (p.contains(at + name))
        p[at + name].col(one * m + i).swap(p[at + name].col(other * m + i));
    }
    auto& down = p[at + "down.weight"];
    down.row(one * m + i).swap(down.row(other * m + i));
  }
  p[at + "router.weight"].col(one).swap(p[at + "router.weight"].col(other));
  if (p.contains(at + "selection.bias")) {
    p[at + "selection.bias"].col(one).swap(p[at + "selection.bias"].col(other));
  }
}

void experts_across_groups(const Architecture& a, P& p) {
  const Experts& e = a.kinds[0].ffn.experts;
  exchange_experts(a, p, 0, e.count / e.groups);
}

// The factors stay where they are.
void experts_without_their_factors(const Architecture& a, P& p) { exchange_experts(a, p, 0, 1); }

// A norm may forget what all have in common, and an expert may be one that no token chooses.
void factors_of_experts(const Architecture&, P& p) {
  Matrix<double>& factors = p["layers.0.ffn.experts.scale.gain"];
  for (Eigen::Index e = 0; e < factors.cols(); ++e) factors(0, e) *= 1 + static_cast<double>(e);
}

// The router's norm and that of the experts are two.
void gain_of_another_norm(const Architecture&, P& p) {
  const Matrix<double> gain = p["layers.0.ffn.norm.gain"];
  p["layers.0.ffn.norm.gain"].setOnes();
  for (const char* reader : {"router", "gate", "up"}) {
    const auto weight = p.find(std::string("layers.0.ffn.") + reader + ".weight");
    if (weight != p.end()) weight->second = gain.row(0).asDiagonal() * weight->second;
  }
}

// Of two branches whose sum is normed, the length of one.
void length_of_one_branch(const Architecture&, P& p) {
  p["layers.0.ffn.shared.post_norm.gain"] *= 1.5;
}

void common_vector_of_a_router(const Architecture&, P& p) {
  p["layers.0.ffn.router.weight"].row(0).array() += 0.5;
}

void one_bias_of_the_choice(const Architecture&, P& p) {
  p["layers.0.ffn.selection.bias"](0, 0) += 3;
}

Matrix<double> rotation(std::int64_t width) {
  Random random(3, "control");
  return random_rotation(width, random);
}

// A phase of one head's rotating queries, without the others and their common key.
void phase_of_one_head(const Architecture&, P& p) {
  Matrix<double>& q = p["layers.0.attn.q_rotary.weight"];
  Matrix<double> turn(2, 2);
  turn << std::cos(0.7), std::sin(0.7), -std::sin(0.7), std::cos(0.7);
  q.leftCols(2) = (q.leftCols(2) * turn).eval();
}

void turn_latent(P& p, const Matrix<double>& map, const Matrix<double>& back) {
  p["layers.0.attn.kv_latent.weight"] *= map;
  for (const char* name : {"layers.0.attn.k.weight", "layers.0.attn.v.weight"}) {
    p[name] = back * p[name];
  }
}

// Right where the latent's gain is 1.
void latent_past_its_gain(const Architecture& a, P& p) {
  const Matrix<double> turn = rotation(a.kinds[0].attention.kv_latent);
  turn_latent(p, turn, turn.transpose());
}

// Right where there is no norm; the gain is taken along.
void latent_by_any_map(const Architecture& a, P& p) {
  Random random(4, "control");
  const auto width = a.kinds[0].attention.kv_latent;
  const Matrix<double> map = random_invertible(width, random);
  const Eigen::VectorXd gain = p["layers.0.attn.kv_latent.norm.gain"].row(0).transpose();
  const Matrix<double> back = gain.cwiseInverse().asDiagonal() * inverse(map) * gain.asDiagonal();
  turn_latent(p, map, back);
}

// A scale that moves from the rotating part of the logits to the other.
void scale_between_parts(const Architecture&, P& p) {
  p["layers.0.attn.q_rotary.weight"] *= 1.5;
  p["layers.0.attn.q.weight"] /= 1.5;
}

// Everything moved by an element but what maps vectors into the stream.
void vectors_left_behind(const Architecture& a, P& p) {
  const Symmetry symmetry = symmetry_of(a);
  const Matrix<double> before = p["embed.input.weight"];
  act(symmetry, random_element(symmetry, 5, {Category::residual}), p);
  p["embed.input.weight"] = before;
}

// Right where no gate multiplies what the heads have gathered.
void values_turned_before_a_gate(const Architecture& a, P& p) {
  const Attention& shape = a.layer(0).attention;
  const Matrix<double> turn = rotation(shape.v_width);
  BlockMap<double>(shape.kv_heads, shape.v_width, {}, turn.replicate(shape.kv_heads, 1))
      .apply(p["layers.0.attn.v.weight"], 1);
  BlockMap<double>(shape.heads, shape.v_width, {}, turn.replicate(shape.heads, 1))
      .apply(p["layers.0.attn.o.weight"], 0);
}

void channels_without_their_kernels(const Architecture&, P& p) {
  p["layers.0.delta.v.weight"].col(0) *= 1.5;
  p["layers.0.delta.o.weight"].row(0) /= 1.5;
}

void exchange_columns(Matrix<double>& value) { value.col(0).swap(value.col(1)); }

void channels_of_q_without_k(const Architecture&, P& p) {
  exchange_columns(p["layers.0.delta.q.weight"]);
  exchange_columns(p["layers.0.delta.q_conv.weight"]);
}

// Right where the gain is 1, or where all heads do so and the gain with them.
void channels_past_the_gain(const Architecture&, P& p) {
  for (const char* name : {"v", "v_conv", "z"}) {
    exchange_columns(p["layers.0.delta." + std::string(name) + ".weight"]);
  }
  Matrix<double>& o = p["layers.0.delta.o.weight"];
  o.row(0).swap(o.row(1));
}

// The last value head of a key head and the first of the next.
void value_heads_across_key_heads(const Architecture& a, P& p) {
  const DeltaNet& d = a.layer(0).delta;
  std::vector<std::int64_t> places(static_cast<std::size_t>(d.value_heads));
  for (std::int64_t i = 0; i < d.value_heads; ++i) places[static_cast<std::size_t>(i)] = i;
  std::swap(places[static_cast<std::size_t>(d.group() - 1)],
            places[static_cast<std::size_t>(d.group())]);
  const BlockMap<double> heads(d.value_heads, 1, places, {});
  const std::string at = "layers.0.delta.";
  for (const char* name : {"a.weight", "a.bias", "b.weight", "decay"}) heads.apply(p[at + name], 1);
  const BlockMap<double> channels = heads.repeated(d.value_width);
  for (const char* name : {"v.weight", "v_conv.weight", "z.weight"})
    channels.apply(p[at + name], 1);
  channels.apply(p[at + "o.weight"], 0);
}

// Behind a norm a head's values may turn, and nothing more.
void values_by_any_map(const Architecture& a, P& p) {
  const Attention& attention = a.layer(0).attention;
  Random random(1, "control");
  const Matrix<double> map = random_invertible(attention.v_width, random);
  const auto on = [&](std::int64_t heads) {
    return BlockMap<double>(heads, attention.v_width, {}, map.replicate(heads, 1));
  };
  on(attention.kv_heads).apply(p["layers.0.attn.v.weight"], 1);
  on(attention.heads).dual().apply(p["layers.0.attn.o.weight"], 0);
}

bool has_tables(const Architecture& a) { return a.has_tables() && a.table_width > 1; }

// All layers have one gain behind the maps of their tables.
void table_of_one_layer(const Architecture&, P& p) {
  for (const char* name : {"gate.weight", "map.weight", "tokens"}) {
    Matrix<double>& tensor = p[std::string("layers.0.table.") + name];
    tensor.col(0).swap(tensor.col(1));
  }
  Matrix<double>& down = p["layers.0.table.down.weight"];
  down.row(0).swap(down.row(1));
}

// The last layer is one that takes them.
bool shares_keys(const Architecture& a) {
  const Attention& last = a.layer(a.layers - 1).attention;
  return last.shares_keys && !last.keys_as_values;
}

void values_of_two_layers(const Architecture& a, P& p) {
  const std::string at = "layers." + std::to_string(a.keys_of(a.layers - 1)) + ".attn.";
  p[at + "v.weight"] *= -1;
  p[at + "o.weight"] *= -1;
}

// Where keys are values, a half turn of a pair is seen by what reads the values.
void key_signs_without_o(const Architecture& a, P& p) {
  const std::int64_t width = a.layer(0).attention.qk_width;
  for (const char* name : {"layers.0.attn.q.weight", "layers.0.attn.k.weight"}) {
    Matrix<double>& weight = p[name];
    for (Eigen::Index at = 0; at < weight.cols(); at += width) weight.middleCols(at, width) *= -1;
  }
}

bool begins_with_delta_net(const Architecture& a) { return a.layer(0).has_delta(); }

}  // namespace

bool rotary(const Architecture& a) {
  return a.kinds[0].attention.positions == Positions::rotary &&
         a.kinds[0].attention.rotary_dims >= 4 && !latents(a);
}

bool latents(const Architecture& a) { return a.kinds[0].attention.has_latents(); }

bool tokens_before_rms(const Architecture& a) {
  return a.norm == Norm::rms && a.input == Input::tokens && !a.embedding_norm;
}

const std::vector<Control>& negative_controls() {
  static const std::vector<Control> all = {
      {"a general linear map on a rotary head", rotary, general_linear},
      {"a rotation in the wrong pairs", rotary, wrong_pairs},
      {"a layout permutation applied twice", rotary, layout_twice},
      {"a layout permutation with the wrong number of kv heads",
       [](const Architecture& a) {
         return rotary(a) && a.kinds[0].attention.kv_heads < a.kinds[0].attention.heads &&
                a.kinds[0].attention.kv_heads > 1;
       },
       wrong_kv_heads},
      {"a permutation across heads",
       [](const Architecture& a) {
         return a.kinds[0].attention.kv_heads > 1 && !a.kinds[0].attention.keys_as_values;
       },
       across_heads},
      {"a centred table in front of an rms norm", tokens_before_rms, centring},
      {"a rotation past the gains",
       [](const Architecture& a) {
         return tokens_before_rms(a) && a.kinds[0].placement == Placement::pre;
       },
       rotation_past_gains},
      {"a tied model rotated",
       [](const Architecture& a) {
         return tokens_before_rms(a) && a.kinds[0].placement == Placement::pre && a.tied;
       },
       rotation_of_a_tied_model},
      {"gains read as w instead of 1 + w", [](const Architecture&) { return true; },
       gains_as_offsets},
      {"experts that change their routing groups",
       [](const Architecture& a) { return groups_bind(a.kinds[0].ffn.experts); },
       experts_across_groups},
      {"experts that change places without their factors",
       [](const Architecture& a) {
         return a.kinds[0].ffn.experts.scales && a.kinds[0].ffn.experts.groups == 1;
       },
       experts_without_their_factors},
      {"the factors of experts changed",
       [](const Architecture& a) { return a.kinds[0].ffn.experts.scales; }, factors_of_experts},
      {"the experts' gain folded into a router behind its own norm",
       [](const Architecture& a) { return a.kinds[0].ffn.experts.own_norms; },
       gain_of_another_norm},
      {"the gain behind a shared expert made longer",
       [](const Architecture& a) { return a.kinds[0].ffn.experts.own_norms; },
       length_of_one_branch},
      {"a vector common to all columns of a sigmoid router",
       [](const Architecture& a) { return a.kinds[0].ffn.experts.scoring == Scoring::sigmoid; },
       common_vector_of_a_router},
      {"one bias of the choice changed",
       [](const Architecture& a) { return a.kinds[0].ffn.experts.selection_bias; },
       one_bias_of_the_choice},
      {"a phase of one head's rotating queries", latents, phase_of_one_head},
      {"a latent turned past its gain",
       [](const Architecture& a) { return latents(a) && a.kinds[0].attention.kv_latent > 1; },
       latent_past_its_gain},
      {"a general linear map on a latent",
       [](const Architecture& a) { return latents(a) && a.kinds[0].attention.kv_latent > 1; },
       latent_by_any_map},
      {"a scale between the parts of the logits", latents, scale_between_parts},
      {"a stream moved but for the map of its vectors",
       [](const Architecture& a) {
         return a.input == Input::tokens && a.input_width > 0 && !a.output.has(Output::hidden);
       },
       vectors_left_behind},
      {"values turned in front of an output gate",
       [](const Architecture& a) {
         return a.layer(0).attention.gate && a.layer(0).attention.v_width > 1;
       },
       values_turned_before_a_gate},
      {"values behind a norm under a general linear map",
       [](const Architecture& a) {
         const Attention& attention = a.layer(0).attention;
         return attention.value_norm && !attention.keys_as_values;
       },
       values_by_any_map},
      {"keys that are values, and queries, reversed without what reads the values",
       [](const Architecture& a) {
         return a.layer(0).attention.keys_as_values && !a.layer(0).attention.biases.q;
       },
       key_signs_without_o},
      {"a stream's number changed",
       [](const Architecture& a) { return a.layer(0).stream_scale && a.layers > 1; },
       [](const Architecture&, P& p) { p["layers.0.scale"] *= 1.5; }},
      {"a channel scaled without its kernel", begins_with_delta_net,
       channels_without_their_kernels},
      {"channels of q exchanged without those of k", begins_with_delta_net,
       channels_of_q_without_k},
      {"channels of one head exchanged past the gain", begins_with_delta_net,
       channels_past_the_gain},
      {"value heads that change their key heads",
       [](const Architecture& a) {
         return begins_with_delta_net(a) && a.layer(0).delta.key_heads > 1;
       },
       value_heads_across_key_heads},
      {"coordinates of one layer's table exchanged", has_tables, table_of_one_layer},
      {"a coordinate of one layer's table made longer", has_tables,
       [](const Architecture&, P& p) {
         p["layers.0.table.tokens"].col(0) *= 2;
         p["layers.0.table.down.weight"].row(0) /= 2;
       }},
      {"a gate of a table reversed", has_tables,
       [](const Architecture&, P& p) {
         p["layers.0.table.gate.weight"].col(0) *= -1;
         p["layers.0.table.down.weight"].row(0) *= -1;
       }},
      {"values reversed that another layer takes, too", shares_keys, values_of_two_layers},
  };
  return all;
}

}  // namespace regauge::testing
