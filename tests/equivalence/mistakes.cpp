#include "mistakes.h"

#include <algorithm>
#include <array>
#include <map>

#include "action/controls.h"

namespace regauge::testing {
namespace {

using M = Matrix<double>;

std::string at(std::int64_t layer, const std::string& name) {
  return "layers." + std::to_string(layer) + "." + name;
}

bool stream_turns(const Architecture& a) {
  return tokens_before_rms(a) && a.kinds[0].placement == Placement::pre &&
         a.position_table != PositionTable::sinusoidal && a.output != Output::hidden;
}
bool anything(const Architecture&) { return true; }
bool several_kv_heads(const Architecture& a) { return a.kinds[0].attention.kv_heads > 1; }
// Three maps that a file may hold as one.
bool fusible(const Architecture& a) { return !a.kinds[0].attention.has_latents(); }

// The columns of each head from adjacent pairs to halves, and back.
M to_halves(const M& m, std::int64_t heads, std::int64_t dims) {
  M out = m;
  const auto width = m.cols() / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t b = 0; b < dims / 2; ++b) {
      out.col(h * width + b) = m.col(h * width + 2 * b);
      out.col(h * width + dims / 2 + b) = m.col(h * width + 2 * b + 1);
    }
  }
  return out;
}
M from_halves(const M& m, std::int64_t heads, std::int64_t dims) {
  M out = m;
  const auto width = m.cols() / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t b = 0; b < dims / 2; ++b) {
      out.col(h * width + 2 * b) = m.col(h * width + b);
      out.col(h * width + 2 * b + 1) = m.col(h * width + dims / 2 + b);
    }
  }
  return out;
}

// What a converter writes, and the canonical tensor that its file then means. `convert` gets the
// tensor in the source's layout, which is the one that the file has not.
template <class Convert>
void convert_rotary(Victim& v, const std::string& name, std::int64_t heads, Convert&& convert) {
  const auto found = v.parameters.find(name);
  if (found == v.parameters.end()) return;
  M& tensor = found->second;
  const auto dims = v.architecture.kinds[0].attention.rotary_dims;
  const M source = v.halves ? tensor : to_halves(tensor, heads, dims);
  const M file = convert(source, heads, dims);
  tensor = v.halves ? from_halves(file, heads, dims) : file;
}

M right(const Victim& v, const M& m, std::int64_t heads, std::int64_t dims) {
  return v.halves ? to_halves(m, heads, dims) : from_halves(m, heads, dims);
}
M backwards(const Victim& v, const M& m, std::int64_t heads, std::int64_t dims) {
  return v.halves ? from_halves(m, heads, dims) : to_halves(m, heads, dims);
}

// On all layers or on one, q and k or k alone.
template <class Convert>
void on_rotary(Victim& v, Random& random, Convert&& convert) {
  const Architecture& a = v.architecture;
  const bool everywhere = random.below(2) == 0, queries = random.below(3) > 0;
  const std::int64_t only = random.below(a.layers);
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    if (!everywhere && layer != only) continue;
    for (const char* end : {"weight", "bias"}) {
      if (queries)
        convert_rotary(v, at(layer, std::string("attn.q.") + end), a.kinds[0].attention.heads,
                       convert);
      convert_rotary(v, at(layer, std::string("attn.k.") + end), a.kinds[0].attention.kv_heads,
                     convert);
    }
  }
}

void rotary_missing(Victim& v, Random& random) {
  on_rotary(v, random, [](const M& m, std::int64_t, std::int64_t) { return m; });
}
void rotary_doubled(Victim& v, Random& random) {
  on_rotary(v, random, [&](const M& m, std::int64_t heads, std::int64_t dims) {
    return right(v, right(v, m, heads, dims), heads, dims);
  });
}
void rotary_inverted(Victim& v, Random& random) {
  on_rotary(v, random, [&](const M& m, std::int64_t heads, std::int64_t dims) {
    return backwards(v, m, heads, dims);
  });
}
// Keys permuted for as many heads as there are queries.
void rotary_heads(Victim& v, Random&) {
  const Architecture& a = v.architecture;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    for (const char* end : {"attn.k.weight", "attn.k.bias"}) {
      convert_rotary(v, at(layer, end), a.kinds[0].attention.kv_heads,
                     [&](const M& m, std::int64_t, std::int64_t) {
                       return right(v, m, a.kinds[0].attention.heads,
                                    m.cols() / a.kinds[0].attention.heads);
                     });
    }
  }
}

void gains(Victim& v, Random& random) {
  const double offset = random.below(2) == 0 ? 1 : -1;
  for (auto& [name, value] : v.parameters) {
    const bool head_norm = name.ends_with("q_norm.gain") || name.ends_with("k_norm.gain");
    if (name.ends_with(".gain") && !head_norm) value.array() += offset;
  }
}

bool has_layer_scale(const Architecture& a) { return a.kinds[0].layer_scale; }
void layer_scale_twice(Victim& v, Random& random) {
  const std::int64_t only = random.below(v.architecture.layers);
  auto& down = v.parameters.at(at(only, "ffn.down.weight"));
  const M factors = v.parameters.at(at(only, "ffn.layer_scale.gain"));
  for (Eigen::Index i = 0; i < down.rows(); ++i) down.row(i).array() *= factors.row(0).array();
  const auto bias = v.parameters.find(at(only, "ffn.down.bias"));
  if (bias != v.parameters.end()) bias->second.array() *= factors.array();
}
void layer_scale_lost(Victim& v, Random&) {
  for (auto& [name, value] : v.parameters) {
    if (name.ends_with("layer_scale.gain")) value.setOnes();
  }
}

void centre(M& m) {
  for (Eigen::Index i = 0; i < m.rows(); ++i) m.row(i).array() -= m.row(i).mean();
}
void centre_embedding(Victim& v, Random&) { centre(v.parameters.at("embed.tokens")); }
void centre_writers(Victim& v, Random& random) {
  const bool biases = random.below(2) == 0;
  for (auto& [name, value] : v.parameters) {
    const bool table = name == "embed.tokens" || name == "embed.positions";
    const bool matrix = name.ends_with("attn.o.weight") || name.ends_with("ffn.down.weight");
    const bool bias = name.ends_with("attn.o.bias") || name.ends_with("ffn.down.bias");
    if (table || matrix || (bias && biases)) centre(value);
  }
}

void gate_and_up(Victim& v, Random& random) {
  const Architecture& a = v.architecture;
  const bool everywhere = random.below(2) == 0;
  for (std::int64_t layer = 0; layer < (everywhere ? a.layers : 1); ++layer) {
    v.parameters.at(at(layer, "ffn.gate.weight")).swap(v.parameters.at(at(layer, "ffn.up.weight")));
    if (a.kinds[0].ffn.biases.gate && a.kinds[0].ffn.biases.up) {
      v.parameters.at(at(layer, "ffn.gate.bias")).swap(v.parameters.at(at(layer, "ffn.up.bias")));
    }
  }
}

// The file's rows of q, k, v of a layer, one under the other, and the canonical tensors that they
// mean.
std::vector<Eigen::VectorXd> fused_rows(const Victim& v, std::int64_t layer, const char* end) {
  std::vector<Eigen::VectorXd> rows;
  const Architecture& a = v.architecture;
  for (const auto& [name, heads] : {std::pair{"q.", a.kinds[0].attention.heads},
                                    {"k.", a.kinds[0].attention.kv_heads},
                                    {"v.", std::int64_t{0}}}) {
    M tensor = v.parameters.at(at(layer, std::string("attn.") + name + end));
    if (v.halves && heads > 0) tensor = to_halves(tensor, heads, a.kinds[0].attention.rotary_dims);
    for (Eigen::Index c = 0; c < tensor.cols(); ++c) rows.emplace_back(tensor.col(c));
  }
  return rows;
}
void set_fused_rows(Victim& v, std::int64_t layer, const char* end,
                    const std::vector<Eigen::VectorXd>& rows) {
  const Architecture& a = v.architecture;
  std::size_t next = 0;
  for (const auto& [name, heads] : {std::pair{"q.", a.kinds[0].attention.heads},
                                    {"k.", a.kinds[0].attention.kv_heads},
                                    {"v.", std::int64_t{0}}}) {
    M& tensor = v.parameters.at(at(layer, std::string("attn.") + name + end));
    for (Eigen::Index c = 0; c < tensor.cols(); ++c) tensor.col(c) = rows[next++];
    if (v.halves && heads > 0)
      tensor = from_halves(tensor, heads, a.kinds[0].attention.rotary_dims);
  }
}

template <class Rearrange>
void on_fused(Victim& v, Rearrange&& rearrange) {
  const Attention::Biases& biases = v.architecture.kinds[0].attention.biases;
  for (std::int64_t layer = 0; layer < v.architecture.layers; ++layer) {
    for (const char* end : {"weight", "bias"}) {
      if (end[0] == 'b' && !(biases.q && biases.k && biases.v)) continue;
      set_fused_rows(v, layer, end, rearrange(fused_rows(v, layer, end)));
    }
  }
}

// Rows written q, k, v head by head, read one tensor after the other.
void split_by_head(Victim& v, Random&) {
  const Architecture& a = v.architecture;
  const auto group = a.kinds[0].attention.heads / a.kinds[0].attention.kv_heads;
  on_fused(v, [&](const std::vector<Eigen::VectorXd>& rows) {
    std::vector<Eigen::VectorXd> out;
    const auto take = [&](std::int64_t begin, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        out.push_back(rows[static_cast<std::size_t>(begin + i)]);
      }
    };
    const auto q = a.kinds[0].attention.heads * a.kinds[0].attention.qk_width,
               k = a.kinds[0].attention.kv_heads * a.kinds[0].attention.qk_width;
    for (std::int64_t kv = 0; kv < a.kinds[0].attention.kv_heads; ++kv) {
      take(kv * group * a.kinds[0].attention.qk_width, group * a.kinds[0].attention.qk_width);
      take(q + kv * a.kinds[0].attention.qk_width, a.kinds[0].attention.qk_width);
      take(q + k + kv * a.kinds[0].attention.v_width, a.kinds[0].attention.v_width);
    }
    return out;
  });
}

// Three tensors of one size in another order.
void qkv_order(Victim& v, Random& random) {
  const auto size = static_cast<std::size_t>(v.architecture.kinds[0].attention.heads *
                                             v.architecture.kinds[0].attention.qk_width);
  constexpr std::array<std::array<std::size_t, 3>, 5> kOrders = {
      {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  const auto order = kOrders[static_cast<std::size_t>(random.below(5))];
  on_fused(v, [&](const std::vector<Eigen::VectorXd>& rows) {
    std::vector<Eigen::VectorXd> out;
    for (const std::size_t which : order) {
      for (std::size_t i = 0; i < size; ++i) out.push_back(rows[which * size + i]);
    }
    return out;
  });
}

std::vector<std::string> square(const Architecture& a) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(a)) {
    if (spec.rows == spec.cols && spec.name.ends_with(".weight")) names.push_back(spec.name);
  }
  return names;
}
void transpose(Victim& v, Random& random) {
  const auto names = square(v.architecture);
  const auto& name =
      names[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(names.size())))];
  const Architecture& a = v.architecture;
  const bool q = name.ends_with("attn.q.weight"), k = name.ends_with("attn.k.weight");
  const bool halves = v.halves && (q || k);
  const std::int64_t heads = q ? a.kinds[0].attention.heads : a.kinds[0].attention.kv_heads;
  M& tensor = v.parameters.at(name);
  M file = halves ? to_halves(tensor, heads, a.kinds[0].attention.rotary_dims) : tensor;
  file.transposeInPlace();
  tensor = halves ? from_halves(file, heads, a.kinds[0].attention.rotary_dims) : file;
}

// Pairs of layers whose tensors have the same shapes.
std::vector<std::pair<std::int64_t, std::int64_t>> alike(const Architecture& a) {
  using Shapes = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
  std::vector<Shapes> shapes(static_cast<std::size_t>(a.layers));
  for (const auto& spec : parameter_specs(a)) {
    if (spec.layer < 0) continue;
    shapes[static_cast<std::size_t>(spec.layer)][spec.name.substr(at(spec.layer, "").size())] = {
        spec.rows, spec.cols};
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t j = 1; j < a.layers; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      if (shapes[static_cast<std::size_t>(i)] == shapes[static_cast<std::size_t>(j)]) {
        pairs.emplace_back(i, j);
      }
    }
  }
  return pairs;
}
void exchange_layers(Victim& v, Random& random) {
  const auto pairs = alike(v.architecture);
  const auto [i, j] =
      pairs[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(pairs.size())))];
  for (const auto& spec : parameter_specs(v.architecture)) {
    if (spec.layer != i) continue;
    const std::string rest = spec.name.substr(at(i, "").size());
    v.parameters.at(spec.name).swap(v.parameters.at(at(j, rest)));
  }
}

// A slice of one feed-forward matrix written over another's.
void rows_from_another(Victim& v, Random& random) {
  const std::string to = at(random.below(v.architecture.layers), "ffn.up.weight");
  const std::string from = v.architecture.kinds[0].ffn.gated
                               ? to.substr(0, to.size() - 9) + "gate.weight"
                               : at(0, "attn.v.weight");
  M& target = v.parameters.at(to);
  const M& source = v.parameters.at(from);
  const auto count = std::max<std::int64_t>(2, std::min(target.cols(), source.cols()) / 4);
  for (std::int64_t c = 0; c < count; ++c) {
    target.col(target.cols() - 1 - c) = source.col(source.cols() - 1 - c);
  }
}

void one_weight(Victim& v, Random& random) {
  std::vector<std::string> names;
  for (const auto& spec : parameter_specs(v.architecture)) {
    if (spec.rows > 1) names.push_back(spec.name);
  }
  M& tensor = v.parameters.at(
      names[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(names.size())))]);
  tensor(random.below(tensor.rows()), random.below(tensor.cols())) +=
      0.01 * tensor.norm() / std::sqrt(static_cast<double>(tensor.size()));
}

void other_base(Victim& v, Random&) {
  v.architecture.kinds[0].attention.rotary_frequencies =
      rotary_frequencies(v.architecture.kinds[0].attention.rotary_dims, 777);
}
void other_scaling(Victim& v, Random&) {
  for (double& frequency : v.architecture.kinds[0].attention.rotary_frequencies) frequency /= 4;
}
void other_constant(Victim& v, Random& random) {
  Architecture& a = v.architecture;
  switch (random.below(4)) {
    case 0:
      a.norm_eps = 10 * a.norm_eps + 1e-3;
      break;
    case 1:
      for (Layer& kind : a.kinds) kind.attention.scale *= 1.5;
      break;
    case 2:
      if (a.input == Input::tokens) {
        a.embedding_scale *= 2;
        break;
      }
      [[fallthrough]];
    default:
      for (Layer& kind : a.kinds) {
        Attention& attention = kind.attention;
        if (a.causal && a.registers == 0 && attention.positions != Positions::relative) {
          attention.window = attention.window == 0 ? 3 : 0;
        } else {
          attention.scale *= 1.5;
        }
      }
  }
}

// By its place in negative_controls().
template <std::size_t number>
void make_control(Victim& v, Random&) {
  negative_controls()[number].apply(v.architecture, v.parameters);
}

}  // namespace

const std::vector<Injection>& injections() {
  static const std::vector<Injection> all = {
      {"rotary layout missing", Mistake::rotary_missing, rotary, rotary_missing},
      // Of 4 coordinates the permutation is its own inverse, of 8 it is that of its square: the
      // same mistake by another name.
      {"rotary layout doubled", Mistake::rotary_doubled,
       [](const Architecture& a) { return rotary(a) && a.kinds[0].attention.rotary_dims > 4; },
       rotary_doubled},
      {"rotary layout inverted", Mistake::rotary_inverted,
       [](const Architecture& a) {
         return rotary(a) && a.kinds[0].attention.rotary_dims > 4 &&
                a.kinds[0].attention.rotary_dims != 8;
       },
       rotary_inverted},
      {"rotary layout for the queries' heads", Mistake::rotary_heads,
       [](const Architecture& a) {
         return rotary(a) && a.kinds[0].attention.kv_heads < a.kinds[0].attention.heads &&
                a.kinds[0].attention.rotary_dims == a.kinds[0].attention.qk_width &&
                a.kinds[0].attention.kv_heads * a.kinds[0].attention.qk_width /
                        a.kinds[0].attention.heads % 2 ==
                    0 &&
                a.kinds[0].attention.kv_heads * a.kinds[0].attention.qk_width /
                        a.kinds[0].attention.heads >
                    2;  // of 2 there is nothing to permute
       },
       rotary_heads},
      {"gains off by one", Mistake::gain_offset, anything, gains},
      {"embedding centred", Mistake::centred, tokens_before_rms, centre_embedding},
      {"writers centred", Mistake::centred, tokens_before_rms, centre_writers},
      {"a layer scale folded and kept", Mistake::layer_scale, has_layer_scale, layer_scale_twice,
       false},
      {"layer scales lost", Mistake::layer_scale, has_layer_scale, layer_scale_lost, false},
      {"gate and up swapped", Mistake::gate_up_swapped,
       [](const Architecture& a) { return a.kinds[0].ffn.gated; }, gate_and_up},
      {"q, k, v in another order", Mistake::qkv_order,
       [](const Architecture& a) {
         return fusible(a) && a.kinds[0].attention.heads == a.kinds[0].attention.kv_heads &&
                a.kinds[0].attention.qk_width == a.kinds[0].attention.v_width;
       },
       qkv_order},
      {"q, k, v split head by head", Mistake::qkv_order,
       [](const Architecture& a) { return fusible(a) && several_kv_heads(a); }, split_by_head},
      {"a square matrix transposed", Mistake::transposed,
       [](const Architecture& a) { return !square(a).empty(); }, transpose},
      {"two layers exchanged", Mistake::layers_exchanged,
       [](const Architecture& a) { return !alike(a).empty(); }, exchange_layers},
      {"rows of another tensor", Mistake::rows_elsewhere, anything, rows_from_another, false},
      {"one weight changed", Mistake::damaged, anything, one_weight, false},
      {"another rope base", Mistake::rope, rotary, other_base},
      {"rope scaling", Mistake::rope, rotary, other_scaling},
      {"another constant", Mistake::constant, anything, other_constant},
      {"a general linear map on rotary heads", Mistake::not_rotary, rotary, make_control<0>},
      {"a rotation in the wrong pairs", Mistake::not_rotary, rotary, make_control<1>},
      {"coordinates across heads", Mistake::across_heads,
       [](const Architecture& a) { return fusible(a) && several_kv_heads(a); }, make_control<4>,
       false},
      {"a rotation past the gains", Mistake::rotation_unfolded,
       [](const Architecture& a) { return stream_turns(a) && !a.tied; }, make_control<6>, false},
      {"a tied model rotated", Mistake::rotation_incomplete,
       [](const Architecture& a) { return stream_turns(a) && a.tied; }, make_control<7>},
  };
  return all;
}

}  // namespace regauge::testing
