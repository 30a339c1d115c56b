#include "read_part.h"

#include <algorithm>
#include <cmath>

namespace regauge {
namespace {

struct ReadMap {
  const NormSite* norm;
  const Reader* map;
  // Nothing takes the constant that the norm's bias makes.
  bool reads_constant() const { return !norm->bias.empty() && map->bias.empty(); }
};

std::vector<ReadMap> read_maps(const Symmetry& symmetry) {
  std::vector<ReadMap> all;
  for (const auto& [name, site] : symmetry.norms) {
    for (const auto& reader : site.readers) {
      if (!reader.transposed) all.push_back({&site, &reader});
    }
  }
  return all;
}

}  // namespace

ReadPart::ReadPart(const Symmetry& symmetry, const ParameterSource& a) {
  for (const ReadMap& reader : read_maps(symmetry)) {
    const Eigen::RowVectorXd gain = a.read<double>(reader.norm->gain()).row(0);
    const double size = gain.norm() / std::sqrt(static_cast<double>(gain.size()));
    if (!(size > 0) || !std::isfinite(size)) continue;
    // Heads may share a gain.
    const std::int64_t rows = symmetry.index->tensors.at(reader.map->weight).rows;
    const Eigen::RowVectorXd shared = (gain / size).replicate(1, rows / gain.cols());
    Behind& behind = behind_[reader.map->weight] = {shared, {}};
    if (symmetry.architecture.norm != Norm::layer || !reader.reads_constant()) continue;
    const Eigen::RowVectorXd over = a.read<double>(reader.norm->bias).row(0).cwiseQuotient(gain);
    const double units = over.cwiseAbs().sum();
    if (units > 0 && std::isfinite(units)) behind.bias_over_gain = over / units;
  }
}

template <class Scalar>
Matrix<Scalar> ReadPart::weighed(const std::string& tensor, Matrix<Scalar> value) const {
  const auto norm = behind_.find(tensor);
  if (norm == behind_.end()) return value;
  value.array().colwise() *= norm->second.gain.transpose().template cast<Scalar>().array();
  return value;
}
template Matrix<float> ReadPart::weighed(const std::string&, Matrix<float>) const;
template Matrix<double> ReadPart::weighed(const std::string&, Matrix<double>) const;

template <class Scalar>
Matrix<Scalar> ReadPart::of(const std::string& tensor, Matrix<Scalar> value) const {
  const auto norm = behind_.find(tensor);
  if (norm == behind_.end()) return value;
  value = weighed(tensor, std::move(value));
  const Eigen::RowVectorXd& over = norm->second.bias_over_gain;
  if (over.size() == 0) return value;
  const Matrix<double> met = value.template cast<double>();
  const Eigen::RowVectorXd instead = over * met - met.colwise().mean();
  value.rowwise() += instead.template cast<Scalar>();
  return value;
}
template Matrix<float> ReadPart::of(const std::string&, Matrix<float>) const;
template Matrix<double> ReadPart::of(const std::string&, Matrix<double>) const;

Matrix<double> ReadPart::transposed(const std::string& tensor, Matrix<double> x) const {
  const auto norm = behind_.find(tensor);
  if (norm == behind_.end()) return x;
  const Eigen::RowVectorXd& over = norm->second.bias_over_gain;
  if (over.size() != 0) {
    // of(W) = G W + 1 (over - 1/n) G W with G the gains.
    const Eigen::VectorXd sums = x.rowwise().sum();
    const Eigen::RowVectorXd instead = over.array() - 1.0 / static_cast<double>(over.size());
    x += sums * instead;
  }
  return x * norm->second.gain.asDiagonal();
}

Enlarged enlarged(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b) {
  Enlarged factors;
  if (symmetry.architecture.norm != Norm::layer) return factors;
  for (const ReadMap& reader : read_maps(symmetry)) {
    if (!reader.reads_constant()) continue;
    const std::string& tensor = reader.map->weight;
    double& factor = factors[tensor] = 1;
    for (const ParameterSource* source : {&a, &b}) {
      const Matrix<double> met = source->read<double>(reader.norm->gain()).row(0).asDiagonal() *
                                 source->read<double>(tensor);
      const double mean = met.colwise().mean().squaredNorm() * static_cast<double>(met.rows());
      const double all = met.squaredNorm();
      if (all > mean) factor = std::max(factor, all / (all - mean));
    }
  }
  return factors;
}

}  // namespace regauge
