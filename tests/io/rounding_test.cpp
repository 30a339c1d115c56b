// What rounding leaves open, against numbers that are rounded by encode(), and blocks by hand.
#include "io/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

struct Stored {
  DType dtype;
  std::vector<std::byte> bytes;
  std::vector<double> values, below, above;

  Stored(DType type, std::vector<std::byte> data) : dtype(type), bytes(std::move(data)) {
    const auto count = bytes.size() / static_cast<std::size_t>(block_bytes(type)) *
                       static_cast<std::size_t>(block_elements(type));
    for (auto* list : {&values, &below, &above}) list->resize(count);
    decode<double>(type, bytes, values);
    rounding_bounds(type, bytes, values, below, above);
  }
  std::vector<double> variances() const {
    std::vector<double> result(values.size());
    rounding_variances<double>(dtype, bytes, result);
    return result;
  }
};

Stored rounded(DType dtype, const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(stored_bytes(dtype, static_cast<std::int64_t>(numbers.size()))));
  encode<double>(dtype, numbers, bytes);
  return {dtype, std::move(bytes)};
}

// One block of Q8_0: the scale 2^-7 and 32 codes.
Stored eight_bits(const std::vector<int>& first_codes) {
  std::vector<std::byte> block(34, std::byte{0});
  const std::uint16_t scale = 0x2000;  // 2^-7 in F16
  std::memcpy(block.data(), &scale, sizeof scale);
  for (std::size_t i = 0; i < first_codes.size(); ++i) {
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(first_codes[i]));
  }
  return {DType::q8_0, std::move(block)};
}

class RoundedFloats : public ::testing::TestWithParam<DType> {};

TEST_P(RoundedFloats, LieWithinTheirBoundsAndReachThem) {
  Random random(0, "rounding");
  std::vector<double> numbers;
  for (int i = 0; i < 20000; ++i) numbers.push_back(std::ldexp(random.normal(), i % 20 - 10));
  const Stored stored = rounded(GetParam(), numbers);
  const auto variances = stored.variances();
  double farthest = 0, squares = 0, predicted = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double off = numbers[i] - stored.values[i];
    const double room = off > 0 ? stored.above[i] : stored.below[i];
    ASSERT_LE(std::abs(off), room) << numbers[i];
    farthest = std::max(farthest, std::abs(off) / room);
    squares += off * off;
    predicted += variances[i];
  }
  EXPECT_GT(farthest, 0.99);  // no wider than need be
  EXPECT_NEAR(squares / predicted, 1, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Types, RoundedFloats,
                         ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& type) { return std::string(dtype_name(type.param)); });

TEST(RoundingBounds, APowerOfTwoIsKnownBetterFromBelow) {
  const Stored stored = rounded(DType::bf16, {1.0, -1.0, 1.5});
  EXPECT_EQ(stored.above[0], 0x1p-8);
  EXPECT_EQ(stored.below[0], 0x1p-9);
  EXPECT_EQ(stored.above[1], 0x1p-9);
  EXPECT_EQ(stored.below[1], 0x1p-8);
  EXPECT_EQ(stored.below[2], stored.above[2]);
}

TEST(RoundingBounds, AQuantisedNumberIsKnownToHalfAStep) {
  const Stored stored = eight_bits({127, 3});
  const double half = 0x1p-8;
  for (std::size_t i = 0; i < stored.values.size(); ++i) {
    EXPECT_GE(stored.below[i], half);
    EXPECT_LE(stored.below[i], 1.3 * half);
  }
  EXPECT_NEAR(stored.variances()[1], 0x1p-14 / 12, 0.05 * 0x1p-14 / 12);
}

TEST(RoundingBounds, ABlockThatDoesNotUseItsRangeHasNotTheStepThatItStates) {
  EXPECT_LT(eight_bits({12, 3}).below[1], 0.2 * 0x1p-8);
  EXPECT_LT(eight_bits({}).below[1], 0.02 * 0x1p-8);
}

TEST(BlockEnds, AreTheFirstAndTheLastCode) {
  const Stored stored = eight_bits({127, 126, -127, -126});
  std::vector<signed char> ends(32);
  block_ends(stored.dtype, stored.bytes, stored.values, ends);
  EXPECT_EQ(std::vector<int>(ends.begin(), ends.begin() + 5), (std::vector<int>{1, 0, -1, 0, 0}));
  const Stored plain = rounded(DType::f16, {1, 65504});
  std::vector<signed char> none(2, 1);
  block_ends(plain.dtype, plain.bytes, plain.values, none);
  EXPECT_EQ(none, (std::vector<signed char>{0, 0}));
}

// One block of IQ4_NL: the scale 2^-7 and 32 codes, the first 16 in the low halves of the bytes.
Stored levels(const std::vector<int>& first_codes) {
  std::vector<std::byte> block(18, std::byte{0x88});  // the level 1
  const std::uint16_t scale = 0x2000;
  std::memcpy(block.data(), &scale, sizeof scale);
  for (std::size_t i = 0; i < first_codes.size(); ++i) {
    block[2 + i] = static_cast<std::byte>(0x80 | first_codes[i]);
  }
  return {DType::iq4_nl, std::move(block)};
}

TEST(RoundingBounds, LevelsReachHalfWayToTheirNeighbours) {
  const Stored stored =
      levels({0, 1, 8, 14});  // -127, -104, 1, 89; beside them -83, -10, 13, 69, 113
  constexpr double kStep = 0x1p-7;
  EXPECT_EQ(stored.values[1], -104 * kStep);
  const auto near = [&](double found, double steps) {
    EXPECT_GE(found, steps * kStep);
    EXPECT_LE(found, (1.02 * steps + 0.2) * kStep);
  };
  near(stored.below[1], 11.5);
  near(stored.above[1], 10.5);
  near(stored.below[2], 5.5);
  near(stored.above[2], 6);
  near(stored.below[3], 10);
  near(stored.above[3], 12);
  EXPECT_GT(stored.below[0], 20 * kStep);
}

TEST(BlockEnds, AStepOfZeroHidesBoth) {
  const Stored stored{DType::q8_0, std::vector<std::byte>(34, std::byte{0})};
  std::vector<signed char> ends(32);
  block_ends(stored.dtype, stored.bytes, stored.values, ends);
  EXPECT_EQ(ends, std::vector<signed char>(32, kBothEnds));
}

TEST(JointCodes, AreThoseOfCodebooksAndSigns) {
  for (const DType dtype : {DType::iq1_s, DType::iq1_m, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s,
                            DType::iq3_xxs, DType::iq3_s, DType::q1_0}) {
    EXPECT_TRUE(codes_are_joint(dtype)) << dtype_name(dtype);
  }
  for (const DType dtype : {DType::iq4_nl, DType::iq4_xs, DType::q2_k, DType::mxfp4, DType::f16}) {
    EXPECT_FALSE(codes_are_joint(dtype)) << dtype_name(dtype);
  }
}

TEST(RoundingBounds, IntegersAreExact) {
  const Stored stored{DType::i8, std::vector<std::byte>(3, std::byte{5})};
  EXPECT_EQ(stored.below, std::vector<double>(3, 0));
  EXPECT_EQ(stored.variances(), std::vector<double>(3, 0));
}

TEST(RoundingBounds, LengthsMustAgree) {
  std::vector<std::byte> bytes(8);
  std::vector<double> two(2), three(3);
  std::vector<signed char> ends(3);
  EXPECT_THROW(rounding_bounds(DType::f32, bytes, two, two, three), UsageError);
  EXPECT_THROW(rounding_bounds(DType::f32, bytes, three, two, two), UsageError);
  EXPECT_THROW(rounding_variances<double>(DType::f32, bytes, three), UsageError);
  EXPECT_THROW(block_ends(DType::f32, bytes, two, ends), UsageError);
}

}  // namespace
}  // namespace regauge
