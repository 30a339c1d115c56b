#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>

#include "fixture.h"
#include "regauge/arch/apart.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using testing::fixture;

class EveryFixture : public ::testing::TestWithParam<std::string> {};

// Each stored tensor, taken apart into parameters and put together again, has the bytes that it
// had.
void expect_identical_after_round_trip(const Model& model) {
  for (const auto& stored : model.layout.stored()) {
    const StoredTensor& tensor = model.checkpoint.at(stored.name);
    const auto bytes = model.checkpoint.bytes(tensor);
    std::vector<double> again(static_cast<std::size_t>(tensor.elements()), -77);
    std::int64_t in_front = tensor.elements();  // rows that only padding reads
    for (const auto& parameter : stored.parameters) {
      model.layout.insert<double>(parameter, model.read<double>(parameter), stored, again);
      for (const auto& piece : model.layout.pieces(parameter)) {
        if (piece.holder == stored.name) in_front -= piece.rows * piece.cols;
      }
    }
    std::ranges::copy_n(testing::values(model.checkpoint, stored.name).begin(), in_front,
                        again.begin());
    std::vector<std::byte> encoded(bytes.size());
    encode<double>(tensor.dtype, again, encoded);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), encoded.begin(), encoded.end()))
        << stored.name;
  }
}

TEST_P(EveryFixture, ReadsAndWritesBackTheSameBytes) {
  const Model model = Model::open(fixture(GetParam()));
  expect_identical_after_round_trip(model);
}

TEST_P(EveryFixture, HoldsEveryParameterInItsShape) {
  const Model model = Model::open(fixture(GetParam()));
  const Parameters<double> parameters = read_parameters(model);
  const auto specs = parameter_specs(model.architecture);
  EXPECT_EQ(parameters.size(), specs.size());
  for (const auto& spec : specs) {
    EXPECT_EQ(parameters.at(spec.name).rows(), spec.rows) << spec.name;
    EXPECT_EQ(parameters.at(spec.name).cols(), spec.cols) << spec.name;
    EXPECT_EQ(model.read<float>(spec.name).cols(), spec.cols) << spec.name;
  }
}

TEST_P(EveryFixture, ClaimsAll) {
  const Model model = Model::open(fixture(GetParam()));
  const auto apart = apart_of(model).tensors;
  for (const auto& name : model.unclaimed) {
    const bool of_others = std::ranges::find(apart, name) != apart.end();
    EXPECT_TRUE(of_others || name == "rope_freqs.weight" || name == "embeddings.mask_token" ||
                name == "embeddings.register_tokens" || name.ends_with("masked_spec_embed") ||
                name.ends_with("rotary_embeddings.inv_freq"))
        << name;
  }
}

TEST_P(EveryFixture, LayoutForGivesTheSameTensors) {
  const Model model = Model::open(fixture(GetParam()));
  const Layout fresh = layout_for(model.layout.family(), model.layout.format(), model.architecture,
                                  model.checkpoint.config());
  ASSERT_EQ(fresh.stored().size(), model.layout.stored().size());
  for (std::size_t i = 0; i < fresh.stored().size(); ++i) {
    EXPECT_EQ(fresh.stored()[i].shape, model.layout.stored()[i].shape);
    EXPECT_EQ(fresh.stored()[i].parameters, model.layout.stored()[i].parameters);
    // transformers writes ESM's norms by their names of long ago.
    std::string name = model.layout.stored()[i].name;
    for (const auto& [old, now] : {std::pair{".gamma", ".weight"}, std::pair{".beta", ".bias"}}) {
      if (name.ends_with(old)) name.replace(name.rfind('.'), std::string::npos, now);
    }
    EXPECT_TRUE(fresh.stored()[i].name.ends_with(name)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryFixture, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

class EveryPair : public ::testing::TestWithParam<std::string> {};

// llama.cpp's converter permutes, transposes and shifts; the canonical form undoes all of it.
TEST_P(EveryPair, GgufIsTheSameModelAsSafetensors) {
  const Model a = Model::open(fixture(GetParam()));
  const Model b = Model::open(fixture(GetParam() + "-gguf"));
  const Parameters<double> of_a = read_parameters(a);
  const Parameters<double> of_b = read_parameters(b);
  ASSERT_EQ(of_a.size(), of_b.size());
  for (const auto& [name, value] : of_a) EXPECT_EQ(value, of_b.at(name)) << name;
  Architecture expected = a.architecture;
  expected.kinds[0].attention.window = 0;  // llama.cpp drops Mistral's window
  ASSERT_EQ(expected.kinds[0].attention.rotary_frequencies.size(),
            b.architecture.kinds[0].attention.rotary_frequencies.size());
  for (std::size_t i = 0; i < expected.kinds[0].attention.rotary_frequencies.size(); ++i) {
    // Divisors of frequencies are 32-bit floats in GGUF.
    EXPECT_NEAR(b.architecture.kinds[0].attention.rotary_frequencies[i] /
                    expected.kinds[0].attention.rotary_frequencies[i],
                1, 5e-7);
  }
  expected.kinds[0].attention.rotary_frequencies =
      b.architecture.kinds[0].attention.rotary_frequencies;
  EXPECT_EQ(to_json(expected), to_json(b.architecture));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryPair,
                         ::testing::Values("llama", "llama-tied-biased", "mistral", "qwen2",
                                           "qwen3", "qwen3_moe", "gemma", "gpt2"),
                         testing::test_name);

TEST(Model, HasSeveralOutputs) {
  const auto outputs = [](const char* name) {
    return Model::open(fixture(name)).architecture.output.list();
  };
  EXPECT_EQ(outputs("bert"), (std::vector{Output::hidden, Output::pooled}));
  EXPECT_EQ(outputs("bert-mlm"), std::vector{Output::tokens});
  EXPECT_EQ(outputs("bert-pretraining"),
            (std::vector{Output::tokens, Output::classes, Output::pooled}));
  EXPECT_EQ(outputs("bert-classes"), std::vector{Output::classes});
  const Model words = Model::open(fixture("bert-words"));
  EXPECT_TRUE(words.architecture.classes_everywhere);
  EXPECT_EQ(words.architecture.classes, 5);
  const Model model = Model::open(fixture("bert"));
  EXPECT_EQ(model.layout.holder("embed.tokens").name, "embeddings.word_embeddings.weight");
}

TEST(Model, FusedTensorsHoldThreeParameters) {
  const Model model = Model::open(fixture("gpt2"));
  const auto& stored = model.layout.holder("layers.1.attn.k.weight");
  EXPECT_EQ(stored.name, "transformer.h.1.attn.c_attn.weight");
  EXPECT_EQ(stored.parameters.size(), 3u);
  EXPECT_THROW(model.layout.holder("layers.7.attn.k.weight"), UsageError);
}

TEST(Model, RealLlama2cFile) {
  const char* shared = std::getenv("REGAUGE_SHARED");
  const std::filesystem::path folder =
      shared != nullptr ? std::filesystem::path(shared)
                        : std::filesystem::path(REGAUGE_FIXTURES) / ".." / ".." / ".." / "shared";
  const auto file = folder / "data" / "llama2c-stories260K" / "stories260K.bin";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no stories260K.bin; set REGAUGE_SHARED";
  const Model model = Model::open(file);
  EXPECT_EQ(model.layout.family(), "llama");
  EXPECT_EQ(model.architecture.width, 64);
  EXPECT_EQ(model.architecture.kinds[0].attention.heads, 8);
  EXPECT_EQ(model.architecture.kinds[0].attention.kv_heads, 4);
  EXPECT_EQ(model.architecture.vocabulary, 512);
  EXPECT_TRUE(model.architecture.tied);
  EXPECT_EQ(model.unclaimed, (std::vector<std::string>{"freq_cis_real", "freq_cis_imag"}));
  expect_identical_after_round_trip(model);
}

}  // namespace
}  // namespace regauge
