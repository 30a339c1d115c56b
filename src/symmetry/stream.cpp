#include <fmt/format.h>

#include "builder.h"

namespace regauge {
namespace {

// What a rotation of the stream must leave alone (theory.md section 2, "the pin"), as rows.
Matrix<double> fixed_directions(const Architecture& a) {
  const bool centred = a.norm == Norm::layer;
  std::vector<Eigen::RowVectorXd> rows;
  if (centred) rows.emplace_back(Eigen::RowVectorXd::Ones(a.width));
  if (a.positions == Positions::sinusoidal) {
    const auto row = [&](std::int64_t t) {
      Eigen::RowVectorXd values(a.width);
      for (std::int64_t i = 0; i < a.width; ++i) values(i) = sinusoid(t, i, a.width);
      return values;
    };
    // The class token is a row of its own and takes up whatever happens to the first position.
    const std::int64_t begin = a.class_token ? 1 : 0;
    const Eigen::RowVectorXd first = row(begin);
    // Without a constant of its own the input cannot take up what the first row would lose.
    if (a.input == Input::vectors && !a.input_bias) rows.push_back(first);
    for (std::int64_t t = begin + 1; t < a.max_positions; ++t) rows.emplace_back(row(t) - first);
    for (std::size_t i = centred ? 1 : 0; centred && i < rows.size(); ++i) {
      rows[i].array() -= rows[i].mean();
    }
  }
  Matrix<double> matrix(static_cast<Eigen::Index>(rows.size()), a.width);
  for (std::size_t i = 0; i < rows.size(); ++i) matrix.row(static_cast<Eigen::Index>(i)) = rows[i];
  return matrix;
}

}  // namespace

double fixed_origin(const Architecture& a, std::string_view tensor, std::int64_t column) {
  const bool behind_class_token = a.class_token && tensor != "embed.class_token";
  return sinusoid(behind_class_token ? 1 : 0, column, a.width) / a.embedding_scale;
}

void SymmetryBuilder::add_stream() {
  rotates_ = pre() && !a_.embedding_norm && !a_.tied && a_.output != Output::hidden;
  const bool fixed_table = a_.positions == Positions::sinusoidal;
  if (rotates_) {
    add_space({.name = "residual",
               .category = Category::residual,
               .group = Orthogonal(fixed_directions(a_))});
  } else if (a_.output != Output::hidden && !fixed_table) {
    // A gain that cannot be folded away leaves permutations of the coordinates, and signs: each its own for rms, one for all
    // behind a layer norm, which sees the direction 1.
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
  if (!lengths_free_) return;
  const auto add_length = [&](std::string name) {
    add_space({.name = std::move(name),
               .category = Category::scales,
               .group = Scaling(Scaling::Kind::positive)});
  };
  if (pre() && (a_.embedding_norm || !fixed_table)) add_length("residual.scale");
  if (a_.embedding_norm && !fixed_table) {
    const bool rows_alone = a_.input == Input::tokens && a_.positions != Positions::learned &&
                            a_.token_types == 0 && !a_.tied;
    if (rows_alone) {
      add_space({.name = "embed.rows",
                 .category = Category::scales,
                 .group = Scaling(Scaling::Kind::positive),
                 .count = a_.vocabulary});
    } else {
      add_length("embed.scale");
    }
  }
  if (a_.embedding_norm && a_.class_token) add_counted_shift("embed.class_token.scale", 1);
  if (!pre()) {
    for (std::int64_t layer = 0; layer < a_.layers; ++layer) {
      const bool raw = layer == 0 && !a_.embedding_norm;
      if (!raw || !fixed_table) add_length(fmt::format("layers.{}.attn.input", layer));
      add_length(fmt::format("layers.{}.ffn.input", layer));
    }
  }
}

SymmetryBuilder::Wire SymmetryBuilder::wire_into(std::int64_t layer, bool attention) const {
  const std::string sublayer = fmt::format("layers.{}.{}", layer, attention ? "attn" : "ffn");
  if (pre()) return {sublayer + ".norm", ""};
  Wire wire;
  if (!attention) {
    wire.norm = fmt::format("layers.{}.attn.norm", layer);
  } else if (layer > 0) {
    wire.norm = fmt::format("layers.{}.ffn.norm", layer - 1);
  } else if (a_.embedding_norm) {
    wire.norm = "embed.norm";
  }
  if (layer < a_.layers) wire.scale = sublayer + ".input";
  return wire;
}

Axis SymmetryBuilder::stream_axis() const {
  Axis axis;
  if (has_space("residual")) axis.push_back({.space = "residual"});
  append_scalar(axis, "residual.sign", a_.width, false);
  return axis;
}

Axis SymmetryBuilder::reader_rows(const Wire& wire) const {
  if (rotates_) return {{.space = "residual", .dual = true, .through = wire.norm}};
  Axis axis;
  if (has_space("residual")) axis.push_back({.space = "residual", .dual = true});
  append_scalar(axis, "residual.sign", a_.width, true);
  if (has_space(wire.norm)) axis.push_back({.space = wire.norm, .dual = true});
  append_scalar(axis, wire.scale, a_.width, true);
  return axis;
}

Axis SymmetryBuilder::writer_cols(const Wire& wire) const {
  Axis axis = stream_axis();
  append_scalar(axis, pre() ? "residual.scale" : wire.scale, a_.width, false);
  return axis;
}

}  // namespace regauge
