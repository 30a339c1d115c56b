#include <fmt/format.h>

#include "builder.h"

namespace regauge {
namespace {

// What the fixed table adds that nothing can take up, as rows: its differences.
Matrix<double> fixed_rows(const Architecture& a) {
  if (a.position_table != PositionTable::sinusoidal) return Matrix<double>(0, a.width);
  // The class token is a row of its own and takes up whatever happens to the first position.
  const std::int64_t begin = a.class_token ? 1 : 0;
  Matrix<double> rows(std::max<std::int64_t>(0, a.max_positions - begin), a.width);
  for (std::int64_t t = 0; t < rows.rows(); ++t) {
    for (std::int64_t i = 0; i < a.width; ++i) rows(t, i) = sinusoid(a, begin + t, i);
  }
  for (std::int64_t t = rows.rows() - 1; t > 0; --t) rows.row(t) -= rows.row(0);
  // A constant of the input's own takes up the first row.
  const bool constant = a.input == Input::tokens || a.input_bias;
  return constant ? Matrix<double>(rows.bottomRows(std::max<Eigen::Index>(0, rows.rows() - 1)))
                  : rows;
}

// What a rotation of the stream must leave alone (theory.md section 2, "the pin"), as rows.
Matrix<double> fixed_directions(const Architecture& a) {
  Matrix<double> table = fixed_rows(a);
  if (a.norm == Norm::rms) return table;
  Matrix<double> rows(table.rows() + 1, a.width);
  rows.topRows(1).setOnes();
  rows.bottomRows(table.rows()) = table.colwise() - table.rowwise().mean();
  return rows;
}

// What something on the stream allows to happen to it, from least to most.
enum class Allows { nothing, permutations, rotations };

// The least of what everything on the stream allows: a gain that is written to it (by a norm of
// the sum, of the embedding, or of what a branch writes), or through which a tied head reads,
// cannot be folded away and leaves permutations and signs; an output leaves nothing. Of a
// positional convolution only that much is known: what is in its groups changing places is left
// out. A fixed table allows the rotations that fix its rows; no permutation is among them.
Allows least_allowed(const Architecture& a) {
  Allows least = Allows::rotations;
  const auto meet = [&](bool present, Allows allowed) {
    if (present) least = std::min(least, allowed);
  };
  meet(!a.plain_stream() || a.norms_embedding(), Allows::permutations);
  for (const auto& kind : a.kinds) meet(kind.norms_output(), Allows::permutations);
  meet(a.tied, Allows::permutations);
  meet(a.output.has(Output::hidden), Allows::nothing);
  meet(a.has_positional(), Allows::nothing);
  const bool fixed_table = a.position_table == PositionTable::sinusoidal;
  return fixed_table && least == Allows::permutations ? Allows::nothing : least;
}

}  // namespace

double fixed_origin(const Architecture& a, std::string_view tensor, std::int64_t column) {
  const bool behind_class_token = a.class_token && tensor != "embed.class_token";
  return sinusoid(a, behind_class_token ? 1 : 0, column) / a.embedding_scale;
}

void SymmetryBuilder::add_stream() {
  const Allows allowed = least_allowed(a_);
  rotates_ = allowed == Allows::rotations;
  const bool fixed_table = a_.position_table == PositionTable::sinusoidal;
  if (rotates_) {
    add_space({.name = "residual",
               .category = Category::residual,
               .group = Orthogonal(fixed_directions(a_))});
  } else if (allowed == Allows::permutations) {
    // Signs: each coordinate its own for rms, one for all behind a layer norm, which sees the
    // direction 1.
    const auto kind = layer_norm() ? Scaling::Kind::trivial : Scaling::Kind::signs;
    add_space({.name = "residual",
               .category = Category::residual,
               .group = Scaling(kind),
               .count = a_.width,
               .shuffle = Shuffle::symmetric});
    if (layer_norm()) {
      add_space({.name = "residual.sign",
                 .category = Category::residual,
                 .group = Scaling(Scaling::Kind::signs)});
    }
  }
  if (a_.encodes_vectors()) {  // a gelu writes it, which sees coordinates
    add_space({.name = stream_of(0),
               .category = Category::residual,
               .count = a_.width,
               .shuffle = Shuffle::symmetric});
  }
  if (a_.maps_embedding()) add_table_stream();
  add_stream_exceptions();
  if (!lengths_free_) return;
  const auto add_length = [&](std::string name) {
    add_space({.name = std::move(name),
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
  };
  // The gain in front of a tied head, which would undo the table's length, is seen as it is.
  const bool length_seen = a_.tied && !a_.head_transform && a_.output.has(Output::hidden);
  const bool table_has_length = !fixed_table && !length_seen;
  if (plain() && (a_.norms_embedding() || table_has_length)) add_length("residual.scale");
  if (a_.embedding_norm && table_has_length) {
    const bool rows_alone = a_.input == Input::tokens &&
                            a_.position_table != PositionTable::learned && a_.token_types == 0 &&
                            !a_.tied;
    if (rows_alone) {
      add_space({.name = "embed.rows",
                 .category = Category::scales,
                 .group = Scaling(Scaling::Kind::positive),
                 .count = a_.vocabulary});
    } else {
      add_length("embed.scale");
    }
  }
  const bool one_type = a_.embedding_norm && !fixed_table && !a_.tied && a_.token_types == 1 &&
                        a_.position_table != PositionTable::learned;
  if (one_type) add_counted_shift("embed.rows", a_.vocabulary - 1);
  if (a_.embedding_norm && a_.class_token) add_counted_shift("embed.class_token.scale", 1);
  if (!plain()) {
    for (std::int64_t layer = 0; layer < a_.layers; ++layer) {
      const bool raw = layer == 0 && !a_.norms_embedding();
      const bool has_length = a_.repeats_layers() ? layer == 0 && !a_.output.has(Output::hidden)
                                                  : !raw || table_has_length;
      if (has_length) add_length(fmt::format("layers.{}.attn.input", layer));
      if (a_.layer(layer).has_ffn()) add_length(fmt::format("layers.{}.ffn.input", layer));
    }
  }
}

// The tables' own coordinates: a tied head reads them behind a gain, and else they may turn.
void SymmetryBuilder::add_table_stream() {
  const std::string name = table_stream();
  if (!a_.tied) {
    add_space({.name = name,
               .category = Category::residual,
               .group = Orthogonal(Matrix<double>::Ones(1, a_.token_width()))});
    return;
  }
  add_space({.name = name,
             .category = Category::residual,
             .count = a_.token_width(),
             .shuffle = Shuffle::symmetric});
  add_space({.name = name + ".sign",
             .category = Category::residual,
             .group = Scaling(Scaling::Kind::signs)});
}

// Freedoms of a layer norm model that exist in few places (docs/findings.md): counted only.
void SymmetryBuilder::add_stream_exceptions() {
  if (a_.repeats_layers()) {
    // The shear below: what the layers themselves write leaves it alone only where p is 1/gain.
    add_counted_shift("layers.0.attn.input.shear", 1);
    return;
  }
  if (!layer_norm() || is_tied(0)) return;
  const bool raw = !plain() && !a_.embedding_norm;
  const bool fixed_table = a_.position_table == PositionTable::sinusoidal;
  if (raw) {
    // The raw sum x of the tables may become x + (x p) 1: the next norm does not see 1, and q, k, v
    // undo it. A fixed table must not notice.
    const std::int64_t seen = fixed_table ? Orthogonal(fixed_rows(a_)).fixed().rows() : 0;
    add_counted_shift("layers.0.attn.input.shear", a_.width - seen);
  }
  // A gain between two streams that may both rotate: only the D - 1 singular values of M diag(gain)
  // M count.
  const bool single_gain = plain() ? a_.embedding_norm : raw && a_.layers == 1;
  if (single_gain && !fixed_table && !a_.output.has(Output::hidden)) {
    add_counted_shift("residual.gain_spectrum", 1);
  }
}

std::string SymmetryBuilder::stream_of(std::int64_t layer) const {
  return a_.encodes_vectors() && layer < a_.encoder_layers ? "encoder.residual" : "residual";
}

SymmetryBuilder::Wire SymmetryBuilder::wire_into(std::int64_t layer, bool attention) const {
  const std::string sublayer = fmt::format("layers.{}.{}", layer, attention ? "attn" : "ffn");
  if (plain()) {
    const Layer& shape = a_.layer(layer);
    if (!shape.norms_input()) return {"", stream_length(layer)};
    if (attention && reads_embedding(layer)) return {"embed.norm", stream_length(layer)};
    return wire_behind(layer, attention ? "attn.norm" : shape.norm_before_ffn());
  }
  Wire wire;
  if (!attention) {
    wire.norm = fmt::format("layers.{}.attn.norm", layer);
  } else if (a_.repeats_layers()) {
    // One wire, which the map of the embedding writes and every layer: behind no one norm.
    if (layer == a_.layers) wire.norm = a_.last_norm(layer - 1);
    wire.scale = "layers.0.attn.input";
    return wire;
  } else if (layer != a_.stack_of(layer)) {
    wire.norm = a_.last_norm(layer - 1);
  } else if (a_.embedding_norm) {
    wire.norm = a_.embedding_of(layer) + std::string(".norm");
  }
  if (layer < a_.layers) wire.scale = sublayer + ".input";
  return wire;
}

SymmetryBuilder::Wire SymmetryBuilder::wire_behind(std::int64_t layer, const char* norm) const {
  return {fmt::format("layers.{}.{}", layer, norm), "", "", stream_of(layer)};
}

SymmetryBuilder::Wire SymmetryBuilder::wire_into_keys(std::int64_t layer) const {
  return attention(layer).cross ? Wire{a_.encoder_norm(), "", "", stream_of(0)}
                                : wire_into(layer, true);
}

std::string SymmetryBuilder::stream_length(std::int64_t layer) const {
  while (--layer >= 0) {
    if (a_.layer(layer).stream_scale) return fmt::format("layers.{}.scale", layer);
  }
  return "residual.scale";
}

// Behind the number the stream has a length, and a sign, of its own. Norms forget the length; with
// eps they do not.
void SymmetryBuilder::add_stream_scale(std::int64_t layer) {
  const std::string name = fmt::format("layers.{}.scale", layer);
  add_space({.name = name,
             .category = Category::scales,
             .group = Scaling(lengths_free_ ? Scaling::Kind::nonzero : Scaling::Kind::signs)});
  Axis& axis = tensor(name).cols;
  axis = {{.space = name}};
  append_scalar(axis, stream_length(layer), 1, true);
}

Axis SymmetryBuilder::stream_axis(const std::string& stream) const {
  Axis axis;
  if (has_space(stream)) axis.push_back({.space = stream});
  append_scalar(axis, stream + ".sign", width_of(stream), false);
  return axis;
}

Axis SymmetryBuilder::reader_rows(const Wire& wire) const {
  if (!wire.latent.empty()) return {{.space = wire.latent, .dual = true, .through = wire.norm}};
  if (rotates_) return {{.space = "residual", .dual = true, .through = wire.norm}};
  Axis axis;
  if (has_space(wire.norm)) {
    axis.push_back({.space = wire.norm, .dual = true, .take = AxisPart::Take::diagonal});
  }
  if (has_space(wire.stream)) axis.push_back({.space = wire.stream, .dual = true});
  append_scalar(axis, wire.stream + ".sign", width_of(wire.stream), true);
  append_scalar(axis, wire.scale, a_.width, true);
  return axis;
}

Axis SymmetryBuilder::writer_cols(const Wire& wire) const {
  Axis axis = stream_axis(wire.stream);
  append_scalar(axis, plain() ? "residual.scale" : wire.scale, a_.width, false);
  return axis;
}

}  // namespace regauge
