// The kernel of the plain comparison against sums written out.
#include "../../src/equivalence/stored_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "regauge/base/random.h"

namespace regauge {
namespace {

constexpr std::size_t kSpare = 3;  // arrays begin at odd addresses

std::vector<std::byte> encoded(DType type, const std::vector<double>& values) {
  const auto bytes = stored_bytes(type, static_cast<std::int64_t>(values.size()));
  std::vector<std::byte> result(static_cast<std::size_t>(bytes) + kSpare);
  encode<double>(type, values, std::span(result).subspan(kSpare));
  return result;
}

std::vector<double> decoded(DType type, const std::vector<std::byte>& bytes, std::size_t count) {
  std::vector<double> values(count);
  decode<double>(type, std::span(bytes).subspan(kSpare), values);
  return values;
}

class StoredSums : public ::testing::TestWithParam<std::pair<DType, DType>> {};

TEST_P(StoredSums, AreThoseOfTheNumbers) {
  const auto [type_a, type_b] = GetParam();
  for (const std::size_t count :
       {0U, 1U, 15U, 31U, 32U, 33U, 63U, 100U, 4095U, 4096U, 4097U, 10001U}) {
    Random random(count, "stored sums");
    std::vector<double> a(count), b(count);
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = random.normal();
      b[i] = a[i] * (1 + 1e-6 * random.normal());  // f32 sees it, the others round it away
    }
    const auto bytes_a = encoded(type_a, a), bytes_b = encoded(type_b, b);
    a = decoded(type_a, bytes_a, count);
    b = decoded(type_b, bytes_b, count);
    Sums expected;
    for (std::size_t i = 0; i < count; ++i) {
      expected.aa += a[i] * a[i];
      expected.bb += b[i] * b[i];
      expected.dd += (a[i] - b[i]) * (a[i] - b[i]);
    }
    Sums found;
    add_stored_sums(type_a, bytes_a.data() + kSpare, type_b, bytes_b.data() + kSpare,
                    static_cast<std::int64_t>(count), found);
    EXPECT_NEAR(found.aa, expected.aa, 1e-5 * expected.aa) << count;
    EXPECT_NEAR(found.bb, expected.bb, 1e-5 * expected.bb) << count;
    EXPECT_NEAR(found.dd, expected.dd, 1e-5 * expected.dd) << count;
  }
}

std::vector<std::pair<DType, DType>> pairs() {
  std::vector<std::pair<DType, DType>> result;
  for (const DType a : {DType::f32, DType::f16, DType::bf16}) {
    for (const DType b : {DType::f32, DType::f16, DType::bf16}) result.emplace_back(a, b);
  }
  return result;
}
INSTANTIATE_TEST_SUITE_P(EveryPairOfTypes, StoredSums, ::testing::ValuesIn(pairs()),
                         [](const auto& tested) {
                           return std::string(dtype_name(tested.param.first)) + "_" +
                                  std::string(dtype_name(tested.param.second));
                         });

// One number that differs in its last digit is not lost among a million that do not.
TEST(SumsOfStored, SeeOneNumber) {
  std::vector<float> a(1 << 20, 1.5F);
  for (const std::size_t at : {std::size_t{0}, std::size_t{31}, std::size_t{4097}, a.size() - 1}) {
    auto b = a;
    b[at] = std::nextafter(b[at], 2.0F);
    Sums sums;
    add_stored_sums(DType::f32, reinterpret_cast<const std::byte*>(a.data()), DType::f32,
                    reinterpret_cast<const std::byte*>(b.data()),
                    static_cast<std::int64_t>(a.size()), sums);
    const double step = static_cast<double>(b[at]) - static_cast<double>(a[at]);
    EXPECT_DOUBLE_EQ(sums.dd, step * step);
  }
}

TEST(SumsOfStored, SayWhenFloatsDoNotSuffice) {
  for (const float size : {1e-22F, 1e25F}) {
    const std::vector<float> a(100, size);
    Sums sums;
    add_stored_sums(DType::f32, reinterpret_cast<const std::byte*>(a.data()), DType::f32,
                    reinterpret_cast<const std::byte*>(a.data()), 100, sums);
    EXPECT_FALSE(sums.are_sound(100)) << size;
  }
}

}  // namespace
}  // namespace regauge
