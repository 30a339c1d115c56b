#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace regauge {

// Element types of stored tensors. Those from f8_e4m3 on are read-only: floats of eight bits (bare
// ones; f8_e8m0 is a power of two, the type of scales), GGUF's block formats, and `packed`, which
// stands for numbers that several tensors hold together (regauge/io/packing.h).
enum class DType {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  packed
};
inline constexpr int kDTypes = static_cast<int>(DType::packed) + 1;

std::string_view dtype_name(DType dtype);  // as safetensors and GGUF spell it: "F32", "Q4_K"
std::optional<DType> dtype_from_name(std::string_view name);
bool is_floating(DType dtype);             // f64, f32, f16, bf16
bool is_quantised(DType dtype);            // one of the read-only types
std::int64_t block_elements(DType dtype);  // 1 for plain types and for `packed`
std::int64_t block_bytes(DType dtype);
// Bytes of `elements` elements; throws UsageError on overflow or a partial block.
std::int64_t stored_bytes(DType dtype, std::int64_t elements);

// Reads any type as numbers (quantised blocks are dequantised) / writes f64, f32, f16, bf16,
// rounding once, to nearest even; values beyond the range become infinite. The spans must agree in
// length, else UsageError; `bytes` need not be aligned. Instantiated for float and double.
template <class Scalar>
void decode(DType dtype, std::span<const std::byte> bytes, std::span<Scalar> values);
template <class Scalar>
void encode(DType dtype, std::span<const Scalar> values, std::span<std::byte> bytes);

}  // namespace regauge
