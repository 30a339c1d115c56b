#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "regauge/io/checkpoint.h"
#include "regauge/io/packing.h"

namespace regauge::io {

// More are no columns of a matrix.
inline constexpr std::int64_t kMostColumns = std::int64_t{1} << 24;

using BytesOf = std::function<Bytes(const StoredTensor&)>;

// The tensors of a checkpoint while those that hold the same numbers together are joined into one.
class Joiner {
 public:
  Joiner(const std::vector<StoredTensor>& tensors, BytesOf bytes);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // null: there is none
  // Throws UsageError, which says of what it is a part.
  const StoredTensor& require(const std::string& name, const StoredTensor& of,
                              std::string_view what) const;
  // Throws UsageError with both shapes and the hint.
  static void require_shape(const StoredTensor& part, const std::vector<std::int64_t>& expected,
                            const StoredTensor& of, std::string_view hint);
  Bytes bytes(const StoredTensor& tensor) const { return bytes_(tensor); }
  // As integers; throws UsageError if its type is none of I64 and I32, or there are more than most.
  std::vector<std::int64_t> integers(const StoredTensor& tensor, std::int64_t most) const;
  bool is_taken(const StoredTensor& tensor) const { return taken_[place(tensor)]; }
  // A packed tensor in the place of the first part. Throws UsageError if a part belongs to another
  // one already, or the name is that of a tensor that is no part.
  void join(const std::string& name, std::vector<std::int64_t> shape,
            std::shared_ptr<const Packing> packing, const std::vector<const StoredTensor*>& parts);

  // In the order of the file.
  std::vector<StoredTensor> joined() &&;

 private:
  std::size_t place(const StoredTensor& tensor) const { return places_.at(tensor.name); }

  const std::vector<StoredTensor>& tensors_;
  BytesOf bytes_;
  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<bool> taken_;
  std::unordered_map<std::size_t, StoredTensor> packed_;  // by the place of the first part
};

// What a tensor's name ends with, cut off; empty if it does not.
std::string stem_of(const StoredTensor& tensor, std::string_view ending);
// [2, 3]
std::string shape_text(const std::vector<std::int64_t>& shape);
// An integer of the config; throws UsageError, which names it, if it is none or not in range.
std::int64_t setting(const nlohmann::json& settings, const char* key, std::int64_t otherwise,
                     std::int64_t least, std::int64_t most);

}  // namespace regauge::io
