#include "joiner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <utility>

#include "regauge/base/error.h"

namespace regauge::io {

Joiner::Joiner(const std::vector<StoredTensor>& tensors, BytesOf bytes)
    : tensors_(tensors), bytes_(std::move(bytes)), taken_(tensors.size(), false) {
  for (std::size_t i = 0; i < tensors.size(); ++i) places_.emplace(tensors[i].name, i);
}

const StoredTensor* Joiner::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

const StoredTensor& Joiner::require(const std::string& name, const StoredTensor& of,
                                    std::string_view what) const {
  if (const StoredTensor* found = find(name)) return *found;
  throw UsageError(
      fmt::format("[packed] '{}' has no {}; expected a tensor '{}'", of.name, what, name));
}

void Joiner::require_shape(const StoredTensor& part, const std::vector<std::int64_t>& expected,
                           const StoredTensor& of, std::string_view hint) {
  if (part.shape == expected) return;
  const bool turned = part.shape.size() == 2 && expected.size() == 2 &&
                      part.shape[0] == expected[1] && part.shape[1] == expected[0];
  throw UsageError(fmt::format("[packed] '{}' is {}; beside '{}', which is {}, it must be {}: {}",
                               part.name, shape_text(part.shape), of.name, shape_text(of.shape),
                               shape_text(expected), turned ? "it is transposed" : hint));
}

std::vector<std::int64_t> Joiner::integers(const StoredTensor& tensor, std::int64_t most) const {
  const bool wide = tensor.dtype == DType::i64;
  if ((!wide && tensor.dtype != DType::i32) || tensor.elements() > most) {
    throw UsageError(fmt::format("[packed] '{}' is {} of {}; expected at most {} of I32 or I64",
                                 tensor.name, shape_text(tensor.shape), tensor.type_name(), most));
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements()));
  const auto from = bytes(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int32_t narrow = 0;
    if (wide) {
      std::memcpy(&values[i], from.data() + 8 * i, sizeof values[i]);
    } else {
      std::memcpy(&narrow, from.data() + 4 * i, sizeof narrow);
      values[i] = narrow;
    }
  }
  return values;
}

void Joiner::join(const std::string& name, std::vector<std::int64_t> shape,
                  std::shared_ptr<const Packing> packing,
                  const std::vector<const StoredTensor*>& parts) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = DType::packed;
  tensor.shape = std::move(shape);
  tensor.packing = std::move(packing);
  tensor.shard = parts.front()->shard;
  tensor.offset = parts.front()->offset;
  bool is_part = false;
  for (const StoredTensor* part : parts) {
    if (taken_[place(*part)]) {
      throw UsageError(
          fmt::format("[packed] tensor '{}' belongs to '{}' and to another one", part->name, name));
    }
    taken_[place(*part)] = true;
    is_part = is_part || part->name == name;
    tensor.bytes += part->bytes;
    tensor.parts.push_back(*part);
  }
  if (!is_part && find(name) != nullptr) {
    throw UsageError(fmt::format("[packed] '{}' is there as it is, and packed in '{}'", name,
                                 parts.front()->name));
  }
  packed_.emplace(place(*parts.front()), std::move(tensor));
}

std::vector<StoredTensor> Joiner::joined() && {
  std::vector<StoredTensor> result;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (const auto found = packed_.find(i); found != packed_.end()) {
      result.push_back(std::move(found->second));
    } else if (!taken_[i]) {
      result.push_back(tensors_[i]);
    }
  }
  return result;
}

std::string stem_of(const StoredTensor& tensor, std::string_view ending) {
  if (!tensor.name.ends_with(ending)) return "";
  return tensor.name.substr(0, tensor.name.size() - ending.size());
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::int64_t setting(const nlohmann::json& settings, const char* key, std::int64_t otherwise,
                     std::int64_t least, std::int64_t most) {
  const auto found = settings.is_object() ? settings.find(key) : settings.end();
  if (!settings.is_object() || found == settings.end() || found->is_null()) return otherwise;
  if (found->is_number_integer()) {
    const auto value = found->get<std::int64_t>();
    if (value >= least && value <= most) return value;
  }
  throw UsageError(fmt::format("[config] '{}' of the quantisation is {}; expected {} to {}", key,
                               found->dump(), least, most));
}

}  // namespace regauge::io
