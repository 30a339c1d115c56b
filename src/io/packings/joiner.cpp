#include "joiner.h"

#include <fmt/format.h>

#include <utility>

#include "regauge/base/error.h"

namespace regauge::io {

Joiner::Joiner(const std::vector<StoredTensor>& tensors)
    : tensors_(tensors), taken_(tensors.size(), false) {
  for (std::size_t i = 0; i < tensors.size(); ++i) places_.emplace(tensors[i].name, i);
}

const StoredTensor* Joiner::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
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

}  // namespace regauge::io
