#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint.h"

namespace regauge {
namespace {

using namespace testing;
using Shape = std::vector<std::int64_t>;

TEST(Safetensors, ReadsEveryTypeOfThePackage) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("every_dtype.safetensors"));
  EXPECT_EQ(checkpoint.format(), Format::safetensors);
  const std::vector<double> with_sign = {0, 1, 2, 3, -100, 127};
  const std::vector<double> without_sign = {0, 1, 2, 3, 100, 127};
  for (const char* name : {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8"}) {
    EXPECT_EQ(values_of(checkpoint, name), with_sign) << name;
    EXPECT_EQ(checkpoint.at(name).shape, (Shape{2, 3}));
  }
  for (const char* name : {"u64", "u32", "u16", "u8"}) {
    EXPECT_EQ(values_of(checkpoint, name), without_sign) << name;
  }
  EXPECT_EQ(values_of(checkpoint, "bool"), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(values_of(checkpoint, "scalar"), (std::vector<double>{2.5}));
  EXPECT_EQ(checkpoint.at("scalar").shape, Shape{});
  EXPECT_EQ(checkpoint.at("empty").shape, (Shape{0, 4}));
  EXPECT_TRUE(checkpoint.bytes(checkpoint.at("empty")).empty());
  EXPECT_EQ(checkpoint.file_metadata()[0]["note"], "naïve");
  EXPECT_TRUE(checkpoint.config().is_null());
}

TEST(Safetensors, TensorsComeInFileOrder) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.safetensors",
              safetensors_bytes(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                                R"("b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                                "\x05\x06\x07"));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.safetensors");
  ASSERT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(checkpoint.tensors()[0].name, "b");
  EXPECT_EQ(values_of(checkpoint, "a"), (std::vector<double>{6, 7}));
  EXPECT_EQ(checkpoint.find("c"), nullptr);
}

TEST(Safetensors, UsesTheConfigBesideTheFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.safetensors", safetensors_bytes("{}", ""));
  write_bytes(folder / "config.json", R"({"model_type": "llama"})");
  EXPECT_EQ(Checkpoint::open(folder / "x.safetensors").config()["model_type"], "llama");
}

TEST(Safetensors, ListsTypesThatItDoesNotRead) {
  const TemporaryFolder folder;
  write_bytes(
      folder / "x.safetensors",
      safetensors_bytes(R"({"a":{"dtype":"F8_E4M3FNUZ","shape":[1],"data_offsets":[0,1]}})", "x"));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.safetensors");
  const StoredTensor& tensor = checkpoint.at("a");
  EXPECT_EQ(tensor.type_name(), "F8_E4M3FNUZ");
  EXPECT_EQ(tensor.shape, std::vector<std::int64_t>{1});
  std::vector<float> values(1);
  EXPECT_THROW(checkpoint.numbers(tensor).decode<float>(values), UsageError);
}

TEST(Checkpoint, NamesCloseTensors) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("every_dtype.safetensors"));
  try {
    checkpoint.at("scalr");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("is it scalar"), std::string::npos) << error.what();
  }
}

TEST(Checkpoint, StaysReadableAfterReleaseAndCopy) {
  auto original = std::make_unique<Checkpoint>(Checkpoint::open(fixture("quants.safetensors")));
  const Checkpoint copy = *original;
  original.reset();
  for (const StoredTensor& tensor : copy.tensors()) {
    const auto bytes = copy.bytes(tensor);
    const std::vector<std::byte> before(bytes.begin(), bytes.end());
    copy.release(tensor);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), bytes.begin()));
  }
}

TEST(Checkpoint, SaysWhatItDoesNotOpen) {
  const TemporaryFolder folder;
  EXPECT_THROW(Checkpoint::open(folder / "absent"), FileError);
  EXPECT_THROW(Checkpoint::open(folder.path()), UsageError);  // no config.json
  write_bytes(folder / "config.json", "{}");
  EXPECT_THROW(Checkpoint::open(folder.path()), UsageError);  // no weights
  write_bytes(folder / "x.txt", "hello");
  EXPECT_THROW(Checkpoint::open(folder / "x.txt"), UsageError);
}

TEST(Checkpoint, OpensFoldersWithOneFileOrShards) {
  const TemporaryFolder folder;
  write_bytes(folder / "config.json", R"({"n": 1})");
  const std::string a =
      safetensors_bytes(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "1");
  const std::string b =
      safetensors_bytes(R"({"b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "2");
  write_bytes(folder / "s-1.safetensors", a);
  write_bytes(folder / "s-2.safetensors", b);
  write_bytes(folder / "model.safetensors.index.json",
              R"({"metadata":{},"weight_map":{"a":"s-1.safetensors","b":"s-2.safetensors"}})");
  const Checkpoint sharded = Checkpoint::open(folder.path());
  EXPECT_EQ(sharded.files().size(), 2u);
  EXPECT_EQ(sharded.at("b").shard, 1);
  EXPECT_EQ(values_of(sharded, "b"), std::vector<double>{'2'});
  EXPECT_EQ(sharded.config()["n"], 1);
  EXPECT_EQ(Checkpoint::open(folder / "model.safetensors.index.json").tensors().size(), 2u);
  write_bytes(folder / "model.safetensors", a);
  EXPECT_EQ(Checkpoint::open(folder.path()).tensors().size(), 1u);
}

}  // namespace
}  // namespace regauge
