#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "io/files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

// Layers as the tools that quantise store them (tools/make_packed_fixtures.py), with what their own
// dequantisers read.
namespace regauge {
namespace {

using nlohmann::json;

struct Layer {
  json config;
  std::vector<MemoryTensor> tensors;
  std::vector<double> original;
  std::vector<float> expected;
  std::vector<std::int64_t> shape;

  MemoryTensor& at(const std::string& name) {
    for (MemoryTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw UsageError("no " + name);
  }
  void drop(const std::string& name) {
    std::erase_if(tensors, [&](const MemoryTensor& tensor) { return tensor.name == name; });
  }
  Checkpoint open() const { return Checkpoint::in_memory(config, tensors); }
};

Layer read_layer(const std::filesystem::path& path) {
  const auto file = std::make_shared<Checkpoint>(Checkpoint::open(path));
  Layer result;
  result.config = json::parse(file->file_metadata()[0].at("config").get<std::string>());
  // The file by itself has no config: fp8 alone is joined by its names.
  const auto add_bytes = [&](const StoredTensor& tensor, const ByteRange& bytes) {
    const auto held =
        std::make_shared<const std::pair<std::shared_ptr<Checkpoint>, Bytes>>(file, bytes.bytes());
    result.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, held->second, held});
  };
  const auto add = [&](const StoredTensor& tensor) {
    add_bytes(tensor, file->numbers(tensor).all_bytes()[0]);
  };
  for (const StoredTensor& tensor : file->tensors()) {
    const Numbers numbers = file->numbers(tensor);
    if (tensor.name == "original") {
      result.original.resize(static_cast<std::size_t>(numbers.count()));
      numbers.decode<double>(result.original);
    } else if (tensor.name == "expected") {
      result.shape = tensor.shape;
      result.expected.resize(static_cast<std::size_t>(numbers.count()));
      numbers.decode<float>(result.expected);
    } else if (tensor.packing) {
      for (const StoredTensor& part : tensor.parts) {
        const auto at = static_cast<std::size_t>(&part - tensor.parts.data());
        add_bytes(part, numbers.all_bytes()[at]);
      }
    } else {
      add(tensor);
    }
  }
  return result;
}

Layer layer(const std::string& name) {
  return read_layer(testing::fixture("packed/" + name + ".safetensors"));
}

std::string refusal(const Layer& of) {
  try {
    of.open();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

class Tools : public ::testing::TestWithParam<std::string> {};

TEST_P(Tools, AreReadBitForBit) {
  const Layer of = layer(GetParam());
  const Checkpoint checkpoint = of.open();
  ASSERT_EQ(checkpoint.tensors().size(), 1U);
  const StoredTensor& tensor = checkpoint.at("layer.weight");
  EXPECT_EQ(tensor.shape, of.shape);
  EXPECT_FALSE(tensor.type_name().empty());
  const Numbers numbers = checkpoint.numbers(tensor);
  std::vector<float> values(of.expected.size());
  numbers.decode<float>(values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], of.expected[i]) << i;
}

TEST_P(Tools, ARangeIsAPartOfTheWhole) {
  const Layer of = layer(GetParam());
  const Checkpoint checkpoint = of.open();
  const Numbers numbers = checkpoint.numbers(checkpoint.at("layer.weight"));
  const std::int64_t count = numbers.count();
  for (std::int64_t first = 0; first < count; first += 37) {
    for (const std::int64_t length : {std::int64_t{1}, std::int64_t{5}, count / 3}) {
      std::vector<float> values(static_cast<std::size_t>(std::min(length, count - first)));
      numbers.range(first, static_cast<std::int64_t>(values.size())).decode<float>(values);
      ASSERT_TRUE(std::equal(values.begin(), values.end(), of.expected.begin() + first)) << first;
    }
  }
}

TEST_P(Tools, TheOriginalLiesWithinTheRounding) {
  const Layer of = layer(GetParam());
  const Checkpoint checkpoint = of.open();
  const Numbers numbers = checkpoint.numbers(checkpoint.at("layer.weight"));
  std::vector<double> values(of.original.size()), below(values), above(values);
  std::vector<signed char> ends(values.size());
  numbers.decode<double>(values);
  numbers.rounding_bounds(values, below, above);
  numbers.block_ends(values, ends);
  double used = 0;
  std::int64_t cut = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = of.original[i] - values[i], room = off > 0 ? above[i] : below[i];
    if (std::abs(off) > room && ends[i] == (off > 0 ? 1 : -1)) {
      ++cut;
      continue;
    }
    ASSERT_LE(std::abs(off), room) << i << " of " << of.original[i] << " read " << values[i];
    if (room > 0) used = std::max(used, std::abs(off) / room);
  }
  // GPTQ and AWQ cut a row off of which all numbers are above zero.
  EXPECT_LE(cut, of.shape.back());
  EXPECT_GT(used, 0.8);  // no more room than is needed
}

std::vector<std::string> all_layers() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::fixture("packed"))) {
    names.insert(entry.path().stem().string());
  }
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Packings, Tools, ::testing::ValuesIn(all_layers()), [](const auto& given) {
  std::string name = given.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(PackedMistakes, WhatIsMissingIsNamed) {
  for (const auto& [name, missing] :
       {std::pair("gptq-4", "layer.scales"), std::pair("gptq-4", "layer.qzeros"),
        std::pair("awq", "layer.scales"), std::pair("ct-int4-group", "layer.weight_scale"),
        std::pair("ct-int4-group", "layer.weight_shape"),
        std::pair("ct-nvfp4", "layer.weight_global_scale"),
        std::pair("ct-fp8-channel", "layer.weight_scale"),
        std::pair("ct-int8-channel", "layer.weight_scale"),
        std::pair("fp8-blocks", "layer.weight_scale_inv"),
        std::pair("mxfp4-experts", "layer.weight_scales"),
        std::pair("bnb-nf4", "layer.weight.absmax"), std::pair("bnb-nf4", "layer.weight.quant_map"),
        std::pair("bnb-nf4-nested", "layer.weight.nested_absmax"),
        std::pair("bnb-int8", "layer.SCB"), std::pair("modelopt-nvfp4", "layer.weight_scale"),
        std::pair("modelopt-nvfp4", "layer.weight_scale_2"), std::pair("mlx-4", "layer.scales"),
        std::pair("mlx-4", "layer.biases")}) {
    Layer of = layer(name);
    of.drop(missing);
    EXPECT_NE(refusal(of).find(missing), std::string::npos) << name << ": " << refusal(of);
  }
}

TEST(PackedMistakes, TransposedScalesAreNamed) {
  for (const auto& [name, scales] :
       {std::pair("gptq-4", "layer.scales"), std::pair("awq", "layer.scales"),
        std::pair("ct-int4-group", "layer.weight_scale"),
        std::pair("ct-nvfp4", "layer.weight_scale"), std::pair("mlx-4", "layer.biases")}) {
    Layer of = layer(name);
    std::swap(of.at(scales).shape[0], of.at(scales).shape[1]);
    EXPECT_NE(refusal(of).find(scales), std::string::npos) << name << ": " << refusal(of);
    EXPECT_NE(refusal(of).find("transposed"), std::string::npos) << name << ": " << refusal(of);
  }
}

TEST(PackedMistakes, SettingsThatDoNotFitAreNamed) {
  const auto with = [](const std::string& name, const std::string& pointer, const json& value) {
    Layer of = layer(name);
    of.config[json::json_pointer(pointer)] = value;
    return refusal(of);
  };
  const std::string weights = "/quantization_config/config_groups/group_0/weights/";
  EXPECT_NE(with("gptq-4", "/quantization_config/group_size", 16).find("group_size 16"),
            std::string::npos);
  EXPECT_NE(with("gptq-4", "/quantization_config/bits", 8).find("8 bits"), std::string::npos);
  EXPECT_NE(with("gptq-4", "/quantization_config/bits", "four").find("bits"), std::string::npos);
  EXPECT_NE(with("gptq-4", "/quantization_config/checkpoint_format", "marlin").find("marlin"),
            std::string::npos);
  EXPECT_NE(with("awq", "/quantization_config/group_size", 64).find("group_size 64"),
            std::string::npos);
  EXPECT_NE(with("awq", "/quantization_config/version", "gemv").find("gemv"), std::string::npos);
  EXPECT_NE(with("ct-int4-group", weights + "group_size", 64).find("group_size 64"),
            std::string::npos);
  EXPECT_NE(with("ct-int4-group", weights + "num_bits", 8).find("8 bits"), std::string::npos);
  EXPECT_NE(with("ct-fp8-block", weights + "block_structure", {32, 16}).find("32 x 16"),
            std::string::npos);
  EXPECT_NE(
      with("fp8-blocks", "/quantization_config/weight_block_size", {128, 128}).find("128 x 128"),
      std::string::npos);
  EXPECT_NE(with("mlx-4", "/quantization/group_size", 64).find("groups of 64"), std::string::npos);
}

TEST(PackedMistakes, AModeThatIsNotReadIsNamed) {
  Layer of = layer("mlx-4");
  of.config["quantization"]["mode"] = "nvfp4";
  const Checkpoint checkpoint = of.open();
  const StoredTensor& tensor = checkpoint.at("layer.weight");
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{32, 64}));
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  try {
    checkpoint.numbers(tensor).decode<float>(values);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("nvfp4"), std::string::npos) << error.what();
  }
}

TEST(PackedMistakes, AGroupThatIsNotThereIsNamed) {
  Layer of = layer("gptq-4-order");
  MemoryTensor& order = of.at("layer.g_idx");
  const auto changed =
      std::make_shared<std::vector<std::byte>>(order.bytes.begin(), order.bytes.end());
  (*changed)[0] = std::byte{2};
  order.bytes = *changed;
  order.owner = changed;
  EXPECT_NE(refusal(of).find("group 2"), std::string::npos) << refusal(of);
}

}  // namespace
}  // namespace regauge
