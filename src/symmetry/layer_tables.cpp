#include <fmt/format.h>

#include "builder.h"

namespace regauge {

// The coordinates of all tables are those of one gain: they change places together, and have a
// factor together. An activation stands on the gates, so that these have neither lengths nor signs.
void SymmetryBuilder::add_tables() {
  const std::int64_t r = a_.table_width, layers = a_.layers;
  add_space({.name = "embed.tables",
             .category = Category::latents,
             .group = Scaling(Scaling::Kind::nonzero),
             .count = r,
             .shuffle = Shuffle::symmetric});
  tensor("embed.tables.norm.gain").cols = {{.space = "embed.tables"}};
  // What a token's row of a table takes up is no linear map: counted only. The row that vectors
  // read takes up nothing: neither what these have of a map, nor what the row's own token has. If
  // that stands apart from them, it has (eps = 0) a length of its own.
  const bool text = a_.input_width == 0;
  const bool apart = !text && a_.width > a_.mapped_width();
  const std::int64_t unread = text ? a_.width : apart ? a_.width - a_.mapped_width() - 1 : 0;
  add_counted_shift("embed.tables.maps", unread * layers * r);
  if (apart && lengths_free_) add_counted_shift("embed.tables.row", layers);
  if (text) {  // the gain, and lengths of each layer's own in place of those of all together
    add_counted_shift("embed.tables.lengths", layers * r - (lengths_free_ ? layers : 0));
  }
  // The norm behind the branch forgets the length of what each token has there.
  if (lengths_free_) {
    const std::int64_t rows = a_.vocabulary - 1;
    add_counted_shift("embed.tables.rows", rows * layers);
  }
}

void SymmetryBuilder::add_table(std::int64_t layer) {
  using Take = AxisPart::Take;
  const std::string at = fmt::format("layers.{}.table", layer), norm = at + ".post_norm";
  add_output_norm(norm, a_.table_width);
  add_space({.name = at,
             .category = Category::ffn,
             .group = Scaling(Scaling::Kind::signs),
             .count = a_.table_width,
             .shuffle = Shuffle::follows,
             .follows = "embed.tables"});
  const AxisPart places{.space = "embed.tables", .take = Take::permutation};
  const AxisPart signs{.space = at, .take = Take::diagonal};
  add_reader(at + ".gate", false, {"", stream_length(layer)}, {places});
  Axis mapped = {signs, places};
  if (lengths_free_) {  // a norm stands behind the map
    add_space({.name = at + ".map",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
    append_scalar(mapped, at + ".map", a_.table_width, false);
  }
  add_reader(at + ".map", false, {"", ""}, std::move(mapped));
  tensor(at + ".tokens").cols = {signs, {.space = "embed.tables"}};
  add_writer(at + ".down", false, {"", ""},
             {{.space = at, .dual = true, .take = Take::diagonal},
              {.space = "embed.tables", .dual = true}},
             norm);
}

}  // namespace regauge
