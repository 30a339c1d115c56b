#include "regauge/io/checkpoint_writer.h"

#include <gtest/gtest.h>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/base/random.h"

namespace regauge {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

CheckpointWriter::Plan plan_of(std::vector<StoredTensor> tensors) {
  CheckpointWriter::Plan plan;
  plan.tensors = std::move(tensors);
  return plan;
}

std::vector<std::byte> random_bytes(Random& random, std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits() >> 56);
  return bytes;
}

// Every tensor's bytes, cut into pieces that overlap a little, the last piece first.
void write_in_pieces(CheckpointWriter& writer, const std::string& name,
                     const std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  constexpr std::int64_t kPiece = 7;
  for (std::int64_t first = (size / kPiece) * kPiece; first >= 0; first -= kPiece) {
    const std::int64_t length = std::min(kPiece + 2, size - first);
    writer.write(
        name,
        std::span(bytes).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length)),
        first);
  }
}

TEST(Writer, RandomCheckpointsComeBack) {
  constexpr int kPlainTypes = static_cast<int>(DType::boolean) + 1;
  Random random(1, "checkpoints");
  for (int round = 0; round < 60; ++round) {
    const TemporaryFolder folder;
    const std::int64_t shards = 1 + random.below(3);
    CheckpointWriter::Plan plan;
    for (std::int64_t i = 0; i < shards; ++i) {
      plan.files.push_back("part-" + std::to_string(i) + ".safetensors");
      plan.file_metadata.push_back({{"part", std::to_string(i)}});
    }
    for (std::int64_t i = 0; i < shards + random.below(8); ++i) {
      std::vector<std::int64_t> shape;
      for (std::int64_t j = random.below(4); j > 0; --j) shape.push_back(random.below(6));
      plan.tensors.push_back(planned("tensor \"" + std::to_string(i) + "\" ü",
                                     static_cast<DType>(random.below(kPlainTypes)), shape,
                                     i < shards ? i : random.below(shards)));
    }
    plan.config = {{"round", round}};
    std::map<std::string, std::vector<std::byte>> contents;
    CheckpointWriter writer(folder / "out", plan);
    for (const StoredTensor& tensor : writer.tensors()) {
      EXPECT_EQ(tensor.offset % block_bytes(tensor.dtype), 0);
      contents[tensor.name] = random_bytes(random, tensor.bytes);
      write_in_pieces(writer, tensor.name, contents[tensor.name]);
    }
    writer.finish();

    const Checkpoint written = Checkpoint::open(folder / "out");
    EXPECT_EQ(written.config(), plan.config);
    EXPECT_EQ(written.file_metadata(), plan.file_metadata);
    ASSERT_EQ(written.tensors().size(), plan.tensors.size());
    for (const StoredTensor& tensor : plan.tensors) {
      const StoredTensor& found = written.at(tensor.name);
      EXPECT_EQ(found.dtype, tensor.dtype);
      EXPECT_EQ(found.shape, tensor.shape);
      EXPECT_EQ(found.shard, tensor.shard);
      const auto bytes = written.bytes(found);
      const auto& expected = contents[tensor.name];
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()));
    }
  }
}

TEST(Writer, LaysOutASingleFileInTheGivenOrder) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder / "x.safetensors",
                          plan_of({planned("b", DType::f32, {1}), planned("a", DType::u8, {3})}));
  writer.write("a", bytes_of("xyz"));
  writer.write("b", bytes_of("1234"));
  writer.finish();
  EXPECT_EQ(read_bytes(folder / "x.safetensors"),
            safetensors_bytes(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}}      )",
                              "1234xyz"));
}

TEST(Writer, KeepsTensorsAligned) {
  const TemporaryFolder folder;
  const CheckpointWriter writer(folder / "x.safetensors", plan_of({planned("a", DType::u8, {3}),
                                                                   planned("b", DType::f64, {1}),
                                                                   planned("c", DType::f16, {1})}));
  for (const StoredTensor& tensor : writer.tensors()) {
    EXPECT_EQ(tensor.offset % block_bytes(tensor.dtype), 0) << tensor.name;
  }
}

TEST(Writer, AppearsWholeOrNotAtAll) {
  const TemporaryFolder folder;
  auto plan = plan_of({planned("a", DType::u8, {4})});
  plan.config = json::object();
  for (const char* name : {"x.safetensors", "folder"}) {
    {
      CheckpointWriter writer(folder / name, plan);
      writer.write("a", bytes_of("1234"));
      EXPECT_FALSE(fs::exists(folder / name));
      EXPECT_FALSE(fs::is_empty(folder.path()));
    }
    EXPECT_TRUE(fs::is_empty(folder.path())) << "an unfinished " << name << " was left";
    {
      CheckpointWriter writer(folder / name, plan);
      writer.write("a", bytes_of("12"));
      writer.write("a", bytes_of("23"), 1);
      try {
        writer.finish();
        FAIL();
      } catch (const UsageError& error) {
        EXPECT_NE(std::string(error.what()).find("tensor 'a': byte 3 of 4"), std::string::npos);
      }
      EXPECT_FALSE(fs::exists(folder / name));
      writer.write("a", bytes_of("4"), 3);
      writer.finish();
      EXPECT_TRUE(fs::exists(folder / name));
      EXPECT_THROW(writer.finish(), UsageError);
      EXPECT_THROW(writer.write("a", bytes_of("4"), 3), UsageError);
    }
    EXPECT_EQ(values_of(Checkpoint::open(folder / name), "a"),
              (std::vector<double>{'1', '2', '3', '4'}));
    fs::remove_all(folder / name);
  }
}

TEST(Writer, NeverOverwrites) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.safetensors", "mine");
  EXPECT_THROW(CheckpointWriter(folder / "x.safetensors", {}), UsageError);
  // What a killed process of the same number left behind, or another writer, is in nobody's way.
  CheckpointWriter late(folder / "y.safetensors", {});
  CheckpointWriter early(folder / "y.safetensors", {});
  early.finish();
  EXPECT_THROW(late.finish(), UsageError);
  CheckpointWriter later(folder / "w.safetensors", {});
  write_bytes(folder / "w.safetensors", "mine");
  EXPECT_THROW(later.finish(), UsageError);
  EXPECT_EQ(read_bytes(folder / "x.safetensors"), "mine");
  EXPECT_EQ(read_bytes(folder / "w.safetensors"), "mine");
  EXPECT_THROW(CheckpointWriter(folder / "no/such/x.safetensors", {}), FileError);
}

TEST(Writer, RefusesNamesOfOtherFormats) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* name, Format format) {
    try {
      CheckpointWriter::check_path(folder / name, format);
    } catch (const UsageError&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused("model", Format::llama2c));  // could not be opened again
  EXPECT_TRUE(refused("model.gguf", Format::llama2c));
  EXPECT_TRUE(refused("model.bin", Format::gguf));
  EXPECT_TRUE(refused("model.safetensors", Format::gguf));
  EXPECT_TRUE(refused("model.gguf", Format::safetensors));
  EXPECT_TRUE(refused("model.bin", Format::safetensors));
  EXPECT_FALSE(refused("model.bin", Format::llama2c));
  EXPECT_FALSE(refused("model.gguf", Format::gguf));
  EXPECT_FALSE(refused("model", Format::safetensors));
  EXPECT_FALSE(refused("model-1.5b", Format::safetensors));
  EXPECT_FALSE(refused("model.safetensors", Format::safetensors));
  EXPECT_THROW(CheckpointWriter(folder / "model.bin", {}), UsageError);
}

TEST(Writer, BringsCompanionsAlong) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "from/deeper");
  for (const char* name :
       {"tokenizer.json", "README.md", "config.json", "old.safetensors", "old.bin",
        "model.safetensors.index.json", "x.gguf", "x.pt", "x.pth", "deeper/file"}) {
    write_bytes(folder / "from" / name, "companion");
  }
  CheckpointWriter::Plan plan;
  plan.config = {{"model_type", "llama"}};
  plan.companions_from = folder / "from";
  CheckpointWriter(folder / "to/", plan).finish();
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "to")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"README.md", "config.json", "model.safetensors",
                                          "tokenizer.json"}));
  EXPECT_EQ(Checkpoint::open(folder / "to").config()["model_type"], "llama");
}

TEST(Writer, FollowsLinksInsideTheFolderAndOfACacheToItsBlobs) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "hub/models--a--b/blobs");
  fs::create_directories(folder / "hub/models--a--b/snapshots/0123");
  const fs::path from = folder / "hub/models--a--b/snapshots/0123";
  write_bytes(folder / "hub/models--a--b/blobs/4567", "from the blobs");
  fs::create_symlink("../../blobs/4567", from / "tokenizer.json");
  write_bytes(from / "notes.txt", "here");
  fs::create_symlink("notes.txt", from / "also.txt");
  CheckpointWriter::Plan plan;
  plan.config = {{"model_type", "llama"}};
  plan.companions_from = from;
  CheckpointWriter(folder / "to", plan).finish();
  EXPECT_EQ(read_bytes(folder / "to/tokenizer.json"), "from the blobs");
  EXPECT_EQ(read_bytes(folder / "to/also.txt"), "here");
  EXPECT_FALSE(fs::is_symlink(folder / "to/tokenizer.json"));
}

TEST(Writer, DoesNotFollowLinksOutOfTheFolder) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "from");
  fs::create_directories(folder / "blobs");
  write_bytes(folder / "secret", "private");
  write_bytes(folder / "blobs/secret", "private");
  CheckpointWriter::Plan plan;
  plan.config = {{"model_type", "llama"}};
  plan.companions_from = folder / "from";
  for (const fs::path& target : {fs::path("../secret"), fs::path("../blobs/secret"),
                                 folder / "secret", folder / "from/../secret"}) {
    fs::create_symlink(target, folder / "from/tokenizer.json");
    EXPECT_THROW(CheckpointWriter(folder / "to", plan), UsageError) << target;
    EXPECT_FALSE(fs::exists(folder / "to"));
    fs::remove(folder / "from/tokenizer.json");
  }
  // A link that leads nowhere, or to what is no file, is no companion.
  fs::create_symlink("nowhere", folder / "from/a.json");
  fs::create_symlink("/dev/zero", folder / "from/b.json");
  EXPECT_NO_THROW(CheckpointWriter(folder / "to", plan).finish());
}

TEST(Writer, RefusesAPathThatIsNotUtf8) {
  const TemporaryFolder folder;
  EXPECT_THROW(CheckpointWriter(folder / "\xff\xfe.safetensors", {}), UsageError);
  EXPECT_THROW(Checkpoint::open(folder / "\xff\xfe.safetensors"), UsageError);
}

TEST(Writer, SaysWhatIsWrongWithAPlan) {
  const TemporaryFolder folder;
  const auto refuses = [&](const char* name, const CheckpointWriter::Plan& plan) {
    EXPECT_THROW(CheckpointWriter(folder / name, plan), UsageError);
    EXPECT_TRUE(fs::is_empty(folder.path()));
  };
  const StoredTensor a = planned("a", DType::u8, {4});
  refuses("x.safetensors", plan_of({a, a}));
  refuses("x.safetensors", plan_of({planned("a", DType::u8, {4}, 1)}));
  refuses("x.safetensors", plan_of({planned("a", DType::q8_0, {32})}));
  refuses("x.safetensors", plan_of({planned("a", DType::u8, {-1})}));
  refuses("x.safetensors", plan_of({planned("a", DType::f64, {std::int64_t{1} << 62})}));
  refuses("x.safetensors", plan_of({planned("\xff", DType::u8, {1})}));
  refuses("x.safetensors", plan_of({planned("__metadata__", DType::u8, {1})}));
  refuses("folder", plan_of({a}));  // no config
  auto plan = plan_of({a});
  plan.config = json::object();
  for (const char* name : {"../x.safetensors", ".safetensors", "x.bin", ""}) {
    plan.files = {name};
    refuses("folder", plan);
  }
  plan.files = {"model.safetensors", "other.safetensors"};
  refuses("folder", plan);
  plan.files = {"x.safetensors", "x.safetensors"};
  refuses("folder", plan);

  CheckpointWriter writer(folder / "x.safetensors", plan_of({a}));
  EXPECT_THROW(writer.write("b", bytes_of("1")), UsageError);
  EXPECT_THROW(writer.write("a", bytes_of("12345")), UsageError);
  EXPECT_THROW(writer.write("a", bytes_of("1"), 4), UsageError);
  EXPECT_THROW(writer.write("a", bytes_of("1"), -1), UsageError);
}

}  // namespace
}  // namespace regauge
