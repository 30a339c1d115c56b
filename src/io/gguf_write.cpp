#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "checked.h"
#include "describe.h"
#include "gguf.h"
#include "json.h"
#include "regauge/base/error.h"

namespace regauge::io {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxNameBytes = 63;  // ggml's GGML_MAX_NAME, less the terminating zero

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_string(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

GgufValue integer_type(const json& value) {
  constexpr auto kMax32 = std::numeric_limits<std::uint32_t>::max();
  if (value.is_number_unsigned() || value.get<std::int64_t>() >= 0) {
    return value.get<std::uint64_t>() <= kMax32 ? GgufValue::u32 : GgufValue::u64;
  }
  return value.get<std::int64_t>() >= std::numeric_limits<std::int32_t>::min() ? GgufValue::i32
                                                                               : GgufValue::i64;
}

GgufValue type_of(const json& value, const std::string& key) {
  if (value.is_boolean()) return GgufValue::boolean;
  if (value.is_string() || value.is_binary()) return GgufValue::string;
  if (value.is_number_float()) return GgufValue::f32;
  if (value.is_number_integer()) return integer_type(value);
  if (value.is_array()) return GgufValue::array;
  throw UsageError(
      fmt::format("[gguf] key '{}': {} cannot be stored in GGUF", key, value.type_name()));
}

// The type that holds values of both types.
GgufValue common_type(GgufValue a, GgufValue b, const std::string& key) {
  if (a == b) return a;
  const auto number = [](GgufValue type) {
    return type != GgufValue::boolean && type != GgufValue::string && type != GgufValue::array;
  };
  if (!number(a) || !number(b)) {
    throw UsageError(fmt::format("[gguf] key '{}': an array of GGUF has one type", key));
  }
  if (a == GgufValue::f32 || b == GgufValue::f32) return GgufValue::f32;
  const bool has_negative =
      a == GgufValue::i32 || b == GgufValue::i32 || a == GgufValue::i64 || b == GgufValue::i64;
  return has_negative ? GgufValue::i64 : GgufValue::u64;
}

// A mix of small unsigned and negative numbers is i32 if all fit.
GgufValue element_type(const json& array, const std::string& key) {
  if (key == "tokenizer.ggml.token_type") return GgufValue::i32;
  if (key == "tokenizer.ggml.scores") return GgufValue::f32;
  if (array.empty()) return GgufValue::i32;
  GgufValue type = type_of(array[0], key);
  bool fits_i32 = true;
  for (const json& value : array) {
    type = common_type(type, type_of(value, key), key);
    if (value.is_number_unsigned()) fits_i32 &= value.get<std::uint64_t>() <= 0x7fffffffu;
    if (value.is_number_integer() && !value.is_number_unsigned()) {
      const auto number = value.get<std::int64_t>();
      fits_i32 &= number == static_cast<std::int32_t>(number);
    }
  }
  return type == GgufValue::i64 && fits_i32 ? GgufValue::i32 : type;
}

template <class T>
void put_integer(std::string& out, const json& value, const std::string& key) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!fits) {
    throw UsageError(
        fmt::format("[gguf] key '{}': an integer of {} bits was expected", key, 8 * sizeof(T)));
  }
  put(out, value.get<T>());
}

void put_value(std::string& out, GgufValue type, const json& value, const std::string& key);

void put_array(std::string& out, const json& array, const std::string& key) {
  const GgufValue type = element_type(array, key);
  put(out, static_cast<std::uint32_t>(type));
  put<std::uint64_t>(out, array.size());
  for (const json& value : array) put_value(out, type, value, key);
}

void put_value(std::string& out, GgufValue type, const json& value, const std::string& key) {
  if (type == GgufValue::f32 && !value.is_number()) {
    throw UsageError(
        fmt::format("[gguf] key '{}': a number was expected, not {}", key, value.type_name()));
  }
  switch (type) {
    case GgufValue::u32:
      return put_integer<std::uint32_t>(out, value, key);
    case GgufValue::i32:
      return put_integer<std::int32_t>(out, value, key);
    case GgufValue::u64:
      return put_integer<std::uint64_t>(out, value, key);
    case GgufValue::i64:
      return put_integer<std::int64_t>(out, value, key);
    case GgufValue::f32:
      return put(out, value.get<float>());
    case GgufValue::boolean:
      return put<std::uint8_t>(out, value.get<bool>() ? 1 : 0);
    case GgufValue::string:
      if (value.is_binary()) {
        const auto& bytes = value.get_binary();
        return put_string(out, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      }
      return put_string(out, value.get_ref<const std::string&>());
    default:
      return put_array(out, value, key);
  }
}

std::int64_t alignment_of(const json& config) {
  const auto found = config.find("general.alignment");
  if (found == config.end()) return kGgufDefaultAlignment;
  const auto value = found->is_number_integer() ? found->get<std::uint64_t>() : 0;
  if (!std::has_single_bit(value) || value > 0x80000000u) {
    throw UsageError("[gguf] general.alignment must be a power of two");
  }
  return static_cast<std::int64_t>(value);
}

void put_tensor(std::string& out, const StoredTensor& tensor, std::int64_t offset) {
  const auto number = ggml_type_number(tensor.dtype);
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (!number || tensor.shape.size() > kGgufMaxDimensions || tensor.name.size() > kMaxNameBytes ||
      !is_utf8(tensor.name) || row % block_elements(tensor.dtype) != 0) {
    throw UsageError(fmt::format(
        "[gguf] tensor '{}': {} cannot be stored in GGUF (at most {} "
        "dimensions, {} bytes of UTF-8 name, no unsigned types, rows of "
        "whole blocks)",
        tensor.name, describe(tensor.dtype, tensor.shape), kGgufMaxDimensions, kMaxNameBytes));
  }
  put_string(out, tensor.name);
  put(out, static_cast<std::uint32_t>(tensor.shape.size()));
  for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
    put(out, static_cast<std::uint64_t>(*size));
  }
  put(out, *number);
  put(out, static_cast<std::uint64_t>(offset));
}

}  // namespace

std::string lay_out_gguf(std::span<StoredTensor*> tensors, const json& config) {
  if (!config.is_object() && !config.is_null()) {
    throw UsageError("[gguf] the metadata must be an object of key -> value");
  }
  static const json none = json::object();
  const json& pairs = config.is_null() ? none : config;
  const std::int64_t alignment = alignment_of(pairs);
  const auto align = [&](std::int64_t size) {
    return (size + alignment - 1) / alignment * alignment;
  };

  std::string head(kGgufMagic);
  put<std::uint32_t>(head, 3);
  put<std::uint64_t>(head, tensors.size());
  put<std::uint64_t>(head, pairs.size());
  for (const auto& [key, value] : pairs.items()) {
    const GgufValue type = type_of(value, key);
    if (!is_utf8(key)) throw UsageError("[gguf] a key is not UTF-8");
    put_string(head, key);
    put(head, static_cast<std::uint32_t>(type));
    put_value(head, type, value, key);
  }
  std::int64_t offset = 0;
  for (StoredTensor* tensor : tensors) {
    tensor->bytes = stored_bytes(tensor->dtype, tensor->elements());
    tensor->offset = offset;
    put_tensor(head, *tensor, offset);
    const auto end = sum(offset, tensor->bytes);
    if (!end || *end > (std::int64_t{1} << 62)) {
      throw UsageError("[gguf] more than 2^62 bytes of tensors");
    }
    offset = align(*end);
  }
  head.resize(static_cast<std::size_t>(align(static_cast<std::int64_t>(head.size()))), '\0');
  for (StoredTensor* tensor : tensors) tensor->offset += static_cast<std::int64_t>(head.size());
  return head;
}

}  // namespace regauge::io
