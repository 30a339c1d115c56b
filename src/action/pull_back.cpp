#include "pull_back.h"

#include "base/blas.h"

namespace regauge {
namespace {

using RowOfDoubles = Eigen::RowVectorXd;

class PullBack {
 public:
  PullBack(const Symmetry& symmetry, const Parameters<double>& parameters,
           const Parameters<double>& gradient)
      : symmetry_(symmetry), parameters_(parameters), gradient_(gradient) {
    for (const auto& space : symmetry.spaces) {
      if (space.dimension() > 0) {
        tangent_.maps[space.name] = Matrix<double>::Zero(space.size(), space.width());
      }
    }
  }

  Tangent run() {
    for (const auto& [name, axes] : symmetry_.tensors) {
      for (const auto& part : axes.rows) add_part(name, axes, part, 0);
      for (const auto& part : axes.cols) add_part(name, axes, part, 1);
    }
    for (auto& [name, blocks] : tangent_.maps) {
      blocks = symmetry_.find_space(name)->project(blocks);
    }
    for (const auto& shift : symmetry_.shifts) {
      if (!shift.depends_on_values) tangent_.shifts[shift.name] = shift_gradient(shift);
    }
    return std::move(tangent_);
  }

 private:
  RowOfDoubles gain(const std::string& norm) const { return parameters_.at(norm + ".gain").row(0); }
  RowOfDoubles norm_bias(const std::string& norm) const {
    return parameters_.at(symmetry_.norms.at(norm).bias).row(0);
  }
  RowOfDoubles bias_over_gain(const std::string& norm) const {
    const std::string& bias = symmetry_.norms.at(norm).bias;
    if (bias.empty()) return RowOfDoubles::Zero(gain(norm).cols());
    return parameters_.at(bias).row(0).cwiseQuotient(gain(norm));
  }

  // Adds d<G, M T>/dM at M = 1 on one axis (G as T in the dual), block by block, to the space's
  // tangent.
  void accumulate(const AxisPart& part, const Matrix<double>& value, const Matrix<double>& slope,
                  int axis) {
    const auto found = tangent_.maps.find(part.space);
    if (found == tangent_.maps.end()) return;
    using Take = AxisPart::Take;
    if (part.take == Take::permutation || part.take == Take::signs || part.take == Take::pattern) {
      return;
    }
    const Space& space = *symmetry_.find_space(part.space);
    const auto width = space.width();
    const std::int64_t length = axis == 0 ? value.rows() : value.cols();
    if (width == length) {  // wide: the stream
      Matrix<double> cross(width, width);
      gemm<double>(axis == 1, axis == 0, width, width, value.size() / length, 1, value.data(),
                   value.cols(), slope.data(), slope.cols(), 0, cross.data(), width);
      add_block(part, cross, found->second);
      return;
    }
    const std::int64_t step = width * part.repeat;  // coordinates of one block
    const std::int64_t spread =                     // query heads per kv head
        part.lift.empty() ? 1 : symmetry_.find_space(part.lift)->count / space.count;
    for (std::int64_t start = 0; start < length; start += width) {
      const std::int64_t block = start / step / spread % space.count;
      Matrix<double> cross;
      if (axis == 0) {
        cross = value.middleRows(start, width) * slope.middleRows(start, width).transpose();
      } else {
        cross = value.middleCols(start, width).transpose() * slope.middleCols(start, width);
      }
      add_block(part, cross, found->second.middleRows(block * width, width));
    }
  }

  static void add_block(const AxisPart& part, const Matrix<double>& cross,
                        Eigen::Ref<Matrix<double>> target) {
    if (part.dual) {
      target -= cross.transpose();
    } else {
      target += cross;
    }
  }

  void add_part(const std::string& name, const TensorAxes& axes, const AxisPart& part, int axis) {
    Matrix<double> value = parameters_.at(name);
    Matrix<double> slope = gradient_.at(name);
    if (axes.pinned) {
      const Architecture& a = symmetry_.architecture;
      for (std::int64_t i = 0; i < a.width; ++i) {
        value.col(i).array() += fixed_origin(a, name, i);
      }
    }
    if (!part.through.empty()) {
      // The gain's own space meets the tensor beside the stream's.
      AxisPart own;
      own.space = part.through;
      own.dual = part.times_gain();
      // Heads may share a gain.
      own.tile = (axis == 0 ? value.rows() : value.cols()) / gain(part.through).cols();
      if (symmetry_.find_space(own.space) != nullptr) accumulate(own, value, slope, axis);
      const RowOfDoubles once =
          part.times_gain() ? gain(part.through) : gain(part.through).cwiseInverse();
      const RowOfDoubles factor = once.replicate(1, own.tile);
      if (axis == 0) {
        value.array().colwise() *= factor.transpose().array();
        slope.array().colwise() /= factor.transpose().array();
      } else {
        value.array().rowwise() *= factor.array();
        slope.array().rowwise() /= factor.array();
      }
    }
    accumulate(part, value, slope, axis);
  }

  Matrix<double> shift_gradient(const Shift& shift) const {
    RowOfDoubles sum = RowOfDoubles::Zero(shift.length);
    for (const auto& effect : shift.effects) sum += effect_gradient(effect, shift.length);
    for (std::int64_t i = 0; i < shift.length; ++i) {
      if (!shift.is_free(i)) sum(i) = 0;
    }
    if (shift.sums_to_zero) sum.array() -= sum.mean();
    return sum;
  }

  RowOfDoubles effect_gradient(const Effect& effect, std::int64_t length) const {
    const Matrix<double>& value = parameters_.at(effect.tensor);
    const Matrix<double>& slope = gradient_.at(effect.tensor);
    const RowOfDoubles taken =
        effect.target.empty() ? RowOfDoubles() : RowOfDoubles(gradient_.at(effect.target).row(0));
    switch (effect.kind) {
      case Effect::Kind::add_rows: {
        const auto last = effect.last_row < 0 ? slope.rows() : effect.last_row;
        RowOfDoubles result =
            slope.middleRows(effect.first_row, last - effect.first_row).colwise().sum();
        if (!effect.target.empty()) result -= taken.sum() * norm_bias(effect.norm);
        return effect.factor * result;
      }
      case Effect::Kind::add_columns:
        if (!effect.norm.empty()) return gain(effect.norm).cwiseInverse() * slope.transpose();
        return slope.rowwise().sum().transpose();
      case Effect::Kind::add_all:
        return RowOfDoubles::Constant(
            1,
            slope.sum() - (effect.target.empty() ? 0 : taken.sum() * norm_bias(effect.norm).sum()));
      case Effect::Kind::add_gained:
        return effect.factor * slope.row(0).cwiseProduct(gain(effect.norm));
      case Effect::Kind::reader: {
        RowOfDoubles result = gain(effect.norm).cwiseInverse() * slope;
        if (!effect.target.empty()) result -= bias_over_gain(effect.norm).sum() * taken;
        return result;
      }
      case Effect::Kind::reader_constant: {
        const RowOfDoubles result =
            gain(effect.norm).cwiseInverse() * slope / bias_over_gain(effect.norm).sum();
        return length == 1 ? RowOfDoubles::Constant(1, result.sum()) : result;
      }
      case Effect::Kind::reader_columns: {
        const RowOfDoubles over = bias_over_gain(effect.norm);
        const RowOfDoubles direct =
            slope.rowwise().sum().transpose().cwiseQuotient(gain(effect.norm));
        if (!effect.target.empty()) return direct - taken.sum() * over;
        return over.sum() == 0 ? direct : RowOfDoubles(direct - direct.sum() / over.sum() * over);
      }
      case Effect::Kind::absorb: {
        RowOfDoubles seen = taken;
        if (effect.centred && effect.norm.empty()) {
          seen.array() -= seen.mean();
        } else if (effect.centred) {
          const RowOfDoubles scale = gain(effect.norm);
          seen -= seen.cwiseQuotient(scale).mean() * scale;
        }
        const RowOfDoubles lifted = -seen * value.transpose();
        RowOfDoubles result = RowOfDoubles::Zero(length);
        for (Eigen::Index i = 0; i < lifted.cols(); ++i) {
          const auto head = i / effect.width;
          result(head / effect.spread * effect.width + i % effect.width) += lifted(i);
        }
        return result;
      }
      case Effect::Kind::norm_reader: {
        RowOfDoubles constant_slope = taken;
        if (effect.target.empty()) {
          constant_slope =
              gain(effect.norm).cwiseInverse() * slope / bias_over_gain(effect.norm).sum();
        }
        const RowOfDoubles through = effect.transposed
                                         ? RowOfDoubles(constant_slope * value)
                                         : RowOfDoubles(constant_slope * value.transpose());
        return -through.cwiseProduct(gain(effect.norm));
      }
    }
    return RowOfDoubles::Zero(length);
  }

  const Symmetry& symmetry_;
  const Parameters<double>& parameters_;
  const Parameters<double>& gradient_;
  Tangent tangent_;
};

}  // namespace

Tangent pull_back(const Symmetry& symmetry, const Parameters<double>& parameters,
                  const Parameters<double>& gradient) {
  return PullBack(symmetry, parameters, gradient).run();
}

double inner_product(const Tangent& a, const Tangent& b) {
  double sum = 0;
  for (const auto& [name, blocks] : a.maps) sum += blocks.cwiseProduct(b.maps.at(name)).sum();
  for (const auto& [name, vector] : a.shifts) sum += vector.cwiseProduct(b.shifts.at(name)).sum();
  return sum;
}

Element retract(const Symmetry& symmetry, const Tangent& tangent) {
  Element element;
  for (const auto& [name, blocks] : tangent.maps) {
    element.maps[name] = symmetry.find_space(name)->exponential(blocks);
  }
  element.shifts = tangent.shifts;
  return element;
}

Tangent random_tangent(const Symmetry& symmetry, std::uint64_t seed) {
  Tangent tangent;
  for (const auto& space : symmetry.spaces) {
    if (space.dimension() == 0) continue;
    Random random(seed, "tangent/" + space.name);
    Matrix<double> blocks(space.size(), space.width());
    for (auto& entry : blocks.reshaped<Eigen::RowMajor>()) entry = random.normal();
    tangent.maps[space.name] = space.project(blocks);
  }
  for (const auto& shift : symmetry.shifts) {
    if (shift.depends_on_values) continue;
    Random random(seed, "tangent/" + shift.name);
    Matrix<double> vector(1, shift.length);
    for (std::int64_t i = 0; i < shift.length; ++i) {
      vector(0, i) = shift.is_free(i) ? random.normal() : 0;
    }
    if (shift.sums_to_zero) vector.array() -= vector.mean();
    tangent.shifts[shift.name] = vector;
  }
  return tangent;
}

}  // namespace regauge
