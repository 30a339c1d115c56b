#include "standard_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "moved_model.h"
#include "regauge/action/fold.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

constexpr double kPassable = 0.1;

// The layer on whose tensors a shift acts first.
std::int64_t layer_of(const Symmetry& symmetry, const Shift& shift) {
  return symmetry.index->tensors.at(shift.effects.front().tensor).layer;
}

bool is_norm_shift(const Shift& shift) {
  return shift.effects.front().kind == Effect::Kind::norm_reader;
}

// Rows of a table that a shift of their own frees, so that nothing reads them.
std::vector<bool> unread_rows(const Symmetry& symmetry, const std::string& table,
                              std::int64_t rows) {
  std::vector<bool> unread(static_cast<std::size_t>(rows));
  const std::int64_t layer = symmetry.index->tensors.at(table).layer;
  for (const std::size_t i : symmetry.layer(layer).shifts) {
    const Shift& shift = symmetry.shifts[i];
    const Effect& effect = shift.effects.front();
    if (shift.effects.size() != 1 || effect.kind != Effect::Kind::add_rows) continue;
    if (effect.tensor != table || effect.last_row < 0) continue;
    std::fill(unread.begin() + effect.first_row, unread.begin() + effect.last_row, true);
  }
  return unread;
}

// The mean of the rows [first, last) that are read; of all of them if none is.
Matrix<double> mean_of_rows(const Matrix<double>& table, const std::vector<bool>& unread,
                            std::int64_t first, std::int64_t last) {
  Matrix<double> sum = Matrix<double>::Zero(1, table.cols());
  std::int64_t count = 0;
  for (std::int64_t row = first; row < last; ++row) {
    if (unread[static_cast<std::size_t>(row)]) continue;
    sum += table.row(row);
    ++count;
  }
  if (count == 0) return table.middleRows(first, last - first).colwise().mean();
  return sum / static_cast<double>(count);
}

// The shift that makes its own quantity zero: what it adds to first. Nothing where that is not
// known how to find in one layer.
std::optional<Matrix<double>> vanishing(const Symmetry& symmetry, const Shift& shift,
                                        const Parameters<double>& parameters) {
  const Effect& effect = shift.effects.front();
  const Matrix<double>& tensor = parameters.at(effect.tensor);
  // Tensors of the norm in front, which may be another layer's.
  const auto norm = [&](const std::string& name) {
    const auto found = parameters.find(name);
    return found == parameters.end() ? nullptr : &found->second;
  };
  for (const Effect& each : shift.effects) {
    const bool makes_constant = !each.target.empty() && !each.norm.empty();
    if (makes_constant && norm(symmetry.norms.at(each.norm).gain()) == nullptr) return std::nullopt;
  }
  Matrix<double> vector;
  switch (effect.kind) {
    case Effect::Kind::add_rows: {
      const auto last = effect.last_row < 0 ? tensor.rows() : effect.last_row;
      const auto unread = unread_rows(symmetry, effect.tensor, tensor.rows());
      vector = mean_of_rows(tensor, unread, effect.first_row, last);
      // A rotation of the stream has a fixed table's origin at its centre.
      for (Eigen::Index i = 0; symmetry.tensors.at(effect.tensor).pinned && i < vector.cols();
           ++i) {
        vector(0, i) += fixed_origin(symmetry.architecture, effect.tensor, i);
      }
      vector /= -effect.factor;
      break;
    }
    case Effect::Kind::add_columns:
      vector = effect.norm.empty()
                   ? Matrix<double>(-tensor.rowwise().mean().transpose())
                   : Matrix<double>(-*norm(symmetry.norms.at(effect.norm).gain()) *
                                    tensor.transpose() / static_cast<double>(tensor.cols()));
      break;
    case Effect::Kind::add_all:
      vector = Matrix<double>::Constant(1, 1, -tensor.mean());
      break;
    case Effect::Kind::reader_constant: {
      const Matrix<double>* bias = norm(symmetry.norms.at(effect.norm).bias);
      if (bias == nullptr) return std::nullopt;
      vector = -*bias * tensor;
      if (shift.length == 1) vector = Matrix<double>::Constant(1, 1, vector.mean());
      break;
    }
    case Effect::Kind::reader_columns: {
      const Matrix<double>* gain = norm(symmetry.norms.at(effect.norm).gain());
      if (gain == nullptr) return std::nullopt;
      vector = -tensor.rowwise().mean().transpose().cwiseProduct(*gain);
      break;
    }
    default:
      return std::nullopt;
  }
  for (std::int64_t i = 0; i < shift.length; ++i) {
    if (!shift.is_free(i)) vector(0, i) = 0;
  }
  if (shift.sums_to_zero) vector.array() -= vector.mean();
  return vector;
}

bool changes_sign_with_stream(const Symmetry& symmetry, const NormSite& norm) {
  const Axis& axis = symmetry.tensors.at(norm.bias).cols;
  return std::any_of(axis.begin(), axis.end(),
                     [](const AxisPart& part) { return part.space == "residual.sign"; });
}

// The encoder's last norm, which keys and values of other layers read; empty for one stack.
Parameters<double> norm_behind_encoder(const Architecture& shape, const MovedModel& moved) {
  Parameters<double> norm;
  if (shape.encoder_layers == 0) return norm;
  const std::string name = shape.encoder_norm() + ".";
  const auto no_matrix = [](const std::string&) { return false; };
  for (auto& [tensor, value] : moved.layer(regauge::layer_of(name), no_matrix)) {
    if (tensor.starts_with(name)) norm.emplace(tensor, std::move(value));
  }
  return norm;
}

void add_to(Matrix<double>& sum, const Matrix<double>& vector) {
  if (sum.size() == 0) {
    sum = vector;
  } else {
    sum += vector;
  }
}

// Folding centres biases and tables as they were; other shifts may have added to them since.
bool is_disturbed_mean(const Shift& shift, std::int64_t layer) {
  const bool mean = shift.effects.front().kind == Effect::Kind::add_columns;
  return mean && (shift.length == 1 || layer == -1);
}

// The shifts of a layer that folding leaves, in an order in which none disturbs an earlier one: a
// constant is added to a table's unread rows, too.
std::vector<const Shift*> remaining(const Symmetry& symmetry, const Element& folded,
                                    std::int64_t layer) {
  std::vector<const Shift*> rows, others, means;
  for (const std::size_t i : symmetry.layer(layer).shifts) {
    const Shift& shift = symmetry.shifts[i];
    if (shift.depends_on_values || is_norm_shift(shift)) continue;
    if (layer_of(symmetry, shift) != layer) continue;
    if (folded.shifts.contains(shift.name) && !is_disturbed_mean(shift, layer)) continue;
    const bool single_rows = shift.effects.front().last_row >= 0;
    const bool mean = is_disturbed_mean(shift, layer);
    (mean ? means : single_rows ? rows : others).push_back(&shift);
  }
  std::vector<const Shift*> order = others;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), means.begin(), means.end());
  return order;
}

// The signs of the stream that make every number on it positive: gains follow.
Element positive_numbers(const ReadTensor& read, const Symmetry& symmetry) {
  Element element;
  double sign = 1;
  for (std::int64_t n = 0; n < symmetry.architecture.layers; ++n) {
    if (!symmetry.architecture.layer(n).stream_scale) continue;
    const std::string name = fmt::format("layers.{}.scale", n);
    if (read(name)(0, 0) < 0) sign = -sign;
    if (sign < 0)
      element.maps[name] = BlockMap<double>(1, 1, {}, Matrix<double>::Constant(1, 1, -1));
  }
  return element;
}

// What `signs`, which are of all of the stream, make of a tensor.
Matrix<double> with_signs(const Symmetry& symmetry, const Element& signs, std::string_view tensor,
                          Matrix<double> value) {
  const TensorAxes& axes = symmetry.tensors.at(std::string(tensor));
  for (const auto* axis : {&axes.rows, &axes.cols}) {
    for (const auto& part : *axis) {
      if (signs.maps.contains(part.space)) value = -value;
    }
  }
  return value;
}

Element form_of(const ReadTensor& read, const Symmetry& symmetry, double sign,
                std::vector<std::string>& limits, Progress& progress, UnknownShifts unknown) {
  Element form = fold_element(symmetry, read, {}, progress);
  // A norm's bias that must stay, because some reader cannot take its constant, becomes gain/D, or
  // minus that where all of the stream changes its sign and the bias with it.
  for (const auto& [name, site] : symmetry.norms) {
    const std::string shift = name + ".shift";
    if (symmetry.find_shift(shift) == nullptr || form.shifts.contains(shift)) continue;
    const Matrix<double> over = read(site.bias).array() / read(site.gain()).array();
    if (std::abs(over.sum()) < kPassable * over.cwiseAbs().sum()) {
      limits.push_back(
          fmt::format("{}: bias/gain sums to almost nothing, and what passes through it "
                      "as a constant loses digits",
                      name));
    }
    const double kept = changes_sign_with_stream(symmetry, site) ? sign : 1;
    form.shifts[shift] = kept / static_cast<double>(over.cols()) - over.array();
  }
  // Gains that cannot be folded, of q and k or behind what a branch writes: positive.
  Element positive;
  for (const auto& space : symmetry.spaces) {
    if (space.category != Category::norms || !space.is_signs()) continue;
    const Matrix<double> gain = read(space.name + ".gain");
    const Matrix<double> signs =
        (gain.array() < 0)
            .select(-Matrix<double>::Ones(1, gain.cols()), Matrix<double>::Ones(1, gain.cols()))
            .matrix()
            .transpose();
    positive.maps[space.name] = BlockMap<double>(space.count, 1, {}, signs);
  }
  // A gain in front of the norm of a sum changes its signs with the gain behind it.
  const auto own = positive.maps;
  for (const auto& [name, map] : own) {
    for (const auto& part : symmetry.tensors.at(name + ".gain").cols) {
      const auto behind = own.find(part.space);
      if (part.space == name || behind == own.end()) continue;
      positive.maps[name] =
          BlockMap<double>(map.count(), 1, {}, map.blocks().cwiseProduct(behind->second.blocks()));
    }
  }
  if (!positive.is_identity()) form = compose(symmetry, positive, form);
  const Element folded = form;
  const MovedModel moved(read, symmetry, folded);
  const Parameters<double> behind_encoder = norm_behind_encoder(symmetry.architecture, moved);
  for (std::int64_t layer = -1; layer < symmetry.architecture.all_layers(); ++layer) {
    const auto shifts = remaining(symmetry, folded, layer);
    if (shifts.empty()) continue;
    const auto concerned = [&](const std::string& matrix) {
      return std::any_of(shifts.begin(), shifts.end(), [&](const Shift* shift) {
        return std::any_of(shift->effects.begin(), shift->effects.end(),
                           [&](const Effect& effect) { return effect.tensor == matrix; });
      });
    };
    Parameters<double> parameters = moved.layer(layer, concerned);
    for (const Shift* shift : shifts) {
      parameters.insert(behind_encoder.begin(), behind_encoder.end());
      const auto vector = vanishing(symmetry, *shift, parameters);
      if (!vector) {
        limits.push_back(fmt::format("[recover] {} has no standard form yet", shift->name));
        if (unknown == UnknownShifts::refused) throw NoStandardForm(limits.back());
        continue;
      }
      Element step;
      step.shifts[shift->name] = *vector;
      act_on_layer(symmetry, step, layer, parameters);
      add_to(form.shifts[shift->name], step.shifts[shift->name]);
    }
  }
  return form;
}

}  // namespace

Element standard_form(const ReadTensor& read, const Symmetry& symmetry, double sign,
                      std::vector<std::string>& limits, Progress& progress, UnknownShifts unknown) {
  const Element signs = positive_numbers(read, symmetry);
  if (signs.is_identity()) return form_of(read, symmetry, sign, limits, progress, unknown);
  const ReadTensor with = [&](std::string_view tensor) -> AnyMatrix {
    return with_signs(symmetry, signs, tensor, read(tensor));
  };
  return compose(symmetry, form_of(with, symmetry, sign, limits, progress, unknown), signs);
}

void clear_rounding(const Symmetry& symmetry, double size, Parameters<double>& layer) {
  if (symmetry.architecture.norm != Norm::layer) return;  // nothing was taken away
  const auto is_rounding = [&](const auto& vector) {
    return vector.squaredNorm() < size * size * static_cast<double>(vector.size());
  };
  for (auto& [name, tensor] : layer) {
    const bool writes = name.ends_with("o.weight") || name.ends_with("down.weight");
    if (!name.ends_with(".weight") && !name.ends_with(".bias")) continue;
    if (name.ends_with("norm.bias")) continue;
    for (Eigen::Index i = 0; i < (writes ? tensor.rows() : tensor.cols()); ++i) {
      if (writes && is_rounding(tensor.row(i))) tensor.row(i).setZero();
      if (!writes && is_rounding(tensor.col(i))) tensor.col(i).setZero();
    }
  }
}

}  // namespace regauge
