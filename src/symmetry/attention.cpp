#include <fmt/format.h>

#include <algorithm>

#include "builder.h"

namespace regauge {

std::string SymmetryBuilder::heads_space(std::int64_t layer) const {
  const std::int64_t owner = attention(layer).shares_table ? a_.stack_of(layer) : layer;
  return fmt::format("layers.{}.attn.heads", owner);
}

void SymmetryBuilder::add_attention(std::int64_t layer) {
  const Attention& a = attention(layer);
  if (a.has_latents()) return add_latent_attention(layer);
  const std::string at = fmt::format("layers.{}.attn", layer);
  const std::string heads = heads_space(layer);
  // Of the layer that has the keys: what acts on these acts on the queries of all that take them.
  const std::string owner = fmt::format("layers.{}.attn", a_.keys_of(layer));
  const bool rotary = a.positions == Positions::rotary;
  const auto length = lengths_free_ ? Scaling::Kind::positive : Scaling::Kind::trivial;

  // Heads that read one table change places in all layers at once.
  if (!a.shares_table) {
    add_space({.name = heads,
               .category = Category::heads,
               .group = Scaling(a.qk_norm == QkNorm::heads ? length : Scaling::Kind::trivial),
               .count = a.heads,
               .shuffle = a.positions == Positions::alibi ? Shuffle::none : Shuffle::grouped,
               .group_size = a.group(),
               .follows = a.shares_keys ? owner + ".heads" : ""});
  }
  using Take = AxisPart::Take;
  Axis query;
  Axis key;
  if (a.qk_norm == QkNorm::heads) {
    if (!a.shares_keys) {
      add_space({.name = at + ".qk_gain",
                 .category = Category::qk,
                 .group = GainExchange(a.qk_width, pair_characters(a))});
      add_space({.name = at + ".turns",
                 .category = Category::qk,
                 .group = HalfTurns(a.qk_width, pair_characters(a)),
                 .count = a.kv_heads,
                 .shuffle = Shuffle::follows,
                 .follows = heads,
                 .exchanged_by = at + ".qk_gain"});
      add_gain_signs(at + ".k_norm", a.qk_width, "");
    }
    add_gain_signs(at + ".q_norm", a.qk_width, "", owner + ".qk_gain");
    query = {{.space = owner + ".turns", .take = Take::diagonal, .lift = heads},
             {.space = heads, .repeat = a.qk_width},
             {.space = at + ".q_norm", .take = Take::diagonal, .tile = a.heads},
             {.space = owner + ".qk_gain", .take = Take::pattern, .tile = a.heads}};
    key = {{.space = at + ".turns"},
           {.space = at + ".k_norm", .take = Take::diagonal, .tile = a.kv_heads},
           {.space = at + ".qk_gain", .take = Take::pattern, .tile = a.kv_heads}};
    if (lengths_free_ && !a.shares_keys) {
      add_space({.name = at + ".k",
                 .category = Category::qk,
                 .group = Scaling(Scaling::Kind::positive),
                 .count = a.kv_heads,
                 .shuffle = Shuffle::follows,
                 .follows = heads});
      key.insert(key.begin(), {.space = at + ".k", .take = Take::diagonal, .repeat = a.qk_width});
    }
    tensor(at + ".q_norm.gain").cols = {{.space = at + ".q_norm", .take = Take::diagonal},
                                        {.space = owner + ".qk_gain", .take = Take::absolute}};
    if (!a.shares_keys) {
      tensor(at + ".k_norm.gain").cols = {
          {.space = at + ".k_norm", .take = Take::diagonal},
          {.space = at + ".qk_gain", .dual = true, .take = Take::absolute}};
    }
  } else if (a.qk_norm == QkNorm::joint) {
    const std::string gain = at + ".qk_gain";
    add_space({.name = gain,
               .category = Category::qk,
               .group = GainExchange(a.qk_width, pair_characters(a)),
               .count = a.kv_heads,
               .shuffle = Shuffle::follows,
               .follows = heads});
    add_gain_signs(at + ".q_norm", a.heads * a.qk_width, heads);
    add_gain_signs(at + ".k_norm", a.kv_heads * a.qk_width, "");
    query = {{.space = at + ".q_norm", .take = Take::diagonal},
             {.space = gain, .take = Take::pattern, .lift = heads}};
    key = {{.space = at + ".k_norm", .take = Take::diagonal},
           {.space = gain, .take = Take::pattern}};
    tensor(at + ".q_norm.gain").cols = {{.space = at + ".q_norm", .take = Take::diagonal},
                                        {.space = gain, .take = Take::absolute, .lift = heads}};
    tensor(at + ".k_norm.gain").cols = {{.space = at + ".k_norm", .take = Take::diagonal},
                                        {.space = gain, .dual = true, .take = Take::absolute}};
    for (const char* name : {".q.scale", ".k.scale"}) {
      if (!lengths_free_) break;
      add_space({.name = at + name,
                 .category = Category::scales,
                 .group = Scaling(Scaling::Kind::positive)});
    }
    append_scalar(query, at + ".q.scale", a.heads * a.qk_width, false);
    append_scalar(key, at + ".k.scale", a.kv_heads * a.qk_width, false);
  } else {
    BlockGroup group = GeneralLinear(a.qk_width);
    if (rotary) group = RotaryCommutant(a.qk_width, pair_characters(a));
    add_space({.name = at + ".qk",
               .category = Category::qk,
               .group = std::move(group),
               .count = a.kv_heads,
               .shuffle = Shuffle::follows,
               .follows = heads});
    query = {{.space = at + ".qk", .lift = heads}};
    key = {{.space = at + ".qk", .dual = true}};
  }
  const Axis values = a.shares_keys ? Axis{} : add_values(layer);
  const Wire wire = wire_into(layer, true);
  if (a_.norms_attention(layer)) {
    add_gain_space(at + ".norm", wire.stream);
    add_pre_norm(at + ".norm", wire.stream);
  }
  const Wire source = wire_into_keys(layer);
  const Reader q = add_reader(at + ".q", a.biases.q, wire, std::move(query));
  Reader k, v;
  if (!a.shares_keys) {
    k = add_reader(at + ".k", a.biases.k, source, std::move(key));
    v = a.keys_as_values ? k : add_reader(at + ".v", a.biases.v, source, values);
  }
  if (a.gate) {
    add_space({.name = at + ".gate",
               .category = Category::vo,
               .count = a.heads * a.v_width,
               .shuffle = Shuffle::follows,
               .follows = at + ".vo",
               .lift = heads});
    add_reader(at + ".gate", false, wire, {{.space = at + ".gate"}});
  }
  std::string behind;
  if (a_.layer(layer).norms_output()) {
    behind = at + ".post_norm";
    add_output_norm(behind, a.heads * a.v_width + (a.biases.o ? 1 : 0));
  } else if (a_.layer(layer).layer_scale) {
    behind = at + ".layer_scale";
    add_layer_scale(behind, at + ".o");
  }
  add_writer(at + ".o", a.biases.o, wire, gathered_rows(layer), behind);

  if (a.positions == Positions::relative && !a.shares_table) add_relative_table(layer);
  if (a.contacts) tensor(at + ".contacts").cols = {{.space = heads, .take = Take::permutation}};
  if (a.sinks) tensor(at + ".sinks").cols = {{.space = heads, .take = Take::permutation}};
  if (!a.shares_keys) add_key_shift(layer, k, source);
  add_constants(layer, true, v);
  if (plain()) return;
  const bool last = !a_.layer(layer).has_ffn();
  add_post_norm(at + ".norm", last ? wire_into(layer + 1, true) : wire_into(layer, false));
}

// A norm of values keeps lengths and (eps = 0) forgets a factor of each head.
Axis SymmetryBuilder::add_values(std::int64_t layer) {
  const Attention& a = attention(layer);
  if (a.keys_as_values) return {};
  const std::string at = fmt::format("layers.{}.attn", layer), heads = heads_space(layer);
  BlockGroup group = GeneralLinear(a.v_width);
  if (a.gate) group = GainExchange::monomial(a.v_width);  // a gate sees coordinates
  if (a.value_norm) group = Orthogonal(a.v_width);
  add_space({.name = at + ".vo",
             .category = Category::vo,
             .group = std::move(group),
             .count = a.kv_heads,
             .shuffle = Shuffle::follows,
             .follows = heads});
  if (!a.value_norm || !lengths_free_) return {{.space = at + ".vo"}};
  add_space({.name = at + ".v",
             .category = Category::vo,
             .group = Scaling(Scaling::Kind::positive),
             .count = a.kv_heads,
             .shuffle = Shuffle::follows,
             .follows = heads});
  return {{.space = at + ".v", .take = AxisPart::Take::diagonal, .repeat = a.v_width},
          {.space = at + ".vo"}};
}

// What heads have gathered has the coordinates of values; where these are keys, those of keys.
Axis SymmetryBuilder::gathered_rows(std::int64_t layer) const {
  using Take = AxisPart::Take;
  const Attention& a = attention(layer);
  const std::string at = fmt::format("layers.{}.attn", a_.keys_of(layer));
  const std::string heads = heads_space(layer);
  if (!a.keys_as_values) return {{.space = at + ".vo", .dual = true, .lift = heads}};
  const std::int64_t width = a.qk_width;
  return {{.space = at + ".turns", .dual = true, .take = Take::diagonal, .lift = heads},
          {.space = heads, .dual = true, .take = Take::permutation, .repeat = width},
          {.space = at + ".k_norm", .dual = true, .take = Take::diagonal, .tile = a.heads},
          {.space = at + ".qk_gain", .dual = true, .take = Take::pattern, .tile = a.heads}};
}

void SymmetryBuilder::add_relative_table(std::int64_t layer) {
  const std::string table = fmt::format("layers.{}.attn.relative_bias", layer);
  tensor(table).cols = {{.space = heads_space(layer), .take = AxisPart::Take::permutation}};
  // Softmax does not see a constant over keys.
  const auto add_constant = [&](const std::string& name,
                                const std::vector<std::pair<std::int64_t, std::int64_t>>& runs) {
    Shift shift;
    shift.name = table + name;
    shift.length = shift.dimension = attention(layer).heads;
    shift.axis = tensor(table).cols;
    for (const auto& [first, last] : runs) {
      Effect effect;
      effect.tensor = table;
      effect.first_row = first;
      effect.last_row = last;
      shift.effects.push_back(effect);
    }
    add_shift(std::move(shift));
  };
  if (!attention(layer).grid) {
    add_constant(".constant", {{0, -1}});
    return add_unreached_rows(layer, table);
  }
  // What patches ask, and what the class token asks: grid_row. In the last layer only those ask
  // that something reads.
  const std::int64_t rows = attention(layer).relative_buckets;
  const bool last = layer + 1 == a_.layers;
  const auto add_asked = [&](const char* name, std::int64_t first, std::int64_t end,
                             std::int64_t other, bool read) {
    if (read) return add_constant(name, {{first, end}, {other, other + 1}});
    for (std::int64_t row = first; row < end; ++row) {
      add_constant(fmt::format(".unreached.{}", row), {{row, row + 1}});
    }
    add_constant(fmt::format(".unreached.{}", other), {{other, other + 1}});
  };
  add_asked(".constant", 0, rows - 3, rows - 2, !last || !a_.reads_one_position());
  add_asked(".class_token.constant", rows - 3, rows - 2, rows - 1, !last || !a_.mean_norm);
}

// A norm passes the sign of a coordinate on to its gain.
void SymmetryBuilder::add_gain_signs(const std::string& norm, std::int64_t coordinates,
                                     const std::string& lift, const std::string& exchange) {
  add_space({.name = norm,
             .category = Category::norms,
             .group = Scaling(Scaling::Kind::signs),
             .count = coordinates,
             .shuffle = Shuffle::follows,
             .follows = exchange.empty() ? norm.substr(0, norm.rfind('.')) + ".qk_gain" : exchange,
             .lift = lift});
}

// Rows of the table that no distance falls into (in bidirectional models the first row for later
// keys: distance 0 is not later). A position table bounds distances.
void SymmetryBuilder::add_unreached_rows(std::int64_t layer, const std::string& table) {
  const Attention& a = attention(layer);
  const bool causal = a_.is_causal(layer);
  std::vector<bool> reached(static_cast<std::size_t>(a.relative_buckets));
  std::int64_t farthest = a.relative_buckets + a.relative_max_distance;
  if (a_.has_position_table()) farthest = std::min(farthest, a_.max_positions - 1);
  for (std::int64_t t = 0; t <= farthest; ++t) {
    reached[static_cast<std::size_t>(relative_bucket(a, causal, -t))] = true;
    if (!causal) reached[static_cast<std::size_t>(relative_bucket(a, causal, t))] = true;
  }
  for (std::int64_t row = 0; row < a.relative_buckets; ++row) {
    if (reached[static_cast<std::size_t>(row)]) continue;
    Shift shift;
    shift.name = fmt::format("{}.unreached.{}", table, row);
    shift.length = shift.dimension = a.heads;
    shift.axis = tensor(table).cols;
    Effect effect;
    effect.tensor = table;
    effect.first_row = row;
    effect.last_row = row + 1;
    shift.effects = {effect};
    add_shift(std::move(shift));
  }
}

// Softmax does not see a constant added to all keys, except in coordinates that rotate, behind a
// norm, through a cap on the logits, or beside a sink.
void SymmetryBuilder::add_key_shift(std::int64_t layer, const Reader& k, const Wire& wire) {
  const Attention& a = attention(layer);
  if (a.has_qk_norm() || !a.forgets_common_logit()) return;
  if (k.bias.empty() && !constant_behind(wire.norm)) return;
  const auto still = RotaryClasses(a.qk_width, pair_characters(a)).still;
  Shift shift;
  shift.name = fmt::format("layers.{}.attn.k.constant", layer);
  shift.length = a.kv_heads * a.qk_width;
  shift.free.resize(static_cast<std::size_t>(a.qk_width));
  for (const auto i : still) shift.free[static_cast<std::size_t>(i)] = true;
  shift.dimension = a.kv_heads * static_cast<std::int64_t>(still.size());
  shift.axis = tensor(k.weight).cols;
  shift.effects = {constant_effect(k, wire)};
  add_shift(std::move(shift));
}

Effect SymmetryBuilder::constant_effect(const Reader& reader, const Wire& wire) const {
  Effect effect;
  if (!reader.bias.empty()) {
    effect.tensor = reader.bias;
  } else {
    effect.kind = Effect::Kind::reader_constant;
    effect.tensor = reader.weight;
    effect.norm = wire.norm;
  }
  return effect;
}

// Attention rows sum to one where no sink takes a part, so a constant in the values leaves as a
// constant, unless a gate makes something else of it: some bias has to take it.
void SymmetryBuilder::add_value_shift(std::int64_t layer, const Reader& v, const Wire& wire) {
  const Attention& a = attention(layer);
  if (a.sinks || a.gate || a.value_norm || (v.bias.empty() && !constant_behind(wire.norm))) return;
  const std::string at = fmt::format("layers.{}", layer);
  const std::string taker = a.biases.o ? at + ".attn.o.bias"
                            : a_.layer(layer).parallel && feed_forward(layer).biases.down
                                ? at + ".ffn.down.bias"
                                : "";
  const std::int64_t length = a.kv_heads * a.v_width;
  if (taker.empty()) {
    add_counted_shift(at + ".attn.v.constant", std::max<std::int64_t>(0, length - visible_width()));
    return;
  }
  Shift shift;
  shift.name = at + ".attn.v.constant";
  shift.length = shift.dimension = length;
  shift.axis = tensor(v.weight).cols;
  Effect absorb;
  absorb.kind = Effect::Kind::absorb;
  absorb.tensor = at + ".attn.o.weight";
  absorb.target = taker;
  absorb.spread = a.group();
  absorb.width = a.v_width;
  absorb.centred = layer_norm();
  if (a_.layer(layer).layer_scale) absorb.norm = at + ".attn.layer_scale";
  shift.effects = {constant_effect(v, wire), absorb};
  add_shift(std::move(shift));
}

}  // namespace regauge
