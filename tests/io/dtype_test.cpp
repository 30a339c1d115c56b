#include "regauge/io/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

using testing::fixture;

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& halves) {
  const auto bytes = std::as_bytes(std::span(halves));
  return {bytes.begin(), bytes.end()};
}

// IEEE 754 by the book.
double f16_by_definition(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, fraction = half & 1023;
  const double sign = half >> 15 ? -1 : 1;
  if (exponent == 31)
    return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  return halves;
}

template <class Scalar>
std::vector<std::uint16_t> encoded(DType dtype, const std::vector<Scalar>& values) {
  std::vector<std::uint16_t> halves(values.size());
  encode<Scalar>(dtype, values, std::as_writable_bytes(std::span(halves)));
  return halves;
}

template <class Scalar>
std::uint16_t encoded_one(DType dtype, Scalar value) {
  return encoded(dtype, std::vector<Scalar>{value})[0];
}

TEST(DTypes, NamesGoBothWays) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_EQ(stored_bytes(dtype, 3 * block_elements(dtype)), 3 * block_bytes(dtype));
    EXPECT_TRUE(is_quantised(dtype) || block_elements(dtype) == 1);
    EXPECT_FALSE(is_quantised(dtype) && is_floating(dtype));
  }
  EXPECT_EQ(dtype_name(DType::bf16), "BF16");
  EXPECT_EQ(dtype_name(DType::q4_k), "Q4_K");
  EXPECT_EQ(dtype_from_name("F7"), std::nullopt);
}

TEST(DTypes, RefusesPartialBlocksAndOverflow) {
  EXPECT_THROW(stored_bytes(DType::q8_0, 31), UsageError);
  EXPECT_THROW(stored_bytes(DType::f32, -1), UsageError);
  EXPECT_THROW(stored_bytes(DType::f64, std::int64_t{1} << 60), UsageError);
  std::vector<float> values(3);
  std::vector<std::byte> bytes(8);
  EXPECT_THROW(decode<float>(DType::f32, bytes, values), UsageError);
  EXPECT_THROW(encode<float>(DType::f32, values, bytes), UsageError);
  values.resize(2);
  EXPECT_THROW(encode<float>(DType::i32, values, bytes), UsageError);
}

TEST(DTypes, ReadsEveryHalf) {
  const auto halves = all_halves();
  std::vector<double> values(halves.size());
  decode<double>(DType::f16, bytes_of(halves), values);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const double expected = f16_by_definition(halves[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(values[i]), std::bit_cast<std::uint64_t>(expected))
          << i;
    }
  }
}

// Arrays shorter than a vector register take the scalar path.
TEST(DTypes, ScalarAndVectorPathsAgree) {
  const auto halves = all_halves();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto bytes = bytes_of(halves);
    std::vector<float> together(halves.size());
    decode<float>(dtype, bytes, together);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      float one = 0;
      decode<float>(dtype, std::span(bytes).subspan(2 * i, 2), std::span(&one, 1));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(one), std::bit_cast<std::uint32_t>(together[i])) << i;
    }
  }
  Random random(1, "halves");
  std::vector<float> floats;
  for (int i = 0; i < 200'000; ++i) {
    floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.bits() >> 32)));
    floats.push_back(
        static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.below(48)) - 30)));
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto together = encoded(dtype, floats);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_EQ(encoded_one(dtype, floats[i]), together[i]) << floats[i];
    }
  }
}

TEST(DTypes, EveryHalfSurvivesARoundTrip) {
  const auto halves = all_halves();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<float> floats(halves.size());
    std::vector<double> doubles(halves.size());
    decode<float>(dtype, bytes_of(halves), floats);
    decode<double>(dtype, bytes_of(halves), doubles);
    const auto from_floats = encoded(dtype, floats);
    const auto from_doubles = encoded(dtype, doubles);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      if (std::isnan(floats[i])) {
        EXPECT_TRUE(std::isnan(doubles[i]));
        continue;
      }
      ASSERT_EQ(from_floats[i], halves[i]);
      ASSERT_EQ(from_doubles[i], halves[i]);
    }
  }
}

TEST(DTypes, RoundsAsTorchDoes) {
  const Checkpoint reference = Checkpoint::open(fixture("rounding.safetensors"));
  const StoredTensor& tensor = reference.at("f32");
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  decode<float>(DType::f32, reference.bytes(tensor), values);
  const std::vector<double> doubles(values.begin(), values.end());
  for (const auto& [name, dtype] : {std::pair("f16", DType::f16), std::pair("bf16", DType::bf16)}) {
    const auto expected = reference.bytes(reference.at(name));
    std::vector<std::byte> bytes(expected.size());
    encode<float>(dtype, values, bytes);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin())) << name;
    encode<double>(dtype, doubles, bytes);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin()))
        << name << " from doubles";
  }
}

TEST(DTypes, RoundsDoublesOnce) {
  // Rounding to float first would make a tie of these and lose the last bit.
  EXPECT_EQ(encoded_one(DType::f16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(encoded_one(DType::f16, 1 + 0x3p-11 - 0x1p-40), 0x3c01);
  EXPECT_EQ(encoded_one(DType::bf16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(encoded_one(DType::bf16, 1 + 0x3p-8 - 0x1p-40), 0x3f81);
  EXPECT_EQ(encoded_one(DType::f16, 0x1p-25 + 0x1p-70), 0x0001);
  EXPECT_EQ(encoded_one(DType::f16, 0x1p-25), 0x0000);
  EXPECT_EQ(encoded_one(DType::f16, 65520 - 0x1p-30), 0x7bff);
  EXPECT_EQ(encoded_one(DType::f16, -65520.0), 0xfc00);
  EXPECT_EQ(encoded_one(DType::bf16, 1e300), 0x7f80);
  EXPECT_EQ(encoded_one(DType::bf16, -1e-300), 0x8000);
}

TEST(DTypes, ScalarAndVectorPathsAgreeOnDoubles) {
  Random random(1, "doubles");
  std::vector<double> doubles;
  for (int i = 0; i < 100'000; ++i) {
    doubles.push_back(std::bit_cast<double>(random.bits()));
    doubles.push_back(std::ldexp(random.normal(), static_cast<int>(random.below(60)) - 40));
    // Near a tie between two halves: an odd multiple of half an ulp, with or without a little more.
    const double tie = std::ldexp(2 * static_cast<double>(random.below(4096)) + 1, -11);
    doubles.push_back(tie + (random.coin() ? 0 : std::ldexp(random.normal(), -45)));
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto together = encoded(dtype, doubles);
    for (std::size_t i = 0; i < doubles.size(); ++i) {
      ASSERT_EQ(encoded_one(dtype, doubles[i]), together[i]) << doubles[i];
    }
  }
}

TEST(DTypes, KeepsNaNAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float signalling = std::bit_cast<float>(0x7f800001u);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const float value : {nan, signalling, -nan}) {
      float back = 0;
      const auto half = encoded_one(dtype, value);
      decode<float>(dtype, bytes_of({half}), std::span(&back, 1));
      EXPECT_TRUE(std::isnan(back));
    }
  }
  EXPECT_EQ(encoded_one(DType::f16, std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(encoded_one(DType::bf16, -std::numeric_limits<double>::infinity()), 0xff80);
  EXPECT_EQ(encoded_one(DType::bf16, std::numeric_limits<float>::max()), 0x7f80);
}

TEST(DTypes, ReadsUnalignedBytes) {
  std::vector<std::byte> bytes(1 + 2 * 40);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i16, DType::f64}) {
    const std::size_t count = 80 / static_cast<std::size_t>(block_bytes(dtype));
    std::vector<float> values(count), again(count);
    decode<float>(dtype, std::span(bytes).subspan(1), values);
    const std::vector<std::byte> aligned(bytes.begin() + 1, bytes.end());
    decode<float>(dtype, aligned, again);
    EXPECT_EQ(values, again);
  }
}

// The numbers of the OCP specification of 8-bit floats.
TEST(DTypes, ReadsFloatsOfEightBits) {
  const auto read = [](DType dtype, int code) {
    const std::array byte = {static_cast<std::byte>(code)};
    std::array<double, 1> value;
    decode<double>(dtype, byte, value);
    return value[0];
  };
  EXPECT_EQ(read(DType::f8_e4m3, 0x38), 1);
  EXPECT_EQ(read(DType::f8_e4m3, 0xb9), -1.125);
  EXPECT_EQ(read(DType::f8_e4m3, 0x7e), 448);
  EXPECT_EQ(read(DType::f8_e4m3, 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(read(DType::f8_e4m3, 0xff)));
  EXPECT_EQ(read(DType::f8_e5m2, 0x3c), 1);
  EXPECT_EQ(read(DType::f8_e5m2, 0x7b), 57344);
  EXPECT_EQ(read(DType::f8_e5m2, 0x81), -0x1p-16);
  EXPECT_TRUE(std::isinf(read(DType::f8_e5m2, 0x7c)));
  EXPECT_TRUE(std::isnan(read(DType::f8_e5m2, 0x7d)));
  EXPECT_EQ(read(DType::f8_e8m0, 127), 1);
  EXPECT_EQ(read(DType::f8_e8m0, 0), 0x1p-127);
  EXPECT_TRUE(std::isnan(read(DType::f8_e8m0, 255)));
}

TEST(DTypes, DequantisesAsGgufDoes) {
  const Checkpoint reference = Checkpoint::open(fixture("quants.safetensors"));
  int tested = 0;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (block_elements(dtype) == 1) continue;
    const std::string name(dtype_name(dtype));
    const auto bytes = reference.bytes(reference.at(name + ".bytes"));
    const StoredTensor& expected = reference.at(name + ".values");
    std::vector<float> values(static_cast<std::size_t>(expected.elements()));
    decode<float>(dtype, bytes, values);
    const auto found = std::as_bytes(std::span(values));
    const auto wanted = reference.bytes(expected);
    EXPECT_TRUE(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) << name;
    std::vector<double> doubles(values.size());
    decode<double>(dtype, bytes, doubles);
    EXPECT_TRUE(std::equal(values.begin(), values.end(), doubles.begin())) << name;
    ++tested;
  }
  EXPECT_EQ(tested, 8);
}

}  // namespace
}  // namespace regauge
