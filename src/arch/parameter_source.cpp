#include "regauge/arch/parameter_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "io/packings/unread.h"
#include "regauge/base/error.h"
#include "regauge/io/packing.h"

namespace regauge {

bool works_in_double(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }
bool works_in_double(const StoredTensor& tensor) {
  return tensor.packing ? tensor.packing->in_double() : works_in_double(tensor.dtype);
}

ParameterSource::ParameterSource(const Model& model, Architecture target, Patches patches)
    : model_(model), target_(std::move(target)), patches_(std::move(patches)) {
  for (const StoredTensor& tensor : model.checkpoint.tensors()) {
    if (const auto* unread = io::UnreadPacking::of(tensor)) throw UsageError(unread->reason());
  }
  for (const auto& spec : parameter_specs(model.architecture)) held_.insert(spec.name);
  for (const auto& spec : parameter_specs(target_)) {
    const bool untied_head = spec.name == "head.weight" && model.architecture.tied;
    if (!held_.contains(spec.name) && !untied_head && !spec.name.ends_with(".bias")) {
      throw UsageError(fmt::format("[rewrite] {} holds no {}, and nothing stands for it",
                                   model.checkpoint.path().string(), spec.name));
    }
  }
}

const StoredTensor* ParameterSource::stored(std::string_view parameter) const {
  if (held_.contains(parameter)) return &model_.checkpoint.at(model_.layout.holder(parameter).name);
  if (parameter == "head.weight") return stored("embed.tokens");
  return nullptr;
}

std::int64_t ParameterSource::slices(std::string_view parameter) const {
  const auto patch = patches_.find(parameter);
  const bool whole = patch != patches_.end() && !patch->second.make_slice;
  // Experts are of layers; tensors that hold rows of an embedding's map are read together.
  const bool of_layer = layer_of(parameter) >= 0;
  return held_.contains(parameter) && !whole && of_layer ? model_.layout.slices(parameter) : 1;
}

std::vector<Layout::Piece> ParameterSource::pieces(std::string_view parameter) const {
  if (is_patched(parameter)) return {};
  if (held_.contains(parameter)) return model_.layout.pieces(parameter);
  if (parameter != "head.weight" || is_patched("embed.tokens")) return {};
  Layout::Piece table = model_.layout.pieces("embed.tokens").front();
  Layout::Place& place = table.place;
  for (std::size_t j = 0; j < place.columns.size(); ++j) {
    if (place.columns[j] != static_cast<std::int64_t>(j)) return {};
  }
  std::swap(table.rows, table.cols);
  place.transposed = !place.transposed;
  place.columns.resize(static_cast<std::size_t>(target_.vocabulary));
  std::iota(place.columns.begin(), place.columns.end(), 0);
  return {table};
}

template <class Scalar>
Matrix<Scalar> ParameterSource::read(std::string_view parameter, std::int64_t slice) const {
  const auto patch = patches_.find(parameter);
  if (patch != patches_.end()) {
    if constexpr (std::is_same_v<Scalar, double>) return made_by(patch->second, parameter, slice);
    return made_by(patch->second, parameter, slice).template cast<Scalar>();
  }
  const bool implied = parameter == "head.weight" && !held_.contains(parameter);
  if (implied && is_patched("embed.tokens")) return read<Scalar>("embed.tokens").transpose();
  return read_file<Scalar>(parameter, slice);
}

Matrix<double> ParameterSource::made_by(const Patch& patch, std::string_view parameter,
                                        std::int64_t slice) const {
  if (!patch.make_slice) {
    return patch([this](std::string_view name) { return read_file<double>(name); });
  }
  if (slice != kAll) return patch.make_slice(slice);
  const auto pieces = model_.layout.pieces(parameter);
  const Layout::Piece& last = pieces.back();
  Matrix<double> all(last.row + last.rows, last.col + last.cols);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    all.block(pieces[i].row, pieces[i].col, pieces[i].rows, pieces[i].cols) =
        patch.make_slice(static_cast<std::int64_t>(i));
  }
  return all;
}

template <class Scalar>
Matrix<Scalar> ParameterSource::read_file(std::string_view parameter, std::int64_t slice) const {
  if (held_.contains(parameter)) {
    Matrix<Scalar> value = model_.read<Scalar>(parameter, slice);
    const std::int64_t end = slice == kAll ? model_.layout.slices(parameter) : slice + 1;
    for (std::int64_t i = std::max<std::int64_t>(slice, 0); i < end; ++i) {
      model_.checkpoint.release(model_.checkpoint.at(model_.layout.home(parameter, i).holder.name));
    }
    if (target_.vocabulary < model_.architecture.vocabulary) crop(parameter, value);
    return value;
  }
  if (parameter == "head.weight") return read_file<Scalar>("embed.tokens").transpose();
  for (const auto& spec : parameter_specs(target_)) {
    if (spec.name == parameter) return Matrix<Scalar>::Zero(spec.rows, spec.cols);
  }
  throw UsageError(fmt::format("[rewrite] the architecture has no {}", parameter));
}

// The first tokens' share.
template <class Scalar>
void ParameterSource::crop(std::string_view parameter, Matrix<Scalar>& value) const {
  const auto tokens = target_.vocabulary;
  const bool rows = parameter == "embed.tokens" || parameter.ends_with(".table.tokens");
  if (rows) value.conservativeResize(tokens, Eigen::NoChange);
  const bool head = parameter == "head.weight" || parameter == "head.bias";
  if (head && target_.output.has(Output::tokens)) value.conservativeResize(Eigen::NoChange, tokens);
}

template <class Scalar, class MakeAll>
Matrix<Scalar> ParameterSource::gather(std::string_view parameter, std::int64_t slice,
                                       const MakeAll& make_all) const {
  if (!held_.contains(parameter)) {
    if (parameter == "head.weight") {
      return gather<Scalar>("embed.tokens", kAll, make_all).transpose();
    }
    return Matrix<Scalar>::Zero(read<Scalar>(parameter).rows(), read<Scalar>(parameter).cols());
  }
  const auto at_home = [&](const Layout::Home& home, std::span<Scalar> numbers) {
    make_all(model_.numbers(home), numbers);
    model_.checkpoint.release(model_.checkpoint.at(home.holder.name));
  };
  Matrix<Scalar> value = model_.layout.arrange<Scalar>(parameter, at_home, slice);
  if (model_.layout.is_minus_exp(parameter)) {
    // An error of x is one of x / exp(parameter) there. The exponential was calculated in float.
    constexpr auto kInFloat = static_cast<Scalar>(3);
    value = kInFloat *
            value.cwiseQuotient(model_.read<Scalar>(parameter, slice).array().exp().matrix());
  }
  if (target_.vocabulary < model_.architecture.vocabulary) crop(parameter, value);
  return value;
}

std::optional<ParameterSource::Patched> ParameterSource::patched(std::string_view parameter,
                                                                 std::int64_t slice) const {
  const bool implied = parameter == "head.weight" && !held_.contains(parameter);
  const auto patch = patches_.find(implied && !is_patched(parameter) ? "embed.tokens" : parameter);
  if (patch == patches_.end()) return std::nullopt;
  const bool each = patch->second.does == Patch::Does::change_each;
  Patched result{patch->second, read<double>(parameter, slice), {}, std::nullopt, false};
  result.rounded =
      each ? Matrix<double>(result.made - read_file<double>(parameter, slice)) : result.made;
  const StoredTensor* tensor = stored(parameter);
  if (tensor != nullptr && is_floating(tensor->dtype)) {
    const std::span numbers(result.rounded.data(), static_cast<std::size_t>(result.rounded.size()));
    result.bytes.emplace(
        static_cast<std::size_t>(stored_bytes(tensor->dtype, result.rounded.size())));
    encode<double>(tensor->dtype, numbers, *result.bytes);
  }
  result.file_counts =
      held_.contains(patch->first) && (!result.bytes || patch->second.does != Patch::Does::move);
  return result;
}

namespace {

// By how much a patch multiplied each number; of zeros, the most of the row.
Matrix<double> factors_of(const Matrix<double>& made, const Matrix<double>& before) {
  Matrix<double> factors = Matrix<double>::Zero(made.rows(), made.cols());
  for (Eigen::Index i = 0; i < made.rows(); ++i) {
    for (Eigen::Index j = 0; j < made.cols(); ++j) {
      if (before(i, j) != 0) factors(i, j) = std::abs(made(i, j) / before(i, j));
    }
    const double most = made.cols() == 0 ? 0 : factors.row(i).maxCoeff();
    for (Eigen::Index j = 0; j < made.cols(); ++j) {
      if (before(i, j) == 0) factors(i, j) = most;
    }
  }
  return factors;
}

}  // namespace

template <class Scalar>
Matrix<Scalar> ParameterSource::variances(std::string_view parameter, std::int64_t slice) const {
  const auto of_file = [&](std::string_view name) {
    return gather<Scalar>(name, slice, [](const Numbers& stored, std::span<Scalar> variances) {
      stored.rounding_variances<Scalar>(variances);
    });
  };
  const auto patch = patched(parameter, slice);
  if (!patch) return of_file(parameter);
  Matrix<Scalar> result = Matrix<Scalar>::Zero(patch->made.rows(), patch->made.cols());
  if (patch->bytes) {
    Numbers(stored(parameter)->dtype, *patch->bytes)
        .rounding_variances<Scalar>(
            std::span(result.data(), static_cast<std::size_t>(result.size())));
  }
  if (!patch->file_counts) return result;
  const Matrix<Scalar> before = of_file(parameter);
  if (patch->patch.does == Patch::Does::scale) {
    const Matrix<double> factors = factors_of(patch->made, read_file<double>(parameter, slice));
    return result + before.cwiseProduct(factors.cwiseAbs2().template cast<Scalar>());
  }
  if (patch->patch.does == Patch::Does::change_each) return result + before;
  return result.cwiseMax(before.mean());
}
template Matrix<float> ParameterSource::variances(std::string_view, std::int64_t) const;
template Matrix<double> ParameterSource::variances(std::string_view, std::int64_t) const;

ParameterSource::Bounds ParameterSource::bounds(std::string_view parameter,
                                                std::int64_t slice) const {
  const auto one_side = [&](std::string_view name, bool above) {
    return gather<double>(name, slice, [&](const Numbers& stored, std::span<double> bounds) {
      std::vector<double> values(bounds.size()), other(bounds.size());
      stored.decode<double>(values);
      stored.rounding_bounds(values, above ? std::span(other) : bounds,
                             above ? bounds : std::span(other));
    });
  };
  const auto patch = patched(parameter, slice);
  if (!patch) return {one_side(parameter, false), one_side(parameter, true)};
  Bounds result{Matrix<double>::Zero(patch->made.rows(), patch->made.cols()),
                Matrix<double>::Zero(patch->made.rows(), patch->made.cols())};
  const auto size = static_cast<std::size_t>(patch->made.size());
  if (patch->bytes) {
    Numbers(stored(parameter)->dtype, *patch->bytes)
        .rounding_bounds(std::span(patch->rounded.data(), size),
                         std::span(result.below.data(), size),
                         std::span(result.above.data(), size));
  }
  if (!patch->file_counts) return result;
  const Matrix<double> below = one_side(parameter, false), above = one_side(parameter, true);
  if (patch->patch.does == Patch::Does::scale) {
    const Matrix<double> factors = factors_of(patch->made, read_file<double>(parameter, slice));
    result.below += below.cwiseProduct(factors);
    result.above += above.cwiseProduct(factors);
    return result;
  }
  if (patch->patch.does == Patch::Does::change_each) {
    result.below += below;
    result.above += above;
    // The change may be the mean of a row: of rounded numbers, three standard deviations, and
    // calculated in float.
    constexpr double kInFloat = 0x1p-22;
    for (Eigen::Index i = 0; i < below.rows(); ++i) {
      const auto width = static_cast<double>(below.cols());
      const double of_mean = std::sqrt(3 * below.row(i).squaredNorm()) / width;
      const double in_float = kInFloat * patch->made.row(i).cwiseAbs().maxCoeff();
      result.below.row(i).array() += std::max(of_mean, in_float);
      result.above.row(i).array() += std::max(of_mean, in_float);
    }
    return result;
  }
  // As well as the largest number of its kind that the file holds is known, and a few times that
  // where several errors meet.
  constexpr double kSeveral = 4;
  const double room = size == 0 ? 0 : kSeveral * std::max(below.maxCoeff(), above.maxCoeff());
  result.below = result.below.cwiseMax(room);
  result.above = result.above.cwiseMax(room);
  return result;
}

AnyMatrix ParameterSource::read_any(std::string_view parameter) const {
  const StoredTensor* tensor = stored(parameter);
  if (tensor == nullptr || is_patched(parameter) || works_in_double(*tensor)) {
    return read<double>(parameter);
  }
  return read<float>(parameter);
}

ReadTensor ParameterSource::reader() const {
  return [this](std::string_view name) { return read_any(name); };
}

template Matrix<float> ParameterSource::read(std::string_view, std::int64_t) const;
template Matrix<double> ParameterSource::read(std::string_view, std::int64_t) const;

}  // namespace regauge
