#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "regauge/io/checkpoint.h"
#include "regauge/io/packing.h"

namespace regauge::io {

// The tensors of a checkpoint while those that hold the same numbers together are joined into one.
class Joiner {
 public:
  explicit Joiner(const std::vector<StoredTensor>& tensors);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // null: there is none
  // A packed tensor in the place of the first part. Throws UsageError if a part belongs to another
  // one already, or the name is that of a tensor that is no part.
  void join(const std::string& name, std::vector<std::int64_t> shape,
            std::shared_ptr<const Packing> packing, const std::vector<const StoredTensor*>& parts);

  // In the order of the file.
  std::vector<StoredTensor> joined() &&;

 private:
  std::size_t place(const StoredTensor& tensor) const { return places_.at(tensor.name); }

  const std::vector<StoredTensor>& tensors_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<bool> taken_;
  std::unordered_map<std::size_t, StoredTensor> packed_;  // by the place of the first part
};

}  // namespace regauge::io
