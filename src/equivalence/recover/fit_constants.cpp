#include "fit_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "action/moved_model.h"
#include "equivalence/recover/tolerances.h"
#include "numerics/decompositions.h"

namespace regauge {
namespace {

void add_to(Matrix<double>& sum, const Matrix<double>& vector) {
  if (sum.size() == 0) {
    sum = vector;
  } else {
    sum += vector;
  }
}

class Constants {
 public:
  Constants(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
            const Enlarged& enlarged, Element& a_from_b)
      : symmetry_(symmetry), a_(a), b_(b), enlarged_(enlarged), a_from_b_(a_from_b) {}

  // The part of each reader along 1/gain.
  void unread(std::int64_t layer) {
    std::set<std::string> readers;
    for (const Shift* shift : shifts_of(layer)) {
      if (!is_of_reader(*shift)) continue;
      const std::string& tensor = shift->effects.front().tensor;
      if (symmetry_.index->tensors.at(tensor).layer == layer) readers.insert(tensor);
    }
    if (readers.empty()) return;
    const auto moved =
        moved_layer(symmetry_, a_from_b_, layer, b_.reader(),
                    [&](const std::string& matrix) { return readers.contains(matrix); });
    for (const Shift* each : shifts_of(layer)) {
      const Shift& shift = *each;
      if (!is_of_reader(shift)) continue;
      const Effect& effect = shift.effects.front();
      const bool constant = effect.kind == Effect::Kind::reader_constant;
      const auto tensor = moved.find(effect.tensor);
      if (tensor == moved.end() || shift.length != tensor->second.cols()) continue;
      const NormSite& norm = symmetry_.norms.at(effect.norm);
      const Matrix<double> unread = a_.read<double>(norm.gain()).cwiseInverse();
      const double passed = constant ? a_.read<double>(norm.bias).cwiseProduct(unread).sum() : 1.0;
      Matrix<double> missing = unread * (a_.read<double>(effect.tensor) - tensor->second) *
                               (passed / unread.squaredNorm());
      for (std::int64_t i = 0; i < shift.length; ++i) {
        if (!shift.is_free(i)) missing(0, i) = 0;
      }
      add_to(a_from_b_.shifts[shift.name], missing);
    }
  }

  // A constant of the values that leaves by the output bias: where the values' rounding is
  // enlarged, the bias knows it better. The least squares of both, in units of their rounding.
  void values(std::int64_t layer) {
    for (const Shift* each : shifts_of(layer)) {
      const Shift& shift = *each;
      if (shift.depends_on_values) continue;
      const Effect& reads = shift.effects.front();
      const auto absorbs =
          std::find_if(shift.effects.begin(), shift.effects.end(), [](const Effect& effect) {
            return effect.kind == Effect::Kind::absorb && !effect.target.empty();
          });
      if (reads.kind != Effect::Kind::reader_constant || absorbs == shift.effects.end()) continue;
      const double larger = enlarged_.at(reads.tensor);
      if (larger < kMuchLarger || !is_of(layer, reads.tensor)) continue;
      const auto moved = moved_layer(symmetry_, a_from_b_, layer, b_.reader());
      const Matrix<double> bias = a_.read<double>(symmetry_.norms.at(reads.norm).bias);
      const Matrix<double> weight = a_.read<double>(reads.tensor);
      const Matrix<double> taken = a_.read<double>(absorbs->target);
      const Matrix<double> of_values = bias * (weight - moved.at(reads.tensor));
      const Matrix<double> of_outputs = moved.at(absorbs->target) - taken;
      const Matrix<double> out = absorbed(*absorbs, shift.length);
      // |of_values - c|^2 / rounding^2 + |of_outputs - c out|^2 / rounding^2
      const double values =
          bias.squaredNorm() * larger * weight.squaredNorm() / static_cast<double>(weight.size());
      const double outputs =
          std::max(taken.squaredNorm(), b_.read<double>(absorbs->target).squaredNorm()) /
          static_cast<double>(taken.size());
      if (outputs == 0) continue;  // no bias on either side: nothing was given to it
      Eigen::MatrixXd normal = out * out.transpose() * (values / outputs);
      normal.diagonal().array() += 1;
      const Eigen::VectorXd right =
          (of_values + of_outputs * out.transpose() * (values / outputs)).transpose();
      add_to(a_from_b_.shifts[shift.name], solve_positive(normal, right).transpose());
    }
  }

 private:
  // Those that act on a layer's tensors.
  std::vector<const Shift*> shifts_of(std::int64_t layer) const {
    std::vector<const Shift*> shifts;
    for (const std::size_t i : symmetry_.layer(layer).shifts) {
      shifts.push_back(&symmetry_.shifts[i]);
    }
    return shifts;
  }
  // One that depends on the values says no more.
  static bool is_of_reader(const Shift& shift) {
    if (shift.depends_on_values) return false;
    const Effect::Kind kind = shift.effects.front().kind;
    return kind == Effect::Kind::reader || kind == Effect::Kind::reader_constant;
  }
  bool is_of(std::int64_t layer, const std::string& tensor) const {
    return tensor.starts_with(fmt::format("layers.{}.", layer));
  }

  // Row i: what the output bias gives up for a unit of the shift's coordinate i.
  Matrix<double> absorbed(const Effect& effect, std::int64_t length) const {
    const Matrix<double> outputs = a_.read<double>(effect.tensor);
    Matrix<double> rows = Matrix<double>::Zero(length, outputs.cols());
    for (std::int64_t i = 0; i < outputs.rows(); ++i) {
      const auto head = i / effect.width;
      rows.row(head / effect.spread * effect.width + i % effect.width) += outputs.row(i);
    }
    if (!effect.centred) return rows;
    if (effect.norm.empty()) {
      rows.colwise() -= rows.rowwise().mean().eval();
    } else {
      const Matrix<double> scale = a_.read<double>(symmetry_.norms.at(effect.norm).gain());
      const Matrix<double> means = rows * scale.transpose() / static_cast<double>(rows.cols());
      rows -= means * scale.cwiseInverse();
    }
    return rows;
  }

  const Symmetry& symmetry_;
  const ParameterSource& a_;
  const ParameterSource& b_;
  const Enlarged& enlarged_;
  Element& a_from_b_;
};

}  // namespace

void fit_constants(const Symmetry& symmetry, const ParameterSource& a, const ParameterSource& b,
                   const Enlarged& enlarged, Element& a_from_b) {
  if (symmetry.architecture.norm != Norm::layer) return;
  Constants constants(symmetry, a, b, enlarged, a_from_b);
  for (std::int64_t layer = -1; layer < symmetry.architecture.layers; ++layer) {
    constants.unread(layer);
    constants.values(layer);
  }
}

}  // namespace regauge
