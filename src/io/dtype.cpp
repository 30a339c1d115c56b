#include "regauge/io/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "checked.h"
#include "float8.h"
#include "half.h"
#include "quants.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

struct Traits {
  std::string_view name;
  std::int64_t elements;  // of a block
  std::int64_t bytes;
};

// In the order of DType.
constexpr std::array<Traits, kDTypes> kTraits = {
    {{"F64", 1, 8},    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},
     {"I64", 1, 8},    {"I32", 1, 4},      {"I16", 1, 2},      {"I8", 1, 1},
     {"U64", 1, 8},    {"U32", 1, 4},      {"U16", 1, 2},      {"U8", 1, 1},
     {"BOOL", 1, 1},   {"F8_E4M3", 1, 1},  {"F8_E5M2", 1, 1},  {"F8_E8M0", 1, 1},
     {"Q8_0", 32, 34}, {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},
     {"Q5_1", 32, 24}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
     {"packed", 1, 1}}};

const Traits& traits(DType dtype) { return kTraits[static_cast<std::size_t>(dtype)]; }

constexpr std::size_t kChunk = 512;  // values per intermediate buffer; a multiple of every block

void check_lengths(const char* where, DType dtype, std::size_t values, std::size_t bytes) {
  const std::int64_t expected = stored_bytes(dtype, static_cast<std::int64_t>(values));
  if (expected != static_cast<std::int64_t>(bytes)) {
    throw UsageError(fmt::format("[{}] {} values of {} take {} bytes, but {} were given", where,
                                 values, dtype_name(dtype), expected, bytes));
  }
}

template <class Stored, class Scalar>
void read_plain(std::span<const std::byte> bytes, std::span<Scalar> values) {
  if constexpr (std::is_same_v<Stored, Scalar>) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      Stored value;
      std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
      values[i] = static_cast<Scalar>(value);
    }
  }
}

template <class Stored, class Scalar>
void write_plain(std::span<const Scalar> values, std::span<std::byte> bytes) {
  if constexpr (std::is_same_v<Stored, Scalar>) {
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto value = static_cast<Stored>(values[i]);
      std::memcpy(bytes.data() + i * sizeof(Stored), &value, sizeof(Stored));
    }
  }
}

// Runs read(bytes, floats, count) straight into floats, or by way of a small buffer into doubles.
template <class Scalar, class Read>
void read_as_float(DType dtype, std::span<const std::byte> bytes, std::span<Scalar> values,
                   Read read) {
  if constexpr (std::is_same_v<Scalar, float>) {
    read(bytes, values.data(), values.size());
  } else {
    std::array<float, kChunk> buffer;
    for (std::size_t first = 0; first < values.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - first);
      const auto size = [&](std::size_t n) {
        return n / static_cast<std::size_t>(block_elements(dtype)) *
               static_cast<std::size_t>(block_bytes(dtype));
      };
      read(bytes.subspan(size(first), size(count)), buffer.data(), count);
      std::copy_n(buffer.data(), count, values.data() + first);
    }
  }
}

template <class Scalar>
void write_as_float(std::span<const Scalar> values, std::span<std::byte> bytes,
                    void (*write)(const float*, std::byte*, std::size_t)) {
  if constexpr (std::is_same_v<Scalar, float>) {
    write(values.data(), bytes.data(), values.size());
  } else {
    std::array<float, kChunk> buffer;
    for (std::size_t first = 0; first < values.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, values.size() - first);
      io::narrow_to_odd(values.data() + first, buffer.data(), count);
      write(buffer.data(), bytes.data() + 2 * first, count);
    }
  }
}

}  // namespace

std::string_view dtype_name(DType dtype) { return traits(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kTraits[static_cast<std::size_t>(i)].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool is_floating(DType dtype) { return dtype <= DType::bf16; }
bool is_quantised(DType dtype) { return dtype >= DType::f8_e4m3; }
std::int64_t block_elements(DType dtype) { return traits(dtype).elements; }
std::int64_t block_bytes(DType dtype) { return traits(dtype).bytes; }

std::int64_t stored_bytes(DType dtype, std::int64_t elements) {
  const Traits& type = traits(dtype);
  if (elements < 0 || elements % type.elements != 0) {
    throw UsageError(fmt::format("[stored_bytes] {} elements are not whole blocks of {} ({} each)",
                                 elements, type.name, type.elements));
  }
  const auto bytes = io::product(elements / type.elements, type.bytes);
  if (!bytes) {
    throw UsageError(fmt::format("[stored_bytes] {} elements of {} take more than 2^63 bytes",
                                 elements, type.name));
  }
  return *bytes;
}

template <class Scalar>
void decode(DType dtype, std::span<const std::byte> bytes, std::span<Scalar> values) {
  check_lengths("decode", dtype, values.size(), bytes.size());
  switch (dtype) {
    case DType::f64:
      return read_plain<double>(bytes, values);
    case DType::f32:
      return read_plain<float>(bytes, values);
    case DType::f16:
      return read_as_float(dtype, bytes, values, [](auto in, float* out, std::size_t count) {
        io::read_f16(in.data(), out, count);
      });
    case DType::bf16:
      return read_as_float(dtype, bytes, values, [](auto in, float* out, std::size_t count) {
        io::read_bf16(in.data(), out, count);
      });
    case DType::i64:
      return read_plain<std::int64_t>(bytes, values);
    case DType::i32:
      return read_plain<std::int32_t>(bytes, values);
    case DType::i16:
      return read_plain<std::int16_t>(bytes, values);
    case DType::i8:
      return read_plain<std::int8_t>(bytes, values);
    case DType::u64:
      return read_plain<std::uint64_t>(bytes, values);
    case DType::u32:
      return read_plain<std::uint32_t>(bytes, values);
    case DType::u16:
      return read_plain<std::uint16_t>(bytes, values);
    case DType::u8:
      return read_plain<std::uint8_t>(bytes, values);
    case DType::boolean:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = bytes[i] != std::byte{0};
      return;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
      return read_as_float(dtype, bytes, values, [dtype](auto in, float* out, std::size_t count) {
        io::read_f8(dtype, in.data(), out, count);
      });
    case DType::packed:
      throw UsageError("[decode] packed numbers are read by way of Checkpoint::numbers");
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
      return read_as_float(dtype, bytes, values, [dtype](auto in, float* out, std::size_t) {
        io::dequantise(dtype, in, out);
      });
  }
}

template <class Scalar>
void encode(DType dtype, std::span<const Scalar> values, std::span<std::byte> bytes) {
  check_lengths("encode", dtype, values.size(), bytes.size());
  switch (dtype) {
    case DType::f64:
      return write_plain<double>(values, bytes);
    case DType::f32:
      return write_plain<float>(values, bytes);
    case DType::f16:
      return write_as_float(values, bytes, io::write_f16);
    case DType::bf16:
      return write_as_float(values, bytes, io::write_bf16);
    default:
      throw UsageError(fmt::format("[encode] {} cannot be written; use F64, F32, F16 or BF16",
                                   dtype_name(dtype)));
  }
}

template void decode(DType, std::span<const std::byte>, std::span<float>);
template void decode(DType, std::span<const std::byte>, std::span<double>);
template void encode(DType, std::span<const float>, std::span<std::byte>);
template void encode(DType, std::span<const double>, std::span<std::byte>);

}  // namespace regauge
