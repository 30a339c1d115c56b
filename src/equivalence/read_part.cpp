#include "read_part.h"

#include <algorithm>
#include <cmath>

namespace regauge {
namespace {

// The maps whose constant nothing takes, with their norms.
std::vector<std::pair<std::string, const NormSite*>> readers(const Symmetry& symmetry) {
  std::vector<std::pair<std::string, const NormSite*>> all;
  if (symmetry.architecture.norm != Norm::layer) return all;
  for (const auto& [name, site] : symmetry.norms) {
    for (const auto& reader : site.readers) {
      if (site.bias.empty() || !reader.bias.empty() || reader.transposed) continue;
      all.emplace_back(reader.weight, &site);
    }
  }
  return all;
}

}  // namespace

ReadPart::ReadPart(const Symmetry& symmetry, const ParameterSource& a) {
  for (const auto& [tensor, norm] : readers(symmetry)) {
    const Eigen::RowVectorXd gain = a.read<double>(norm->gain()).row(0);
    const Eigen::RowVectorXd over = a.read<double>(norm->bias).row(0).cwiseQuotient(gain);
    const double units = over.cwiseAbs().sum();
    if (units > 0 && std::isfinite(units)) behind_[tensor] = {gain, over / units};
  }
}

template <class Scalar>
Matrix<Scalar> ReadPart::of(const std::string& tensor, Matrix<Scalar> value) const {
  const auto norm = behind_.find(tensor);
  if (norm == behind_.end()) return value;
  const Eigen::RowVectorXd& gain = norm->second.gain;
  const Matrix<double> met = gain.asDiagonal() * value.template cast<double>();
  const Eigen::RowVectorXd instead = norm->second.bias_over_gain * met - met.colwise().mean();
  value += (gain.cwiseInverse().transpose() * instead).template cast<Scalar>();
  return value;
}
template Matrix<float> ReadPart::of(const std::string&, Matrix<float>) const;
template Matrix<double> ReadPart::of(const std::string&, Matrix<double>) const;

Enlarged enlarged(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b) {
  Enlarged factors;
  for (const auto& [tensor, norm] : readers(symmetry)) {
    double& factor = factors[tensor] = 1;
    for (const ParameterSource* source : {&a, &b}) {
      const Matrix<double> met =
          source->read<double>(norm->gain()).row(0).asDiagonal() * source->read<double>(tensor);
      const double mean = met.colwise().mean().squaredNorm() * static_cast<double>(met.rows());
      const double all = met.squaredNorm();
      if (all > mean) factor = std::max(factor, all / (all - mean));
    }
  }
  return factors;
}

}  // namespace regauge
