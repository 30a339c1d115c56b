#include "unread.h"

#include <algorithm>
#include <map>
#include <utility>

#include "regauge/base/error.h"

namespace regauge::io {

const UnreadPacking* UnreadPacking::of(const StoredTensor& tensor) {
  return dynamic_cast<const UnreadPacking*>(tensor.packing.get());
}

void UnreadPacking::put_in_place(StoredTensor& tensor, std::string type, std::string reason) {
  tensor.dtype = DType::packed;
  tensor.packing = std::make_shared<UnreadPacking>(std::move(type), std::move(reason));
}

void UnreadPacking::decode(std::span<const Numbers> /*parts*/, std::int64_t /*first*/,
                           std::span<float> /*values*/) const {
  throw UsageError(reason_);
}

void UnreadPacking::rounding_bounds(std::span<const Numbers> /*parts*/, std::int64_t /*first*/,
                                    std::span<const double> /*values*/, std::span<double> /*below*/,
                                    std::span<double> /*above*/) const {
  throw UsageError(reason_);
}

// The tensors of one module, or of one weight (quanto's "weight._data"), of which some are codes.
void join_unread(const std::string& method, const std::string& reason, Joiner& joiner) {
  constexpr std::string_view kSuffix = ".weight";
  std::map<std::string, std::vector<const StoredTensor*>> modules;
  for (const StoredTensor& tensor : joiner.tensors()) {
    const std::size_t dot = tensor.name.rfind('.');
    if (dot == std::string::npos || tensor.name.ends_with("bias")) continue;
    modules[tensor.name.substr(0, dot)].push_back(&tensor);
  }
  for (const auto& [module, tensors] : modules) {
    const bool codes = std::ranges::any_of(tensors, [](const StoredTensor* tensor) {
      return !is_floating(tensor->dtype) && tensor->shape.size() > 1;
    });
    if (!codes) continue;
    const std::string name = module.ends_with(kSuffix) ? module : module + std::string(kSuffix);
    joiner.join(name, {}, std::make_shared<UnreadPacking>(method, reason), tensors);
  }
}

}  // namespace regauge::io
