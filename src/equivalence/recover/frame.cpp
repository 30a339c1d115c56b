#include "frame.h"

#include <algorithm>
#include <cmath>

namespace regauge {
namespace {

constexpr std::int64_t kLeast = 32;

// Signs, in units that keep root mean squares; without a mean where norms take it away.
Matrix<double> directions(const Architecture& shape, const char* name, std::int64_t count) {
  Random random(0, name);
  Matrix<double> rows(count, shape.width);
  const double unit = 1 / std::sqrt(static_cast<double>(shape.width));
  for (auto& entry : rows.reshaped()) entry = random.coin() ? unit : -unit;
  if (shape.norm == Norm::layer) rows.colwise() -= rows.rowwise().mean().eval();
  return rows;
}

bool in_stream(const Axis& axis) {
  return std::any_of(axis.begin(), axis.end(),
                     [](const AxisPart& part) { return is_stream(part.space); });
}

}  // namespace

Frame::Frame(const Symmetry& symmetry) : symmetry_(symmetry) {
  const Architecture& shape = symmetry.architecture;
  std::int64_t heads = kLeast;
  for (const auto& kind : shape.kinds) {
    if (kind.attention.has_latents()) return;  // not all maps of a layer touch the stream
    heads = std::max({heads, 2 * kind.attention.qk_width, 2 * kind.attention.v_width});
  }
  if (symmetry.find_space("residual") == nullptr || 2 * heads > shape.width) return;
  attention_ = directions(shape, "frame/attention", heads);
  ffn_ = directions(shape, "frame/ffn", kLeast);
}

template <class Scalar>
Matrix<double> Frame::look_at(const std::string& tensor, const MovedMatrix<Scalar>& value) const {
  const Matrix<Scalar> rows =
      (tensor.find(".ffn.") == std::string::npos ? attention_ : ffn_).template cast<Scalar>();
  const auto& axes = symmetry_.tensors.at(tensor);
  if (in_stream(axes.rows)) return value.left(rows).template cast<double>();
  if (in_stream(axes.cols)) return value.right(rows.transpose()).template cast<double>();
  return value.left(Matrix<Scalar>::Identity(value.rows(), value.rows())).template cast<double>();
}
template Matrix<double> Frame::look_at(const std::string&, const MovedMatrix<float>&) const;
template Matrix<double> Frame::look_at(const std::string&, const MovedMatrix<double>&) const;

}  // namespace regauge
