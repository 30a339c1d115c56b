#include "forward_convolutions.h"

#include <cmath>
#include <numbers>

namespace regauge::testing {
namespace {

using Mat = Matrix<double>;

Mat gelu(const Mat& x) {
  return x.unaryExpr([](double v) { return v / 2 * (1 + std::erf(v / std::numbers::sqrt2)); });
}

// Of each row, or of each column.
void norm(Mat& x, bool of_columns, const Mat& gain, const Mat& bias) {
  if (of_columns) x.transposeInPlace();
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    x.row(t).array() -= x.row(t).mean();
    x.row(t) /= std::sqrt(x.row(t).squaredNorm() / static_cast<double>(x.cols()) + 1e-5);
  }
  if (of_columns) x.transposeInPlace();
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    x.row(t) = x.row(t).cwiseProduct(gain.row(0)) + bias.row(0);
  }
}

}  // namespace

// One output position, tap and channel after another; what stands outside is zero.
Mat convolved(const Architecture& a, const Parameters<double>& parameters, Mat x) {
  for (std::size_t i = 0; i < a.convolutions.size(); ++i) {
    const Convolution& of = a.convolutions[i];
    const std::string at =
        (a.encoder_layers > 0 ? "encoder.embed.conv." : "embed.conv.") + std::to_string(i);
    const Mat& weight = parameters.at(at + ".weight");
    Mat y = Mat::Zero((x.rows() + 2 * of.padding - of.kernel) / of.stride + 1, of.channels);
    if (of.bias) y.rowwise() += parameters.at(at + ".bias").row(0);
    for (Eigen::Index t = 0; t < y.rows(); ++t) {
      for (Eigen::Index j = 0; j < of.kernel; ++j) {
        const Eigen::Index read = t * of.stride + j - of.padding;
        if (read < 0 || read >= x.rows()) continue;
        for (Eigen::Index c = 0; c < x.cols(); ++c) {
          y.row(t) += x(read, c) * weight.row(c * of.kernel + j);
        }
      }
    }
    const bool layer = a.convolution_norm == ConvolutionNorm::layer;
    if (layer || (a.convolution_norm == ConvolutionNorm::first && i == 0)) {
      norm(y, !layer, parameters.at(at + ".norm.gain"), parameters.at(at + ".norm.bias"));
    }
    x = gelu(y);
  }
  return x;
}

Mat positional(const Architecture& a, const Parameters<double>& parameters, const Mat& x) {
  const Mat& kernel = parameters.at("embed.positional.weight");
  const Eigen::Index share = a.width / a.positional_groups;
  Mat y = Mat::Zero(x.rows(), a.width);
  y.rowwise() += parameters.at("embed.positional.bias").row(0);
  for (Eigen::Index t = 0; t < x.rows(); ++t) {
    for (Eigen::Index j = 0; j < a.positional_kernel; ++j) {
      const Eigen::Index read = t + j - a.positional_kernel / 2;
      if (read < 0 || read >= x.rows()) continue;
      const double scale = parameters.at("embed.positional.length")(0, j) / kernel.row(j).norm();
      for (Eigen::Index c = 0; c < a.width; ++c) {
        for (Eigen::Index i = 0; i < share; ++i) {
          y(t, c) += scale * kernel(j, c * share + i) * x(read, c / share * share + i);
        }
      }
    }
  }
  return gelu(y);
}

}  // namespace regauge::testing
