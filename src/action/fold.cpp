#include "regauge/action/fold.h"

#include <fmt/format.h>

#include "regauge/base/error.h"

namespace regauge {
namespace {

Matrix<double> inverse_gain(const Matrix<double>& gain, const std::string& norm) {
  for (Eigen::Index i = 0; i < gain.cols(); ++i) {
    if (gain(0, i) == 0) {
      throw NoStandardForm(fmt::format(
          "[fold] {}.gain is 0 at coordinate {}: no change of basis makes it 1. Set it to a small "
          "number and what it multiplies to 0 first",
          norm, i));
    }
  }
  return gain.cwiseInverse();
}

// The mean of each row, as a row, of entries times `gain` if there is one; summed in double.
Matrix<double> means(const AnyMatrix& matrix, const Matrix<double>& gain) {
  return std::visit(
      [&](const auto& m) -> Matrix<double> {
        const auto& entries = m.template cast<double>();  // of a double no copy
        if (gain.size() == 0) return entries.rowwise().mean().transpose();
        return (entries * gain.transpose()).transpose() / static_cast<double>(m.cols());
      },
      matrix);
}

// weights (a row) times the matrix, summed in double.
Matrix<double> weighted(const Matrix<double>& weights, const AnyMatrix& matrix) {
  return std::visit(
      [&](const auto& m) {
        Matrix<double> sum = Matrix<double>::Zero(1, m.cols());
        for (Eigen::Index i = 0; i < m.rows(); ++i) {
          sum += weights(0, i) * m.row(i).template cast<double>();
        }
        return sum;
      },
      matrix);
}

bool all_readers_have_biases(const NormSite& site) {
  for (const auto& reader : site.readers) {
    if (reader.bias.empty()) return false;
  }
  return true;
}

}  // namespace

Element fold_element(const Symmetry& symmetry, const ReadTensor& read, const FoldOptions& options,
                     Progress& progress) {
  Element element;
  for (const auto& [name, site] : symmetry.norms) {
    const Matrix<double> gain = read(site.gain());
    if (options.gains && symmetry.find_space(name) != nullptr) {
      const Matrix<double> factors = inverse_gain(gain, name).transpose();
      element.maps[name] = BlockMap<double>(factors.rows(), 1, {}, factors);
    }
    const bool shifts = symmetry.find_shift(name + ".shift") != nullptr;
    if (options.biases && shifts && all_readers_have_biases(site)) {
      element.shifts[name + ".shift"] = -read(site.bias).cwiseProduct(inverse_gain(gain, name));
    }
  }
  if (!options.centring || symmetry.architecture.norm != Norm::layer) return element;
  progress.start("centring", static_cast<std::int64_t>(symmetry.shifts.size()));
  for (const auto& shift : symmetry.shifts) {
    progress.advance(1);
    if (shift.effects.size() != 1) continue;
    const Effect& effect = shift.effects.front();
    if (effect.kind == Effect::Kind::add_columns && shift.name.ends_with(".mean")) {
      const Matrix<double> gain =
          effect.norm.empty() ? Matrix<double>() : read(symmetry.norms.at(effect.norm).gain());
      element.shifts[shift.name] = -means(read.any(effect.tensor), gain);
    } else if (effect.kind == Effect::Kind::reader) {
      const Matrix<double> gain = read(symmetry.norms.at(effect.norm).gain());
      element.shifts[shift.name] =
          -weighted(gain, read.any(effect.tensor)) / static_cast<double>(gain.cols());
    }
  }
  progress.finish();
  return element;
}

}  // namespace regauge
