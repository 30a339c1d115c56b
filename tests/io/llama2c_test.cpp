#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "files.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {
namespace {

using namespace testing;
namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

// dim 4, hidden 6, 2 layers, 2 heads, 1 kv head, vocabulary 3, 5 positions.
constexpr std::size_t kFloats = 12 + 2 * (4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24) + 4 + 5 + 5;

fs::path shared_file(const char* name) {
  const char* folder = std::getenv("REGAUGE_SHARED");
  const fs::path shared = folder ? folder : fs::path(REGAUGE_FIXTURES) / "../../../shared";
  return shared / "data" / name;
}

void copy_checkpoint(const Checkpoint& source, const fs::path& to) {
  CheckpointWriter::Plan plan;
  plan.format = source.format();
  plan.tensors = source.tensors();
  plan.config = source.config();
  CheckpointWriter writer(to, plan);
  for (const StoredTensor& tensor : source.tensors())
    writer.write(tensor.name, source.bytes(tensor));
  writer.finish();
}

TEST(Llama2c, NamesTheTensorsOfEachLayer) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.bin", llama2c_bytes({4, 6, 2, 2, 1, 3, 5}, kFloats));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.bin");
  EXPECT_EQ(checkpoint.format(), Format::llama2c);
  EXPECT_EQ(checkpoint.config()["n_kv_heads"], 1);
  EXPECT_EQ(checkpoint.config()["vocab_size"], 3);
  EXPECT_EQ(checkpoint.config()["shared_weights"], true);
  EXPECT_EQ(checkpoint.at("layers.1.attention.wk.weight").shape, (Shape{2, 4}));
  EXPECT_EQ(checkpoint.at("layers.0.feed_forward.w2.weight").shape, (Shape{4, 6}));
  EXPECT_EQ(checkpoint.find("output.weight"), nullptr);
  // wq of layer 1 begins after the embedding (12), two attention norms (8) and wq of layer 0 (16).
  EXPECT_EQ(values_of(checkpoint, "layers.1.attention.wq.weight")[0], 36);
  EXPECT_EQ(values_of(checkpoint, "freq_cis_imag").back(), static_cast<double>(kFloats - 1));
}

TEST(Llama2c, AnUntiedHeadComesLast) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.bin", llama2c_bytes({4, 6, 2, 2, 1, -3, 5}, kFloats + 12));
  const Checkpoint checkpoint = Checkpoint::open(folder / "x.bin");
  EXPECT_EQ(checkpoint.config()["vocab_size"], 3);
  EXPECT_EQ(checkpoint.config()["shared_weights"], false);
  EXPECT_EQ(values_of(checkpoint, "output.weight")[0], static_cast<double>(kFloats));
}

TEST(Llama2c, ACopyHasTheSameBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "tied.bin", llama2c_bytes({4, 6, 2, 2, 1, 3, 5}, kFloats));
  write_bytes(folder / "untied.bin", llama2c_bytes({4, 6, 2, 2, 1, -3, 5}, kFloats + 12));
  for (const char* name : {"tied.bin", "untied.bin"}) {
    copy_checkpoint(Checkpoint::open(folder / name), folder / "copy.bin");
    EXPECT_EQ(read_bytes(folder / "copy.bin"), read_bytes(folder / name));
    fs::remove(folder / "copy.bin");
  }
}

TEST(Llama2c, WritesRotaryTablesThatThePlanLeavesOut) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.bin", llama2c_bytes({4, 6, 2, 2, 1, 3, 5}, kFloats));
  const Checkpoint source = Checkpoint::open(folder / "x.bin");
  CheckpointWriter::Plan plan;
  plan.format = Format::llama2c;
  plan.config = source.config();
  for (const StoredTensor& tensor : source.tensors()) {
    if (!tensor.name.starts_with("freq_cis")) plan.tensors.push_back(tensor);
  }
  CheckpointWriter writer(folder / "y.bin", plan);
  for (const StoredTensor& tensor : plan.tensors) writer.write(tensor.name, source.bytes(tensor));
  writer.finish();
  const auto sines = values_of(Checkpoint::open(folder / "y.bin"), "freq_cis_imag");
  ASSERT_EQ(sines.size(), 5u);
  for (std::size_t t = 0; t < 5; ++t)
    EXPECT_FLOAT_EQ(static_cast<float>(sines[t]), std::sin(static_cast<float>(t)));

  plan.tensors.pop_back();
  EXPECT_THROW(CheckpointWriter(folder / "z.bin", plan), UsageError);
  plan.config["n_heads"] = 3;
  EXPECT_THROW(CheckpointWriter(folder / "z.bin", plan), UsageError);
}

TEST(Llama2c, ReadsARealModel) {
  const fs::path path = shared_file("llama2c-stories260K/stories260K.bin");
  if (!fs::exists(path)) {
    GTEST_SKIP()
        << "stories260K.bin is not there; set REGAUGE_SHARED to the folder that holds data/";
  }
  const Checkpoint checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint.config()["dim"], 64);
  EXPECT_EQ(checkpoint.config()["n_layers"], 5);
  EXPECT_EQ(checkpoint.tensors().size(), 5u * 9 + 4);
  const auto cosines = values_of(checkpoint, "freq_cis_real");
  EXPECT_FLOAT_EQ(static_cast<float>(cosines[4]), static_cast<float>(std::cos(1.0)));
  const TemporaryFolder folder;
  copy_checkpoint(checkpoint, folder / "copy.bin");
  EXPECT_EQ(read_bytes(folder / "copy.bin"), read_bytes(path));
}

}  // namespace
}  // namespace regauge
