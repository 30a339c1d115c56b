#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"
#include "regauge/io/packing.h"

namespace regauge {
namespace {

using nlohmann::json;

MemoryTensor tensor(std::string name, DType dtype, std::vector<std::int64_t> shape,
                    std::vector<std::byte> bytes) {
  const auto held = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  return {std::move(name), dtype, std::move(shape), *held, held};
}

std::vector<std::byte> floats(std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A matrix of 4 x 6 codes, each 1 but for what is said, and blocks of 2 x 4: the last column of
// blocks is cut.
std::vector<std::byte> ones() { return std::vector<std::byte>(24, std::byte{0x38}); }

const json kBlocks = {
    {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {2, 4}}}}};

std::vector<float> all(const Checkpoint& checkpoint, const std::string& name) {
  const Numbers numbers = checkpoint.numbers(checkpoint.at(name));
  std::vector<float> values(static_cast<std::size_t>(numbers.count()));
  numbers.decode<float>(values);
  return values;
}

TEST(Packed, CodesTakeTheScaleOfTheirBlock) {
  const Checkpoint checkpoint = Checkpoint::in_memory(
      kBlocks, {tensor("x.weight", DType::f8_e4m3, {4, 6}, ones()),
                tensor("x.weight_scale_inv", DType::f32, {2, 2}, floats({1, 2, 3, 4}))});
  ASSERT_EQ(checkpoint.tensors().size(), 1U);
  const StoredTensor& packed = checkpoint.at("x.weight");
  EXPECT_EQ(packed.dtype, DType::packed);
  EXPECT_EQ(packed.shape, (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(packed.type_name(), "F8_E4M3 with a scale for each block of 2 x 4");
  EXPECT_FALSE(checkpoint.config().contains("quantization_config"));
  EXPECT_EQ(all(checkpoint, "x.weight"), (std::vector<float>{1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 2, 2,
                                                             3, 3, 3, 3, 4, 4, 3, 3, 3, 3, 4, 4}));
  EXPECT_THROW(checkpoint.bytes(packed), UsageError);
}

TEST(Packed, ARangeIsAPartOfTheWhole) {
  const Checkpoint checkpoint = Checkpoint::in_memory(
      kBlocks, {tensor("x.weight", DType::f8_e4m3, {4, 6}, ones()),
                tensor("x.weight_scale_inv", DType::f32, {2, 2}, floats({1, 2, 3, 4}))});
  const std::vector<float> whole = all(checkpoint, "x.weight");
  const Numbers numbers = checkpoint.numbers(checkpoint.at("x.weight"));
  for (std::int64_t first = 0; first < 24; ++first) {
    for (std::int64_t count = 0; count <= 24 - first; ++count) {
      std::vector<float> values(static_cast<std::size_t>(count));
      numbers.range(first, count).decode<float>(values);
      EXPECT_TRUE(std::equal(values.begin(), values.end(), whole.begin() + first));
    }
  }
  EXPECT_THROW(numbers.range(20, 5), UsageError);
}

TEST(Packed, RoundingIsThatOfTheCodeTimesTheScale) {
  auto codes = ones();
  // The largest code of each block, as quantisers choose the scale.
  for (const std::size_t place : {1U, 4U, 13U, 16U}) codes[place] = std::byte{0x7e};
  const Checkpoint checkpoint = Checkpoint::in_memory(
      kBlocks, {tensor("x.weight", DType::f8_e4m3, {4, 6}, codes),
                tensor("x.weight_scale_inv", DType::f32, {2, 2}, floats({1, 2, 3, 4}))});
  const Numbers numbers = checkpoint.numbers(checkpoint.at("x.weight"));
  std::vector<double> values(24), below(24), above(24);
  numbers.decode<double>(values);
  numbers.rounding_bounds(values, below, above);
  // 1 lies 1/8 below the next number of E4M3 and 1/16 above the one before.
  EXPECT_NEAR(above[0], 1.0 / 16, 1e-3);
  EXPECT_NEAR(below[0], 1.0 / 32, 1e-3);
  EXPECT_NEAR(above[23], 4.0 / 16, 1e-3);
  std::vector<double> variances(24);
  numbers.rounding_variances<double>(variances);
  EXPECT_NEAR(variances[23], 16 * variances[0], 1e-6);
}

TEST(Packed, ScalesMayBeOneOrOneForEachRow) {
  for (const auto& [shape, scales, last] :
       {std::tuple(std::vector<std::int64_t>{}, std::vector<float>{5}, 5.0F),
        std::tuple(std::vector<std::int64_t>{1}, std::vector<float>{5}, 5.0F),
        std::tuple(std::vector<std::int64_t>{4, 1}, std::vector<float>{1, 2, 3, 4}, 4.0F)}) {
    const Checkpoint checkpoint = Checkpoint::in_memory(
        json::object(), {tensor("x.weight", DType::f8_e4m3, {4, 6}, ones()),
                         tensor("x.weight_scale", DType::f32, shape, floats(scales))});
    EXPECT_EQ(all(checkpoint, "x.weight").back(), last);
  }
}

TEST(Packed, ScalesThatDoNotFitAreRefused) {
  const auto open = [](const json& config, std::vector<std::int64_t> shape, std::size_t count) {
    return Checkpoint::in_memory(config, {tensor("x.weight", DType::f8_e4m3, {4, 6}, ones()),
                                          tensor("x.weight_scale_inv", DType::f32, std::move(shape),
                                                 floats(std::vector<float>(count, 1)))});
  };
  json other = kBlocks;
  other["quantization_config"]["weight_block_size"] = {4, 2};
  EXPECT_THROW(open(other, {2, 2}, 4), UsageError);  // [1, 3] belong to such blocks
  EXPECT_THROW(open(kBlocks, {3, 2}, 6), UsageError);
  EXPECT_THROW(open(kBlocks, {6}, 6), UsageError);
  other["quantization_config"]["weight_block_size"] = {0, 2};
  EXPECT_THROW(open(other, {2, 2}, 4), UsageError);
  EXPECT_THROW(Checkpoint::in_memory(kBlocks, {tensor("x.weight", DType::f8_e4m3, {4, 6}, ones())}),
               UsageError);  // no scales at all
}

TEST(Packed, AMethodThatIsNotKnownIsNamed) {
  json config = kBlocks;
  config["quantization_config"]["quant_method"] = "another";
  const std::vector<MemoryTensor> tensors = {
      tensor("x.weight", DType::f8_e4m3, {4, 6}, ones()),
      tensor("x.weight_scale_inv", DType::f32, {2, 2}, floats({1, 2, 3, 4}))};
  const Checkpoint checkpoint = Checkpoint::in_memory(config, tensors);
  EXPECT_EQ(checkpoint.at("x.weight").type_name(), "another");
  EXPECT_EQ(checkpoint.tensors().size(), 1U);
  try {
    all(checkpoint, "x.weight");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'another'"), std::string::npos) << error.what();
  }
  config["quantization_config"].erase("quant_method");  // no quantiser's
  EXPECT_EQ(Checkpoint::in_memory(config, tensors).tensors().size(), 2U);
}

}  // namespace
}  // namespace regauge
