#include <fmt/format.h>

#include "builder.h"

namespace regauge {

void SymmetryBuilder::add_gain_space(const std::string& name, const std::string& coordinates) {
  Space space{.name = name,
              .category = Category::norms,
              .group = Scaling(Scaling::Kind::nonzero),
              .count = cols(name + ".gain")};
  // Where the coordinates themselves change places, each keeps its own factor.
  const Space* leader = find_space(coordinates);
  if (leader != nullptr && leader->shuffle == Shuffle::symmetric) {
    space.shuffle = Shuffle::follows;
    space.follows = coordinates;
  }
  add_space(std::move(space));
}

void SymmetryBuilder::add_norm(const std::string& name, Axis gain, Axis bias) {
  NormSite& site = symmetry_.norms[name];
  site.name = name;
  if (a_.norm_bias) site.bias = name + ".bias";
  if (has_space(name)) {
    const AxisPart factors{.space = name, .take = AxisPart::Take::diagonal};
    gain.insert(gain.begin(), factors);
    bias.insert(bias.begin(), factors);
  }
  tensor(site.gain()).cols = std::move(gain);
  if (a_.norm_bias) tensor(site.bias).cols = std::move(bias);
}

void SymmetryBuilder::add_pre_norm(const std::string& name, const std::string& stream) {
  if (turns(stream)) {
    add_norm(name, {}, {});
    // The stream's rotation meets the bias as it meets a reader, through the gain.
    if (a_.norm_bias) tensor(name + ".bias").cols = {{.space = stream, .through = name}};
    return;
  }
  Axis gain;
  if (has_space(stream)) {
    gain.push_back({.space = stream, .take = AxisPart::Take::permutation});
  }
  // The gain takes the sign that the stream has by now, so that no reader sees it.
  const std::int64_t layer = layer_of(name);
  const std::string length = stream_length(layer < 0 ? a_.layers : layer);
  if (length != "residual.scale") {
    gain.push_back({.space = length, .take = AxisPart::Take::signs, .repeat = a_.width});
  }
  add_norm(name, gain, stream_axis(stream));
}

void SymmetryBuilder::add_post_norm(const std::string& name, const Wire& made) {
  Axis gain;
  if (has_space("residual")) {
    gain.push_back({.space = "residual", .take = AxisPart::Take::permutation});
  }
  append_scalar(gain, made.scale, a_.width, false);
  Axis bias = stream_axis();
  append_scalar(bias, made.scale, a_.width, false);
  add_norm(name, std::move(gain), std::move(bias));
}

// The norm on what a branch writes to the stream. It stands between the branch's map and the gain,
// so nothing folds: the gain follows the stream's coordinates and length, the map may change the
// sign of a coordinate against the gain, and (eps = 0) its own length. Where the norm of a sum
// stands behind it, the gain follows the sum's signs and length instead.
void SymmetryBuilder::add_output_norm(const std::string& name, std::int64_t branch_width,
                                      const std::string& sum) {
  Space signs{.name = name,
              .category = Category::norms,
              .group = Scaling(Scaling::Kind::signs),
              .count = a_.width};
  Axis gain = {{.space = name, .take = AxisPart::Take::diagonal}};
  if (!sum.empty()) gain.push_back({.space = sum, .take = AxisPart::Take::diagonal});
  if (has_space("residual")) {
    signs.shuffle = Shuffle::follows;
    signs.follows = "residual";
    gain.push_back({.space = "residual", .take = AxisPart::Take::permutation});
  }
  add_space(std::move(signs));
  if (lengths_free_) {
    add_space({.name = name + ".scale",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
  }
  const std::string length = sum.empty() ? stream_length(layer_of(name)) : sum + ".scale";
  append_scalar(gain, length, a_.width, false);
  tensor(name + ".gain").cols = std::move(gain);
  // A narrow branch: only W diag(gain) and the products of W's rows count (theory2.md, section 3).
  add_counted_shift(name + ".gain.thin",
                    std::max<std::int64_t>(0, a_.width - branch_width * (branch_width + 1) / 2));
}

// A factor for each coordinate of what a map writes to the stream: a diagonal map between linear
// ones, which the stream's rotation passes.
void SymmetryBuilder::add_layer_scale(const std::string& name, const std::string& writer) {
  add_gain_space(name);
  NormSite& site = symmetry_.norms[name];
  site.name = name;
  site.writer = writer;
  Axis gain = {{.space = name, .take = AxisPart::Take::diagonal}};
  if (!rotates_ && has_space("residual")) {
    gain.push_back({.space = "residual", .take = AxisPart::Take::permutation});
  }
  tensor(site.gain()).cols = std::move(gain);
}

void SymmetryBuilder::add_norm_shift(const std::string& norm, Axis axis,
                                     std::vector<Effect> further) {
  Shift shift;
  shift.name = norm + ".shift";
  shift.length = shift.dimension = cols(norm + ".gain");
  shift.axis = std::move(axis);
  const NormSite& site = symmetry_.norms.at(norm);
  for (const auto& reader : site.readers) {
    Effect effect;
    effect.kind = Effect::Kind::norm_reader;
    effect.tensor = reader.weight;
    effect.target = reader.bias;
    effect.norm = norm;
    effect.transposed = reader.transposed;
    shift.effects.push_back(effect);
  }
  Effect bias;
  bias.kind = Effect::Kind::add_gained;
  bias.tensor = site.bias;
  bias.norm = norm;
  shift.effects.push_back(bias);
  for (auto& effect : further) shift.effects.push_back(std::move(effect));
  add_shift(std::move(shift));
}

// The part of a reader along 1/gain meets only the constant sum of bias/gain.
void SymmetryBuilder::add_reader_shift(const std::string& norm, const Reader& reader) {
  if (norm.empty() || !layer_norm()) return;
  if (reader.bias.empty() && a_.norm_bias) return;  // nothing could take the constant
  Shift shift;
  shift.name = reader.weight + ".unread";
  shift.axis = tensor(reader.weight).cols;
  for (const auto& part : tensor(reader.weight).rows) {
    if (part.space.ends_with("residual.sign"))
      append_scalar(shift.axis, part.space, cols(reader.weight), true);
  }
  shift.length = shift.dimension = cols(reader.weight);
  Effect effect;
  effect.kind = Effect::Kind::reader;
  effect.tensor = reader.weight;
  effect.target = reader.bias;
  effect.norm = norm;
  shift.effects = {effect};
  add_shift(std::move(shift));
}

// The mean of what is written to a stream that only layer norms read.
void SymmetryBuilder::add_writer_shift(const std::string& name, const std::string& layer_scale) {
  Shift shift;
  shift.name = name + ".mean";
  shift.length = shift.dimension = rows(name);
  shift.axis = tensor(name).rows;
  for (const auto& part : tensor(name).cols) {
    const Space* space = find_space(part.space);
    if (space->size() == 1) append_scalar(shift.axis, part.space, shift.length, part.dual);
  }
  Effect effect;
  effect.kind = Effect::Kind::add_columns;
  effect.tensor = name;
  effect.norm = layer_scale;
  shift.effects = {effect};
  add_shift(std::move(shift));
}

std::int64_t SymmetryBuilder::rows(const std::string& name) const { return shapes_.at(name).first; }
std::int64_t SymmetryBuilder::cols(const std::string& name) const {
  return shapes_.at(name).second;
}

}  // namespace regauge
