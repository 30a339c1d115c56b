#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "regauge/io/checkpoint.h"

namespace regauge::io {

// Numbers of the format, as in ggml's gguf.h.
enum class GgufValue : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::int64_t kGgufDefaultAlignment = 32;
inline constexpr std::size_t kGgufMaxDimensions = 4;

// The name of a ggml tensor type, empty if there is none with this number; and the number of a
// type.
std::string_view ggml_type_name(std::uint32_t number);
std::optional<std::uint32_t> ggml_type_number(DType dtype);

struct GgufContents {
  std::vector<StoredTensor> tensors;  // by offset; offsets from the start of the file
  nlohmann::json config;              // key -> value; strings that are not UTF-8 as json binary
};

// GGUF versions 2 and 3, little-endian. `file` is the whole file, `name` goes into messages. Throws
// CorruptFile; UsageError for a tensor type that is not read (Q2_0).
GgufContents parse_gguf(const ByteRange& file, const std::string& name);

// Gives each of `tensors` its bytes and offset and returns the first bytes of the file, up to the
// data. Value types go by convention: integers u32 (u64 if too large, i32 or i64 if negative),
// numbers f32, arrays by their widest element; tokenizer.ggml.token_type is i32,
// tokenizer.ggml.scores f32. Throws UsageError.
std::string lay_out_gguf(std::span<StoredTensor*> tensors, const nlohmann::json& config);

}  // namespace regauge::io
