#include <fmt/format.h>

#include "builder.h"

namespace regauge {

// A channel of q, k or v is seen by its convolution, which is linear, and then by an activation: a
// factor passes from the map to the kernel. Within a key head q and k change places together;
// within a value head v, z and the rows of o. The gain behind the state folds into o, and once it
// is 1 every head may order its channels by itself.
void SymmetryBuilder::add_delta_net(std::int64_t layer) {
  const DeltaNet& d = a_.layer(layer).delta;
  const std::string at = fmt::format("layers.{}.delta", layer), norm = at + ".norm";
  const std::string heads = at + ".heads";
  add_space({.name = heads,
             .category = Category::heads,
             .count = d.value_heads,
             .shuffle = Shuffle::grouped,
             .group_size = d.group()});
  add_space({.name = at + ".k",
             .category = Category::qk,
             .group = GainExchange::monomial(d.key_width),
             .count = d.key_heads,
             .shuffle = Shuffle::follows,
             .follows = heads});
  add_space({.name = at + ".q",
             .category = Category::qk,
             .group = Scaling(Scaling::Kind::nonzero),
             .count = d.keys(),
             .shuffle = Shuffle::follows,
             .follows = at + ".k"});
  add_space({.name = at + ".v",
             .category = Category::vo,
             .group = GainExchange::monomial(d.value_width),
             .count = d.value_heads,
             .shuffle = Shuffle::follows,
             .follows = heads});
  add_space({.name = at + ".z",
             .category = Category::vo,
             .count = d.values(),
             .shuffle = Shuffle::follows,
             .follows = at + ".v"});
  add_space({.name = norm,
             .category = Category::norms,
             .group = Scaling(Scaling::Kind::nonzero),
             .count = d.value_width});

  const Wire wire = wire_into(layer, true);
  add_gain_space(wire.norm);
  add_pre_norm(wire.norm);
  for (const char* name : {".q", ".k", ".v"}) {
    add_reader(at + name, false, wire, {{.space = at + name}});
    tensor(at + name + "_conv.weight").cols = {{.space = at + name, .dual = true}};
  }
  add_reader(at + ".z", false, wire, {{.space = at + ".z"}});
  add_reader(at + ".a", true, wire, {{.space = heads}});
  add_reader(at + ".b", false, wire, {{.space = heads}});
  tensor(at + ".decay").cols = {{.space = heads}};
  add_norm(norm, {}, {});
  symmetry_.norms.at(norm).readers.push_back({at + ".o.weight", "", false});
  add_writer(at + ".o", false, wire, {{.space = at + ".z", .dual = true, .through = norm}}, "");
}

}  // namespace regauge
