#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "architectures.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

using Change = void (*)(Architecture&);

Architecture with(Architecture architecture, Change change) {
  change(architecture);
  return architecture;
}

void no_positions(Architecture& a) {
  a.position_table = PositionTable::none;
  a.kinds[0].attention.positions = Positions::none;
  a.kinds[0].attention.rotary_dims = 0;
  a.kinds[0].attention.rotary_frequencies.clear();
}

void position_table(Architecture& a, PositionTable table, std::int64_t rows) {
  no_positions(a);
  a.position_table = table;
  a.max_positions = rows;
}

void rotary(Architecture& a, std::int64_t dims) {
  a.position_table = PositionTable::none;
  a.kinds[0].attention.positions = Positions::rotary;
  a.kinds[0].attention.rotary_dims = dims;
  a.kinds[0].attention.rotary_frequencies = rotary_frequencies(dims, 10000);
}

void qkv_biases(Architecture& a) {
  a.kinds[0].attention.biases.q = a.kinds[0].attention.biases.k = a.kinds[0].attention.biases.v =
      true;
}

// q, k, v, o, up, down; a gate and the head have none.
void sublayer_biases(Architecture& a) {
  qkv_biases(a);
  a.kinds[0].attention.biases.o = a.kinds[0].ffn.biases.up = a.kinds[0].ffn.biases.down = true;
}

void layer_norm(Architecture& a) {
  a.norm = Norm::layer;
  a.norm_bias = true;
}

void post_norm(Architecture& a) {
  layer_norm(a);
  a.kinds[0].placement = Placement::post;
  a.embedding_norm = true;
  a.causal = false;
}

Architecture llama() {
  Architecture a;
  a.vocabulary = 9;
  a.width = 6;
  a.layers = 2;
  a.kinds[0].attention.heads = a.kinds[0].attention.kv_heads = 2;
  a.kinds[0].attention.qk_width = a.kinds[0].attention.v_width = 4;
  a.kinds[0].ffn.width = 7;
  a.max_positions = 4;
  a.kinds[0].attention.scale = 0.5;
  a.kinds[0].ffn.activation = Activation::silu;
  a.kinds[0].ffn.gated = true;
  rotary(a, 4);
  return a;
}

// RMS, GELU, no positions, no biases, untied; V 30, T 5.
Architecture plain() {
  Architecture a = llama();
  no_positions(a);
  a.vocabulary = 30;
  a.max_positions = 5;
  a.kinds[0].ffn.activation = Activation::gelu;
  a.kinds[0].ffn.gated = false;
  return a;
}

Architecture gpt2() {
  Architecture a = plain();
  layer_norm(a);
  sublayer_biases(a);
  a.vocabulary = 9;
  position_table(a, PositionTable::learned, 4);
  a.head_bias = true;
  return a;
}

std::vector<KnownArchitecture> make_known_architectures() {
  std::vector<KnownArchitecture> rows;
  const auto add = [&](const char* name, Architecture a, std::int64_t parameters,
                       std::int64_t nullity) {
    validate(a);
    rows.push_back({name, std::move(a), parameters, nullity});
  };
  const auto from_llama = [&](const char* name, std::int64_t parameters, std::int64_t nullity,
                              Change change) {
    add(name, with(llama(), change), parameters, nullity);
  };
  const auto from_plain = [&](const char* name, std::int64_t parameters, std::int64_t nullity,
                              Change change) {
    add(name, with(plain(), change), parameters, nullity);
  };
  const auto from_gpt2 = [&](const char* name, std::int64_t parameters, std::int64_t nullity,
                             Change change) {
    add(name, with(gpt2(), change), parameters, nullity);
  };
  add("llama", llama(), 774, 140);
  from_llama("llama, no positions", 774, 188, no_positions);
  from_llama("llama, alibi", 774, 188, [](Architecture& a) {
    no_positions(a);
    a.kinds[0].attention.positions = Positions::alibi;
  });
  from_llama("llama, half rotary", 774, 148, [](Architecture& a) { rotary(a, 2); });
  from_llama("llama, one kv head", 678, 100,
             [](Architecture& a) { a.kinds[0].attention.kv_heads = 1; });
  from_llama("llama, tied", 720, 119, [](Architecture& a) { a.tied = true; });
  from_llama("llama, q/k/v biases", 822, 144, qkv_biases);
  from_llama("llama, qk norm", 790, 136,
             [](Architecture& a) { a.kinds[0].attention.qk_norm = QkNorm::heads; });
  from_llama("llama, qk norm, one kv head", 694, 102, [](Architecture& a) {
    a.kinds[0].attention.qk_norm = QkNorm::heads;
    a.kinds[0].attention.kv_heads = 1;
  });
  from_llama("llama, sinusoidal, T = 4", 774, 175,
             [](Architecture& a) { position_table(a, PositionTable::sinusoidal, 4); });
  from_llama("llama, sinusoidal, T = 12", 774, 172,
             [](Architecture& a) { position_table(a, PositionTable::sinusoidal, 12); });
  from_llama("llama, learned positions", 798, 194,
             [](Architecture& a) { position_table(a, PositionTable::learned, 4); });
  from_plain("rms, gelu, rotary", 942, 126, [](Architecture& a) { rotary(a, 4); });
  from_plain("rms, gelu, rotary, tied", 762, 105, [](Architecture& a) {
    rotary(a, 4);
    a.tied = true;
  });
  add("gpt2, untied, head bias", gpt2(), 839, 354);
  from_gpt2("gpt2, untied", 830, 345, [](Architecture& a) { a.head_bias = false; });
  from_gpt2("gpt2, tied", 776, 309, [](Architecture& a) {
    a.head_bias = false;
    a.tied = true;
  });
  from_gpt2("gpt2, tied, log-probabilities", 776, 315, [](Architecture& a) {
    a.head_bias = false;
    a.tied = true;
    a.log_probabilities = true;
  });
  from_gpt2("bert", 839, 324, post_norm);
  from_plain("neox", 1178, 329, [](Architecture& a) {
    a.vocabulary = 40;
    layer_norm(a);
    sublayer_biases(a);
    rotary(a, 2);
    a.kinds[0].parallel = true;
  });

  from_plain("layer norm, gelu, rotary", 0, 217, [](Architecture& a) {
    layer_norm(a);
    rotary(a, 4);
  });
  from_plain("layer norm, swiglu, no positions, tied", 0, 243, [](Architecture& a) {
    layer_norm(a);
    a.kinds[0].ffn.gated = true;
    a.kinds[0].ffn.activation = Activation::silu;
    a.tied = true;
  });
  from_plain("rms, swiglu, alibi, q/k/v biases, one kv head", 0, 132, [](Architecture& a) {
    a.kinds[0].attention.positions = Positions::alibi;
    a.kinds[0].ffn.gated = true;
    a.kinds[0].ffn.activation = Activation::silu;
    a.kinds[0].attention.kv_heads = 1;
    qkv_biases(a);
  });
  from_plain("rms, gelu, rotary, biases, parallel", 0, 154, [](Architecture& a) {
    rotary(a, 4);
    sublayer_biases(a);
    a.kinds[0].parallel = true;
  });
  from_plain("layer norm, gelu, rotary, q/k/v biases, tied, log-probabilities", 0, 214,
             [](Architecture& a) {
               layer_norm(a);
               rotary(a, 4);
               qkv_biases(a);
               a.tied = true;
               a.log_probabilities = true;
             });
  from_plain("layer norm, gelu, sinusoidal, biases", 0, 346, [](Architecture& a) {
    layer_norm(a);
    sublayer_biases(a);
    a.position_table = PositionTable::sinusoidal;
  });
  from_plain("rms, swiglu, qk norm, no positions", 0, 140, [](Architecture& a) {
    a.kinds[0].ffn.gated = true;
    a.kinds[0].ffn.activation = Activation::silu;
    a.kinds[0].attention.qk_norm = QkNorm::heads;
  });
  from_plain("rms, gelu, learned, biases, tied, log-probabilities", 0, 191, [](Architecture& a) {
    a.position_table = PositionTable::learned;
    sublayer_biases(a);
    a.tied = true;
    a.log_probabilities = true;
  });
  from_plain("post layer norm, gelu, learned, biases, bidirectional", 0, 337, [](Architecture& a) {
    post_norm(a);
    sublayer_biases(a);
    a.position_table = PositionTable::learned;
  });
  from_plain("post layer norm, swiglu, learned, biases, bidirectional, head bias", 0, 381,
             [](Architecture& a) {
               post_norm(a);
               sublayer_biases(a);
               a.head_bias = true;
               a.kinds[0].ffn.gated = true;
               a.kinds[0].ffn.activation = Activation::silu;
               a.position_table = PositionTable::learned;
             });
  from_plain("post layer norm, gelu, rotary, biases, head bias, V 12, T 6", 0, 268,
             [](Architecture& a) {
               post_norm(a);
               sublayer_biases(a);
               a.head_bias = true;
               a.causal = true;
               a.vocabulary = 12;
               a.max_positions = 6;
               rotary(a, 4);
             });
  return rows;
}

}  // namespace

const std::vector<KnownArchitecture>& known_architectures() {
  static const std::vector<KnownArchitecture> rows = make_known_architectures();
  return rows;
}

const Architecture& known_architecture(const std::string& name) {
  for (const auto& known : known_architectures()) {
    if (known.name == name) return known.architecture;
  }
  throw std::logic_error("no architecture is called " + name);
}

Architecture widened(Architecture a) {
  a.width = 16;
  a.kinds[0].attention.heads = 4;
  a.kinds[0].attention.kv_heads = a.kinds[0].attention.kv_heads == 1 ? 1 : 2;
  a.kinds[0].ffn.width = 24;
  a.vocabulary = 40;
  a.norm_eps = 1e-6;
  return a;
}

}  // namespace regauge
