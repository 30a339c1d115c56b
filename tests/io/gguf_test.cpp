#include <gtest/gtest.h>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {
namespace {

using namespace testing;
using nlohmann::json;
using Shape = std::vector<std::int64_t>;

TEST(Gguf, ReadsEveryValueTypeOfThePackage) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("tiny.gguf"));
  EXPECT_EQ(checkpoint.format(), Format::gguf);
  const json& config = checkpoint.config();
  EXPECT_EQ(config["general.architecture"], "llama");
  EXPECT_EQ(config["llama.block_count"], 2);
  EXPECT_EQ(config["t.u8"], 200);
  EXPECT_EQ(config["t.i8"], -100);
  EXPECT_EQ(config["t.u16"], 60000);
  EXPECT_EQ(config["t.i16"], -30000);
  EXPECT_EQ(config["t.i32"], -2000000000);
  EXPECT_EQ(config["t.f32"], 0.1f);
  EXPECT_EQ(config["t.f64"], 0.1);
  EXPECT_EQ(config["t.bool"], true);
  EXPECT_EQ(config["t.string"], "naïve");
  EXPECT_EQ(config["t.u64"], (std::uint64_t{1} << 63) + 1);
  EXPECT_EQ(config["t.i64"], -(std::int64_t{1} << 62));
  EXPECT_EQ(config["t.array.i32"], (json{1, -2, 3}));
  EXPECT_EQ(config["t.array.f32"], (json{0.5, -1.5}));
  EXPECT_EQ(config["t.array.bool"], (json{true, false}));
  EXPECT_EQ(config["tokenizer.ggml.tokens"][1], "bc");
  EXPECT_EQ(config["tokenizer.ggml.tokens"][2], json::binary({0xff, 0xfe}));
  EXPECT_NO_THROW(config.dump());
}

TEST(Gguf, ReadsTensorsAsThePackageDoes) {
  const Checkpoint checkpoint = Checkpoint::open(fixture("tiny.gguf"));
  const Checkpoint expected = Checkpoint::open(fixture("tiny_gguf_values.safetensors"));
  ASSERT_EQ(checkpoint.tensors().size(), expected.tensors().size());
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    EXPECT_EQ(tensor.shape, expected.at(tensor.name).shape) << tensor.name;
    EXPECT_EQ(values_of(checkpoint, tensor.name), values_of(expected, tensor.name)) << tensor.name;
  }
  EXPECT_EQ(checkpoint.at("bf16").shape, (Shape{2, 3, 4}));
  EXPECT_EQ(checkpoint.at("q8_0").dtype, DType::q8_0);
}

TEST(Gguf, IsKnownByItsFirstBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "model", gguf_bytes({}, {}, ""));
  write_bytes(folder / "two.gguf", gguf_bytes({}, {gguf_tensor("a", {1}, 24, 0)}, "x", 2));
  EXPECT_EQ(Checkpoint::open(folder / "model").format(), Format::gguf);
  EXPECT_EQ(values_of(Checkpoint::open(folder / "two.gguf"), "a"), std::vector<double>{'x'});
}

TEST(Gguf, ListsTypesThatItDoesNotRead) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.gguf",
              gguf_bytes({}, {gguf_tensor("a", {256}, 42, 0)}, std::string(84, 'x')));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.gguf");
  const StoredTensor& tensor = checkpoint.at("a");
  EXPECT_EQ(tensor.type_name(), "Q2_0");
  EXPECT_EQ(tensor.shape, Shape{256});
  EXPECT_EQ(tensor.bytes, 84);
  std::vector<float> values(256);
  EXPECT_THROW(checkpoint.numbers(tensor).decode<float>(values), UsageError);
}

// Part `index` from 0 of `count`, with one number in one tensor.
std::string part(std::uint32_t index, std::uint32_t count, const std::string& tensor,
                 std::int8_t value, std::uint32_t tensors) {
  constexpr std::uint32_t kUnsigned = 4;
  std::vector<std::string> pairs = {gguf_pair("split.no", kUnsigned, raw(index)),
                                    gguf_pair("split.count", kUnsigned, raw(count)),
                                    gguf_pair("split.tensors.count", kUnsigned, raw(tensors))};
  if (index == 0) pairs.push_back(gguf_pair("general.alignment", kUnsigned, raw(32u)));
  return gguf_bytes(pairs, {gguf_tensor(tensor, {1}, 24, 0)}, raw(value));
}

void write_parts(const TemporaryFolder& folder) {
  write_bytes(folder / "m-00001-of-00002.gguf", part(0, 2, "a", 1, 2));
  write_bytes(folder / "m-00002-of-00002.gguf", part(1, 2, "b", 2, 2));
}

std::string complaint(const std::filesystem::path& path) {
  try {
    Checkpoint::open(path);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(SplitGguf, OnePartOrTheFolderOpensAll) {
  const TemporaryFolder folder;
  write_parts(folder);
  for (const auto& path :
       {folder / "m-00001-of-00002.gguf", folder / "m-00002-of-00002.gguf", folder.path()}) {
    const Checkpoint checkpoint = Checkpoint::open(path);
    EXPECT_EQ(checkpoint.files().size(), 2u);
    EXPECT_EQ(checkpoint.tensors().size(), 2u);
    EXPECT_EQ(values_of(checkpoint, "a"), std::vector<double>{1});
    EXPECT_EQ(values_of(checkpoint, "b"), std::vector<double>{2});
    EXPECT_EQ(checkpoint.config(), (json{{"general.alignment", 32}}));
    EXPECT_EQ(checkpoint.opened_files().size(), 2u);
  }
}

TEST(SplitGguf, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  write_bytes(folder / "m-00002-of-00002.gguf", part(1, 2, "b", 2, 2));
  EXPECT_NE(complaint(folder / "m-00002-of-00002.gguf").find("m-00001-of-00002.gguf is not there"),
            std::string::npos);
  write_bytes(folder / "m.gguf", part(1, 2, "b", 2, 2));
  EXPECT_NE(complaint(folder / "m.gguf").find("-00002-of-00002.gguf"), std::string::npos);
}

TEST(SplitGguf, PartsOfOthersAreRefused) {
  const TemporaryFolder folder;
  write_parts(folder);
  const auto second = folder / "m-00002-of-00002.gguf";
  write_bytes(second, part(0, 2, "b", 2, 2));
  EXPECT_NE(complaint(folder / "m-00001-of-00002.gguf").find("part 1 of 2"), std::string::npos);
  write_bytes(second, part(1, 2, "a", 2, 2));
  EXPECT_NE(complaint(second).find("tensor 'a' is in"), std::string::npos);
  write_parts(folder);
  write_bytes(folder / "m-00001-of-00002.gguf", part(0, 2, "a", 1, 3));
  EXPECT_NE(complaint(second).find("split.tensors.count is 3"), std::string::npos);
  write_bytes(second, part(2, 2, "b", 2, 2));
  EXPECT_NE(complaint(second).find("split.no is 2"), std::string::npos);
}

TEST(SplitGguf, AFolderWithAnotherFileIsNotChosenFrom) {
  const TemporaryFolder folder;
  write_parts(folder);
  write_bytes(folder / "other.gguf", gguf_bytes({}, {}, ""));
  EXPECT_NE(complaint(folder.path()).find("name "), std::string::npos);
}

TEST(Gguf, WhatIsWrittenComesBack) {
  const TemporaryFolder folder;
  const Checkpoint source = Checkpoint::open(fixture("tiny.gguf"));
  CheckpointWriter::Plan plan;
  plan.format = Format::gguf;
  plan.tensors = source.tensors();
  plan.config = source.config();
  plan.config["general.alignment"] = 64;
  CheckpointWriter writer(folder / "out.gguf", plan);
  for (const StoredTensor& tensor : source.tensors())
    writer.write(tensor.name, source.bytes(tensor));
  writer.finish();

  const Checkpoint written = Checkpoint::open(folder / "out.gguf");
  plan.config["t.f64"] = 0.1f;  // floats are stored in 32 bits
  EXPECT_EQ(written.config(), plan.config);
  for (const StoredTensor& tensor : source.tensors()) {
    EXPECT_EQ(written.at(tensor.name).shape, tensor.shape);
    EXPECT_EQ(written.at(tensor.name).dtype, tensor.dtype);
    EXPECT_EQ(written.at(tensor.name).offset % 64, 0);
    EXPECT_EQ(values_of(written, tensor.name), values_of(source, tensor.name));
  }
}

TEST(Gguf, RefusesToWriteWhatItCannotHold) {
  const TemporaryFolder folder;
  const auto refuses = [&](json config, StoredTensor tensor) {
    CheckpointWriter::Plan plan;
    plan.format = Format::gguf;
    plan.config = std::move(config);
    plan.tensors = {std::move(tensor)};
    EXPECT_THROW(CheckpointWriter(folder / "x.gguf", plan), UsageError);
  };
  refuses({{"a", nullptr}}, planned("x", DType::f32, {1}));
  refuses({{"a", {1, "b"}}}, planned("x", DType::f32, {1}));
  refuses({{"a", {{"b", 1}}}}, planned("x", DType::f32, {1}));
  refuses({{"a", {-1, 0xffffffffffffffffu}}}, planned("x", DType::f32, {1}));
  refuses({{"tokenizer.ggml.token_type", {1, 0.5}}}, planned("x", DType::f32, {1}));
  refuses({{"tokenizer.ggml.token_type", {0x80000000u}}}, planned("x", DType::f32, {1}));
  refuses({{"general.alignment", 48}}, planned("x", DType::f32, {1}));
  refuses({}, planned("x", DType::u32, {1}));
  refuses({}, planned("x", DType::f32, {1, 1, 1, 1, 1}));
  refuses({}, planned(std::string(64, 'x'), DType::f32, {1}));
  refuses({}, planned("x", DType::q8_0, {32, 1}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace regauge
