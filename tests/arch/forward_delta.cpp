#include "forward_delta.h"

#include <cmath>

namespace regauge::testing {
namespace {

using Mat = Matrix<double>;
using Row = Eigen::RowVectorXd;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// silu(sum over t of kernel[t] x[position - (taps - 1) + t]), channel by channel.
Mat convolved(const Mat& x, const Mat& kernel) {
  Mat result = Mat::Zero(x.rows(), x.cols());
  const Eigen::Index taps = kernel.rows();
  for (Eigen::Index position = 0; position < x.rows(); ++position) {
    for (Eigen::Index t = 0; t < taps; ++t) {
      const Eigen::Index from = position - (taps - 1) + t;
      if (from >= 0) result.row(position) += x.row(from).cwiseProduct(kernel.row(t));
    }
  }
  return result.unaryExpr([](double v) { return v * sigmoid(v); });
}

Row of_length_one(const Row& x) { return x / std::sqrt(x.squaredNorm() + 1e-6); }

}  // namespace

Matrix<double> delta_net(const DeltaNet& shape, double norm_eps,
                         const Parameters<double>& parameters, const std::string& at,
                         const Matrix<double>& x) {
  const auto weight = [&](const char* name) -> const Mat& {
    return parameters.at(at + name + ".weight");
  };
  const Mat q = convolved(x * weight("q"), weight("q_conv"));
  const Mat k = convolved(x * weight("k"), weight("k_conv"));
  const Mat v = convolved(x * weight("v"), weight("v_conv"));
  const Mat z = x * weight("z"), a = x * weight("a"), b = x * weight("b");
  const Row gain = parameters.at(at + "norm.gain").row(0);
  const Eigen::Index dk = shape.key_width, dv = shape.value_width;
  Mat mixed(x.rows(), shape.values());
  for (Eigen::Index head = 0; head < shape.value_heads; ++head) {
    const Eigen::Index key_head = head / shape.group();
    const double rate = std::exp(parameters.at(at + "decay")(0, head));
    Mat state = Mat::Zero(dk, dv);
    for (Eigen::Index t = 0; t < x.rows(); ++t) {
      const Row query = of_length_one(q.row(t).segment(key_head * dk, dk));
      const Row key = of_length_one(k.row(t).segment(key_head * dk, dk));
      const Row value = v.row(t).segment(head * dv, dv);
      const double step = std::log1p(std::exp(a(t, head) + parameters.at(at + "a.bias")(0, head)));
      state *= std::exp(-rate * step);
      state += key.transpose() * (sigmoid(b(t, head)) * (value - key * state));
      Row y = query * state / std::sqrt(static_cast<double>(dk));
      y /= std::sqrt(y.squaredNorm() / static_cast<double>(dv) + norm_eps);
      for (Eigen::Index i = 0; i < dv; ++i) {
        const double gate = z(t, head * dv + i);
        mixed(t, head * dv + i) = y(i) * gain(i) * gate * sigmoid(gate);
      }
    }
  }
  return mixed * weight("o");
}

}  // namespace regauge::testing
