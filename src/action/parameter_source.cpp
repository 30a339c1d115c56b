#include "regauge/action/parameter_source.h"

#include <fmt/format.h>

#include <numeric>

#include "regauge/base/error.h"
#include "regauge/io/rounding.h"

namespace regauge {

bool works_in_double(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

ParameterSource::ParameterSource(const Model& model, Architecture target, Patches patches)
    : model_(model), target_(std::move(target)), patches_(std::move(patches)) {
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

std::optional<Layout::Place> ParameterSource::place(std::string_view parameter) const {
  if (is_patched(parameter)) return std::nullopt;
  if (held_.contains(parameter)) return model_.layout.place(parameter);
  if (parameter != "head.weight" || is_patched("embed.tokens")) return std::nullopt;
  Layout::Place table = model_.layout.place("embed.tokens");
  for (std::size_t j = 0; j < table.columns.size(); ++j) {
    if (table.columns[j] != static_cast<std::int64_t>(j)) return std::nullopt;
  }
  table.transposed = !table.transposed;
  table.columns.resize(static_cast<std::size_t>(target_.vocabulary));
  std::iota(table.columns.begin(), table.columns.end(), 0);
  return table;
}

template <class Scalar>
Matrix<Scalar> ParameterSource::read(std::string_view parameter) const {
  const auto patch = patches_.find(parameter);
  if (patch != patches_.end()) {
    return patch->second([this](std::string_view name) { return read_file<double>(name); })
        .template cast<Scalar>();
  }
  const bool implied = parameter == "head.weight" && !held_.contains(parameter);
  if (implied && is_patched("embed.tokens")) return read<Scalar>("embed.tokens").transpose();
  return read_file<Scalar>(parameter);
}

template <class Scalar>
Matrix<Scalar> ParameterSource::read_file(std::string_view parameter) const {
  if (held_.contains(parameter)) {
    Matrix<Scalar> value = model_.read<Scalar>(parameter);
    model_.checkpoint.release(*stored(parameter));
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
  if (parameter == "embed.tokens") value.conservativeResize(tokens, Eigen::NoChange);
  const bool head = parameter == "head.weight" || parameter == "head.bias";
  if (head && target_.output == Output::tokens) value.conservativeResize(Eigen::NoChange, tokens);
}

template <class Scalar, class DecodeAll>
Matrix<Scalar> ParameterSource::gather(std::string_view parameter,
                                       const DecodeAll& decode_all) const {
  const auto file = [&](std::string_view name) -> Matrix<Scalar> {
    if (!held_.contains(name)) {
      for (const auto& spec : parameter_specs(target_)) {
        if (spec.name == name) return Matrix<Scalar>::Zero(spec.rows, spec.cols);
      }
    }
    const StoredTensor& tensor = *stored(name);
    std::vector<Scalar> numbers(static_cast<std::size_t>(tensor.elements()));
    decode_all(tensor, std::span(numbers));
    Matrix<Scalar> value = model_.layout.extract<Scalar>(name, numbers);
    value.array() -= static_cast<Scalar>(model_.layout.place(name).offset);
    model_.checkpoint.release(tensor);
    if (target_.vocabulary < model_.architecture.vocabulary) crop(name, value);
    return value;
  };
  const bool implied = parameter == "head.weight" && !held_.contains(parameter);
  if (implied && !is_patched(parameter)) {
    return gather<Scalar>("embed.tokens", decode_all).transpose();
  }
  const auto patch = patches_.find(parameter);
  if (patch == patches_.end()) return file(parameter);
  return patch
      ->second([&](std::string_view name) {
        return AnyMatrix(Matrix<double>(file(name).template cast<double>()));
      })
      .template cast<Scalar>();
}

template <class Scalar>
Matrix<Scalar> ParameterSource::variances(std::string_view parameter) const {
  const auto patch = patches_.find(parameter);
  if (patch != patches_.end() && patch->second.calculates) {
    const Bounds room = bounds(parameter);
    return (room.below.array().square() / 3).matrix().template cast<Scalar>();
  }
  return gather<Scalar>(parameter, [&](const StoredTensor& tensor, std::span<Scalar> numbers) {
    rounding_variances<Scalar>(tensor.dtype, model_.checkpoint.bytes(tensor), numbers);
  });
}
template Matrix<float> ParameterSource::variances(std::string_view) const;
template Matrix<double> ParameterSource::variances(std::string_view) const;

ParameterSource::Bounds ParameterSource::bounds(std::string_view parameter) const {
  const auto one_side = [&](bool above) {
    return gather<double>(parameter, [&](const StoredTensor& tensor, std::span<double> numbers) {
      std::vector<double> values(numbers.size()), other(numbers.size());
      const auto bytes = model_.checkpoint.bytes(tensor);
      decode<double>(tensor.dtype, bytes, values);
      rounding_bounds(tensor.dtype, bytes, values, above ? std::span(other) : numbers,
                      above ? numbers : std::span(other));
    });
  };
  const auto patch = patches_.find(parameter);
  if (patch == patches_.end() || !patch->second.calculates) {
    return {one_side(false), one_side(true)};
  }
  // As well as the largest number of its kind that the file holds is known, and a few times that
  // where several errors meet.
  constexpr double kSeveral = 4;
  const StoredTensor* tensor = stored(parameter);
  const Matrix<double> made = read<double>(parameter);
  double room = 0;
  if (tensor != nullptr) {
    const auto bytes = model_.checkpoint.bytes(*tensor);
    std::vector<double> values(static_cast<std::size_t>(tensor->elements())), low(values.size()),
        high(values.size());
    decode<double>(tensor->dtype, bytes, values);
    rounding_bounds(tensor->dtype, bytes, values, low, high);
    for (std::size_t i = 0; i < low.size(); ++i) room = std::max({room, low[i], high[i]});
  }
  const Matrix<double> all = Matrix<double>::Constant(made.rows(), made.cols(), kSeveral * room);
  return {all, all};
}

AnyMatrix ParameterSource::read_any(std::string_view parameter) const {
  const StoredTensor* tensor = stored(parameter);
  if (tensor == nullptr || is_patched(parameter) || works_in_double(tensor->dtype)) {
    return read<double>(parameter);
  }
  return read<float>(parameter);
}

ReadTensor ParameterSource::reader() const {
  return [this](std::string_view name) { return read_any(name); };
}

template Matrix<float> ParameterSource::read(std::string_view) const;
template Matrix<double> ParameterSource::read(std::string_view) const;

}  // namespace regauge
