#include "builder.h"

namespace regauge {

// What stands between vectors and the stream. Channels change places, each with what a kernel has
// of it; those of an encoder's last convolution are its stream.
void SymmetryBuilder::add_convolutions() {
  Axis rows;
  for (std::size_t i = 0; i < a_.convolutions.size(); ++i) {
    const Convolution& of = a_.convolutions[i];
    const std::string name = a_.convolution(i);
    const bool is_stream = a_.encodes_vectors() && i + 1 == a_.convolutions.size();
    const std::string channels = is_stream ? stream_of(0) : name;
    // The norm of a channel passes its sign on to the gain.
    const bool signs = a_.has_norm_behind(i) && a_.convolution_norm == ConvolutionNorm::first;
    if (!is_stream) {
      add_space({.name = channels,
                 .category = Category::ffn,
                 .group = Scaling(signs ? Scaling::Kind::signs : Scaling::Kind::trivial),
                 .count = of.channels,
                 .shuffle = Shuffle::symmetric});
    }
    for (AxisPart& part : rows) part.repeat = of.kernel;
    tensor(name + ".weight").rows = std::move(rows);
    tensor(name + ".weight").cols = {{.space = channels}};
    if (of.bias) tensor(name + ".bias").cols = {{.space = channels}};
    const AxisPart places{.space = channels, .take = AxisPart::Take::permutation};
    if (a_.has_norm_behind(i)) {
      tensor(name + ".norm.gain").cols = {{.space = channels}};
      tensor(name + ".norm.bias").cols = {places};
      if (!signs) {  // of all channels together, which does not see their mean
        add_writer_shift(name + ".weight");
        if (of.bias) add_writer_shift(name + ".bias");
      }
    }
    rows = {places};
    rows.front().dual = true;
  }
  if (a_.input_norm) {
    add_input_norm(std::move(rows));
  } else if (!rows.empty() && !a_.encodes_vectors()) {
    tensor("embed.input.weight").rows = std::move(rows);
  }
  if (a_.has_positional()) {  // whatever length its kernel has, it is divided by it
    add_space({.name = "embed.positional",
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive),
               .count = a_.positional_kernel});
    tensor("embed.positional.weight").rows = {{.space = "embed.positional"}};
  }
}

// The norm between the last channels, which a gelu writes, and the map into the stream: its gain
// and bias go into that map, and what the map has along 1 over the gain is not read.
void SymmetryBuilder::add_input_norm(Axis places) {
  const std::string norm = "embed.input.norm";
  for (AxisPart& part : places) part.dual = false;
  add_gain_space(norm, places.front().space);
  add_norm(norm, places, places);
  const Reader reader{"embed.input.weight", "embed.input.bias", false};
  AxisPart folded{.space = norm, .dual = true, .take = AxisPart::Take::diagonal};
  AxisPart moved = places.front();
  moved.dual = true;
  tensor(reader.weight).rows = {std::move(folded), std::move(moved)};
  symmetry_.norms.at(norm).readers.push_back(reader);
  add_reader_shift(norm, reader);
  add_norm_shift(norm, std::move(places), {});
}

}  // namespace regauge
