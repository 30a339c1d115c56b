// Fixtures written anew with something changed: other names, copies, tensors that are missing or
// wrong.

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "fixture.h"
#include "regauge/base/error.h"
#include "regauge/io/checkpoint_writer.h"

namespace regauge {
namespace {

using testing::fixture;
using testing::says;

struct Tensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct Contents {
  nlohmann::json config;
  std::map<std::string, Tensor> tensors;

  void rename(const std::function<std::string(const std::string&)>& to) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors) renamed[to(name)] = std::move(tensor);
    tensors = std::move(renamed);
  }
};

class Variant : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("regauge-variant-" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Contents contents_of(const std::string& name) {
    const Checkpoint checkpoint = Checkpoint::open(fixture(name));
    Contents contents{checkpoint.config(), {}};
    for (const auto& tensor : checkpoint.tensors()) {
      const auto bytes = checkpoint.bytes(tensor);
      contents.tensors[tensor.name] = {tensor.dtype, tensor.shape, {bytes.begin(), bytes.end()}};
    }
    return contents;
  }

  Model reopened(const Contents& contents) {
    CheckpointWriter::Plan plan;
    plan.config = contents.config;
    plan.files = {"model.safetensors"};
    for (const auto& [name, tensor] : contents.tensors) {
      StoredTensor stored;
      stored.name = name;
      stored.dtype = tensor.dtype;
      stored.shape = tensor.shape;
      plan.tensors.push_back(stored);
    }
    std::filesystem::remove_all(folder_);
    CheckpointWriter writer(folder_, plan);
    for (const auto& [name, tensor] : contents.tensors) writer.write(name, tensor.bytes);
    writer.finish();
    return Model::open(folder_);
  }

  const std::filesystem::path& folder() const { return folder_; }

  std::string problem_of(const Contents& contents) {
    try {
      reopened(contents);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Variant, AllBadTensorsAreReportedAtOnce) {
  Contents contents = contents_of("llama");
  contents.tensors.erase("model.layers.0.mlp.up_proj.weight");
  contents.tensors.erase("lm_head.weight");
  std::swap(contents.tensors.at("model.layers.1.self_attn.q_proj.weight").shape[0],
            contents.tensors.at("model.layers.1.self_attn.q_proj.weight").shape[1]);
  Tensor& norm = contents.tensors.at("model.norm.weight");
  norm = {DType::i32, norm.shape, norm.bytes};
  const std::string text = problem_of(contents);
  EXPECT_TRUE(says(text, "'model.layers.0.mlp.up_proj.weight' is missing; it should be [27, 20]"))
      << text;
  EXPECT_TRUE(says(text, "'lm_head.weight' is missing"));
  EXPECT_TRUE(says(text, "tied"));
  EXPECT_TRUE(says(text, "'model.layers.1.self_attn.q_proj.weight' is [20, 24]")) << text;
  EXPECT_TRUE(says(text, "'model.norm.weight' is I32")) << text;
}

TEST_F(Variant, AbsurdSizesAreRefusedBeforeAnythingIsMade) {
  Contents contents = contents_of("llama");
  contents.config["num_hidden_layers"] = 2000000000;
  EXPECT_TRUE(says(problem_of(contents), "2000000000 layers"));
  contents = contents_of("llama");
  contents.config["head_dim"] = 2000000000;
  EXPECT_TRUE(says(problem_of(contents), "2000000000"));
}

TEST_F(Variant, ATiedHeadMayBeWrittenOutIfItIsTheTokenTable) {
  Contents contents = contents_of("gpt2");
  contents.tensors["lm_head.weight"] = contents.tensors.at("transformer.wte.weight");
  const Model model = reopened(contents);
  EXPECT_TRUE(model.unclaimed.empty());
  EXPECT_EQ(model.layout.stored().back().name, "lm_head.weight");
  EXPECT_EQ(model.layout.stored().back().parameters, (std::vector<std::string>{"embed.tokens"}));
  EXPECT_EQ(model.layout.holder("embed.tokens").name, "transformer.wte.weight");

  contents.tensors["lm_head.weight"].bytes[5] ^= std::byte{1};
  EXPECT_TRUE(says(problem_of(contents), "two different tensors"));
  contents.config["tie_word_embeddings"] = false;
  EXPECT_FALSE(reopened(contents).architecture.tied);
}

TEST_F(Variant, NamesWithoutPrefix) {
  Contents contents = contents_of("gpt2");
  contents.rename([](const std::string& name) { return name.substr(sizeof "transformer." - 1); });
  const Model model = reopened(contents);
  EXPECT_EQ(model.layout.holder("embed.tokens").name, "wte.weight");
  EXPECT_EQ(read_parameters(model), read_parameters(Model::open(fixture("gpt2"))));
}

TEST_F(Variant, OldNamesOfBert) {
  Contents contents = contents_of("bert-mlm");
  contents.tensors["cls.predictions.decoder.bias"] = contents.tensors.at("cls.predictions.bias");
  contents.rename([](std::string name) {
    if (const auto at = name.find("LayerNorm.weight"); at != std::string::npos) {
      name.replace(at, std::string::npos, "LayerNorm.gamma");
    }
    if (const auto at = name.find("LayerNorm.bias"); at != std::string::npos) {
      name.replace(at, std::string::npos, "LayerNorm.beta");
    }
    return name;
  });
  const Model model = reopened(contents);
  EXPECT_TRUE(model.unclaimed.empty());
  EXPECT_EQ(model.layout.holder("head.norm.gain").name,
            "cls.predictions.transform.LayerNorm.gamma");
  EXPECT_EQ(read_parameters(model), read_parameters(Model::open(fixture("bert-mlm"))));
}

TEST_F(Variant, MasksAndTablesAreUnclaimed) {
  Contents contents = contents_of("gpt_neox");
  contents.tensors["gpt_neox.layers.0.attention.rotary_emb.inv_freq"] = {
      DType::f32, {2}, std::vector<std::byte>(8)};
  EXPECT_EQ(reopened(contents).unclaimed,
            (std::vector<std::string>{"gpt_neox.layers.0.attention.rotary_emb.inv_freq"}));
}

// Our own family: canonical names and orientation.
TEST_F(Variant, EveryModelCanBeWrittenAsRegauge) {
  for (const auto& name : testing::fixture_names()) {
    const Model model = Model::open(fixture(name));
    const Parameters<double> parameters = read_parameters(model);
    Contents contents;
    contents.config =
        config_for("regauge", Format::safetensors, model.architecture, model.checkpoint.config());
    const Layout layout = layout_for("regauge", Format::safetensors, model.architecture);
    for (const auto& stored : layout.stored()) {
      const Matrix<double>& value = parameters.at(stored.name);
      Tensor tensor{DType::f64, stored.shape, {}};
      const auto bytes =
          std::as_bytes(std::span(value.data(), static_cast<std::size_t>(value.size())));
      tensor.bytes.assign(bytes.begin(), bytes.end());
      contents.tensors[stored.name] = tensor;
    }
    const Model again = reopened(contents);
    EXPECT_EQ(again.layout.family(), "regauge");
    EXPECT_EQ(again.architecture, model.architecture) << name;
    EXPECT_EQ(read_parameters(again), parameters) << name;
  }
}

TEST_F(Variant, ABareFileAsksForItsFolder) {
  const auto file = folder() / "model.safetensors";
  std::filesystem::create_directories(folder());
  std::filesystem::copy_file(fixture("llama") / "model.safetensors", file);
  try {
    Model::open(file);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_TRUE(says(error.what(), "config.json")) << error.what();
  }
}

}  // namespace
}  // namespace regauge
