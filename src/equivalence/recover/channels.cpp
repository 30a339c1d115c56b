#include "channels.h"

#include <fmt/format.h>

#include "arch/linear.h"
#include "numerics/dense.h"
#include "probe.h"
#include "rows.h"

namespace regauge {
namespace {

// One row per column of `reads`: the products of what it reads of the probes x with each row of
// `beside`, in which a factor cancels that one side has and the other over it.
Matrix<double> products_of(const Matrix<double>& x, const Matrix<double>& reads,
                           const Matrix<double>& beside) {
  const Matrix<double> read = product(x, reads).transpose();
  Matrix<double> rows(read.rows(), read.cols() * beside.rows());
  for (Eigen::Index t = 0; t < beside.rows(); ++t) {
    rows.middleCols(t * read.cols(), read.cols()) =
        read.array().colwise() * beside.row(t).transpose().array();
  }
  return rows;
}

struct DeltaChannels {
  Matrix<double> keys;    // one row per channel of q and k
  Matrix<double> values;  // one row per channel of v
};

DeltaChannels delta_channels(const std::string& at, const Parameters<double>& parameters,
                             const Known& known) {
  const Matrix<double> x = probes("input", known);
  const auto weight = [&](const char* name) -> const Matrix<double>& {
    return parameters.at(at + name + ".weight");
  };
  const auto convolved = [&](const char* map, const char* kernels) {
    return products_of(x, weight(map), weight(kernels));
  };
  return {side_by_side({convolved(".q", ".q_conv"), convolved(".k", ".k_conv")}),
          side_by_side({convolved(".v", ".v_conv"), product(x, weight(".z")).transpose(),
                        product(weight(".o"), probes("write", known).transpose())})};
}

// One row per coordinate of a kv head's values: what its query heads write of it, and their gates.
Matrix<double> gated_channels(const Attention& a, const std::string& at,
                              const Parameters<double>& parameters, const Known& known) {
  const Matrix<double> x = probes("input", known);
  const Matrix<double> gates = product(x, parameters.at(at + ".gate.weight")).transpose();
  const Matrix<double> o =
      product(probes("write", known), parameters.at(at + ".o.weight").transpose());
  const Matrix<double>& v = parameters.at(at + ".v.weight");
  std::vector<Matrix<double>> parts;
  for (std::int64_t place = 0; place < a.group(); ++place) {
    Matrix<double> written(o.rows(), v.cols()), gated(v.cols(), gates.cols());
    for (std::int64_t kv = 0; kv < a.kv_heads; ++kv) {
      const std::int64_t from = (kv * a.group() + place) * a.v_width, to = kv * a.v_width;
      written.middleCols(to, a.v_width) = o.middleCols(from, a.v_width);
      gated.middleRows(to, a.v_width) = gates.middleRows(from, a.v_width);
    }
    parts.push_back(products_of(x, v, written));
    parts.push_back(std::move(gated));
  }
  return side_by_side(parts);
}

// A permutation of the coordinates of each block.
BlockMap<double> within_blocks(const Space& space, const Matrix<double>& b, const Matrix<double>& a,
                               double rounding) {
  const auto width = space.width();
  Matrix<double> blocks = Matrix<double>::Zero(space.size(), width);
  for (Eigen::Index at = 0; at < space.size(); at += width) {
    const auto places = match_rows(b.middleRows(at, width), a.middleRows(at, width), rounding);
    for (Eigen::Index i = 0; i < width; ++i)
      blocks(at + i, places[static_cast<std::size_t>(i)]) = 1;
  }
  return {space.count, width, {}, std::move(blocks)};
}

}  // namespace

Matrix<double> delta_signatures(const Architecture& architecture, std::int64_t layer,
                                const Parameters<double>& parameters, const Known& known) {
  const DeltaNet& d = architecture.layer(layer).delta;
  const std::string at = fmt::format("layers.{}.delta", layer);
  const DeltaChannels channels = delta_channels(at, parameters, known);
  const Matrix<double> x = probes("input", known);
  return side_by_side({summed_runs(channels.values, d.value_width),
                       repeated(summed_runs(channels.keys, d.key_width), d.group()),
                       linear(parameters, at + ".a", x).transpose(),
                       linear(parameters, at + ".b", x).transpose(),
                       parameters.at(at + ".decay").transpose()});
}

Element match_channels(const Symmetry& symmetry, std::int64_t layer, const Parameters<double>& a,
                       const Parameters<double>& b, const Known& known, double rounding) {
  const Layer& shape = symmetry.architecture.layer(layer);
  Element places;
  if (shape.has_delta()) {
    const std::string at = fmt::format("layers.{}.delta", layer);
    const DeltaChannels of_b = delta_channels(at, b, known), of_a = delta_channels(at, a, known);
    places.maps[at + ".k"] =
        within_blocks(*symmetry.find_space(at + ".k"), of_b.keys, of_a.keys, rounding);
    places.maps[at + ".v"] =
        within_blocks(*symmetry.find_space(at + ".v"), of_b.values, of_a.values, rounding);
  } else if (shape.attention.gate) {
    const std::string at = fmt::format("layers.{}.attn", layer);
    places.maps[at + ".vo"] = within_blocks(
        *symmetry.find_space(at + ".vo"), gated_channels(shape.attention, at, b, known),
        gated_channels(shape.attention, at, a, known), rounding);
  }
  return places;
}

}  // namespace regauge
