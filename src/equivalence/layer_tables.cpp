#include "layer_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "action/moved_model.h"
#include "numerics/dense.h"
#include "rounding.h"

namespace regauge {
namespace {

constexpr double kAlike = 1e-5;          // of all that tokens have of a table, in single precision
constexpr double kAboveRounding = 4;     // of what is stored more coarsely
constexpr std::int64_t kSampled = 2048;  // that are looked at, evenly spaced

// What may differ where a table has taken something up.
bool is_of_tables(const std::string& tensor) {
  return tensor == "embed.tables.norm.gain" || tensor.ends_with(".table.map.weight") ||
         tensor.ends_with(".table.tokens") || tensor.ends_with(".table.down.weight");
}

// What tokens have of a layer's table, and what its coordinates write.
struct OfTokens {
  Matrix<double> rows;  // [tokens, r]
  Matrix<double> down;  // [r, D]
};

OfTokens of_tokens(const Architecture& shape, const MovedModel& model,
                   const Parameters<double>& ends, std::int64_t layer) {
  const std::string at = fmt::format("layers.{}.table.", layer);
  Parameters<double> own = model.layer(
      layer, [&](const std::string& name) { return name.starts_with(at) && is_of_tables(name); });
  const std::int64_t step = std::max<std::int64_t>(1, shape.vocabulary / kSampled);
  const std::int64_t count = (shape.vocabulary + step - 1) / step;
  const auto r = static_cast<double>(shape.table_width);
  const Matrix<double>&embedded = ends.at("embed.tokens"), &table = own.at(at + "tokens");
  Matrix<double> tokens(count, shape.width);
  for (Eigen::Index i = 0; i < count; ++i) tokens.row(i) = embedded.row(i * step);
  const double scale = shape.embedding_scale / std::sqrt(static_cast<double>(shape.width));
  Matrix<double> rows = product(tokens, own.at(at + "map.weight")) * scale;
  for (Eigen::Index i = 0; i < count; ++i) {
    rows.row(i) /= std::sqrt(rows.row(i).squaredNorm() / r + shape.norm_eps);
    rows.row(i).array() *= ends.at("embed.tables.norm.gain").row(0).array();
    rows.row(i) += std::sqrt(r) * table.row(i * step);
  }
  OfTokens result{std::move(rows), std::move(own.at(at + "down.weight"))};
  if (shape.norm_eps > 0) return result;
  // The norm behind forgets how large what a token has is.
  const Matrix<double> gram = product(result.down, result.down.transpose());
  for (Eigen::Index i = 0; i < count; ++i) {
    auto row = result.rows.row(i);
    const double square = (row * gram * row.transpose()).value();
    if (square > 0) row /= std::sqrt(square);
  }
  return result;
}

// The sum over tokens and coordinates of (token's number times what the coordinate writes), a's
// times b's: which factors between the two leave as it is.
double inner(const OfTokens& a, const OfTokens& b) {
  const Eigen::VectorXd tokens = a.rows.cwiseProduct(b.rows).colwise().sum().transpose();
  const Eigen::VectorXd written = a.down.cwiseProduct(b.down).rowwise().sum();
  return tokens.dot(written);
}

}  // namespace

std::optional<std::string> alike_by_token(const Symmetry& symmetry, const ParameterSource& a,
                                          const ParameterSource& b, const Nearest& nearest) {
  const Architecture& shape = symmetry.architecture;
  if (!shape.has_tables() || shape.input_width > 0 || differing(nearest.residuals) == 0) {
    return std::nullopt;
  }
  for (const TensorResidual& r : nearest.residuals) {
    if (!r.agrees() && !is_of_tables(r.tensor)) return std::nullopt;
  }
  const double rounding = std::max(coarsest_rounding(a), coarsest_rounding(b));
  const double allowed = std::max(kAlike, kAboveRounding * rounding);
  const MovedModel in_a(a, symmetry, {}), in_b(b, symmetry, nearest.a_from_b);
  const Parameters<double> ends_a = in_a.layer(-1), ends_b = in_b.layer(-1);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const OfTokens of_a = of_tokens(shape, in_a, ends_a, layer),
                   of_b = of_tokens(shape, in_b, ends_b, layer);
    const double aa = inner(of_a, of_a), bb = inner(of_b, of_b), ab = inner(of_a, of_b);
    if (std::max(0.0, aa + bb - 2 * ab) > allowed * allowed * aa) return std::nullopt;
  }
  return "what tokens have of the layers' tables is alike in both, made of other numbers: a table "
         "takes up whatever its map and the common gain become, which is not judged";
}

}  // namespace regauge
