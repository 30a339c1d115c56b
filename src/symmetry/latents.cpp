#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "builder.h"

namespace regauge {

// A vector of its own width between two maps, behind an rms norm whose gain folds into what reads
// it: a small stream, which may rotate and (eps = 0) scale whatever the large one may do.
SymmetryBuilder::Wire SymmetryBuilder::add_latent(std::int64_t layer, const std::string& name,
                                                  std::int64_t width, const Wire& from) {
  const std::string norm = name + ".norm";
  add_space({.name = name, .category = Category::latents, .group = Orthogonal(width)});
  add_space({.name = norm,
             .category = Category::norms,
             .group = Scaling(Scaling::Kind::nonzero),
             .count = width});
  if (lengths_free_) {
    add_space({.name = name + ".scale",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
  }
  add_norm(norm, {}, {});
  Axis cols = {{.space = name}};
  append_scalar(cols, name + ".scale", width, false);
  add_reader(name, false, from, std::move(cols));
  // The first layer sees finitely many inputs: a change of basis that keeps the lengths of all of
  // them is as good as a rotation (theory.md, section 2).
  if (layer == 0 && a_.input == Input::tokens) {
    std::int64_t left = width * (width + 1) / 2 + (lengths_free_ ? 0 : 1);  // numbers to be pinned
    const std::int64_t rows = std::max<std::int64_t>(1, a_.token_types);
    const std::int64_t places = a_.has_position_table() ? a_.max_positions : 1;
    // By as many inputs as there are; their number may be too large to be written down.
    if (a_.vocabulary > left / rows / places) {
      left = 0;
    } else {
      left -= a_.vocabulary * rows * places;
    }
    add_counted_shift(name + ".quadrics", left);
  }
  Wire wire;
  wire.norm = norm;
  wire.latent = name;
  return wire;
}

// Keys and values are read from a latent, queries perhaps from another. A head's coordinates that
// do not rotate have a basis of their own; those that do have one for all heads, which share their
// key.
void SymmetryBuilder::add_latent_attention(std::int64_t layer) {
  using Take = AxisPart::Take;
  const Attention& a = attention(layer);
  const std::string at = fmt::format("layers.{}.attn", layer);
  const std::string heads = at + ".heads", rotary = at + ".rotary";
  add_space({.name = heads,
             .category = Category::heads,
             .count = a.heads,
             .shuffle = Shuffle::grouped,
             .group_size = 1});
  for (const auto& [name, category, width] :
       {std::tuple{".qk", Category::qk, a.plain_width()}, {".vo", Category::vo, a.v_width}}) {
    add_space({.name = at + name,
               .category = category,
               .group = GeneralLinear(width),
               .count = a.heads,
               .shuffle = Shuffle::follows,
               .follows = heads});
  }
  add_space({.name = rotary,
             .category = Category::qk,
             .group = RotaryCommutant(a.rotary_dims, a.rotary_frequencies)});

  add_gain_space(at + ".norm");
  add_pre_norm(at + ".norm");
  const Wire stream = wire_into(layer, true);
  const Wire of_q =
      a.q_latent > 0 ? add_latent(layer, at + ".q_latent", a.q_latent, stream) : stream;
  const Wire of_kv = add_latent(layer, at + ".kv_latent", a.kv_latent, stream);
  add_reader(at + ".q", false, of_q, {{.space = at + ".qk", .lift = heads}});
  add_reader(at + ".q_rotary", false, of_q,
             {{.space = heads, .take = Take::permutation, .repeat = a.rotary_dims},
              {.space = rotary, .tile = a.heads}});
  add_reader(at + ".k", false, of_kv, {{.space = at + ".qk", .dual = true}});
  add_reader(at + ".k_rotary", false, stream, {{.space = rotary, .dual = true}});
  add_reader(at + ".v", false, of_kv, {{.space = at + ".vo"}});
  add_writer(at + ".o", false, stream, {{.space = at + ".vo", .dual = true, .lift = heads}}, "");
}

}  // namespace regauge
