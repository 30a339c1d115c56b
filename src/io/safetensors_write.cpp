#include <algorithm>
#include <cstring>

#include "checked.h"
#include "describe.h"
#include "regauge/base/error.h"
#include "safetensors.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxData = std::int64_t{1} << 62;

// Puts the tensors one after the other from byte 0; returns false if one comes to lie unaligned.
bool place(std::span<StoredTensor*> order) {
  std::int64_t end = 0;
  bool aligned = true;
  for (StoredTensor* tensor : order) {
    aligned = aligned && end % block_bytes(tensor->dtype) == 0;
    tensor->offset = end;
    const auto next = sum(end, tensor->bytes);
    if (!next || *next > kMaxData)
      throw UsageError("[safetensors] more than 2^62 bytes of tensors");
    end = *next;
  }
  return aligned;
}

void check_metadata(const json& metadata) {
  const auto is_string = [](const json& value) { return value.is_string(); };
  if (!metadata.is_object() || !std::all_of(metadata.begin(), metadata.end(), is_string)) {
    throw UsageError("[safetensors] __metadata__ must be an object of strings");
  }
}

std::string header_text(std::span<StoredTensor* const> tensors, const json& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + metadata.dump();
  for (const StoredTensor* tensor : tensors) {
    if (text.size() > 1) text += ',';
    text +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    json(tensor->name).dump(), dtype_name(tensor->dtype),
                    fmt::join(tensor->shape, ","), tensor->offset, tensor->offset + tensor->bytes);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string lay_out_safetensors(std::span<StoredTensor*> tensors, const json& metadata) {
  for (StoredTensor* tensor : tensors) {
    if (is_quantised(tensor->dtype) || tensor->name == "__metadata__") {
      throw UsageError(fmt::format("[safetensors] tensor '{}': {} cannot be stored in safetensors",
                                   tensor->name, describe(tensor->dtype, tensor->shape)));
    }
    tensor->bytes = stored_bytes(tensor->dtype, tensor->elements());
  }
  if (!place(tensors)) {
    std::stable_sort(tensors.begin(), tensors.end(),
                     [](const StoredTensor* a, const StoredTensor* b) {
                       return block_bytes(a->dtype) > block_bytes(b->dtype);
                     });
    place(tensors);
  }
  if (!metadata.is_null()) check_metadata(metadata);
  std::string text;
  try {
    text = header_text(tensors, metadata);
  } catch (const json::exception&) {
    throw UsageError("[safetensors] a tensor name or a metadata string is not UTF-8");
  }
  if (text.size() > 100'000'000) {
    throw UsageError("[safetensors] the header passes 100 MB; use more shards");
  }
  const std::uint64_t length = text.size();
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));
  head += text;
  for (StoredTensor* tensor : tensors) tensor->offset += static_cast<std::int64_t>(head.size());
  return head;
}

}  // namespace regauge::io
