// Every key of a config is read, known to be harmless, or named; two spellings of one setting agree
// or are refused; every tensor that no parameter claims is known to be dead or named.
#include <gtest/gtest.h>

#include <functional>

#include "arch/config.h"
#include "arch/known_keys.h"
#include "fixture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;
using testing::fixture;
using testing::fixture_names;
using testing::says;

class ConfigAlone : public TensorSource {
 public:
  const std::vector<std::int64_t>* shape(std::string_view) const override { return nullptr; }
  std::vector<double> values(std::string_view) const override { return {}; }
};

Declared declared(const Json& config, Format format = Format::safetensors) {
  return read_config(recognise(config, format), config, ConfigAlone());
}

using Named = std::map<std::string, std::string>;

Named named(const Json& config, Format format = Format::safetensors) {
  return declared(config, format).not_understood;
}

std::string refusal(const Json& config, Format format = Format::safetensors) {
  try {
    declared(config, format);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

Json with(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

const Json kLlama = {{"model_type", "llama"},   {"hidden_size", 20},
                     {"num_hidden_layers", 2},  {"num_attention_heads", 4},
                     {"intermediate_size", 27}, {"vocab_size", 61},
                     {"head_dim", 8},           {"max_position_embeddings", 48}};

const Json kNeox = {{"model_type", "gpt_neox"}, {"hidden_size", 32},       {"num_hidden_layers", 2},
                    {"num_attention_heads", 4}, {"intermediate_size", 27}, {"vocab_size", 61}};

const Json kGguf = {
    {"general.architecture", "llama"}, {"llama.embedding_length", 20},
    {"llama.block_count", 2},          {"llama.attention.head_count", 4},
    {"llama.attention.key_length", 8}, {"llama.attention.value_length", 8},
    {"llama.feed_forward_length", 27}, {"llama.vocab_size", 61},
    {"llama.context_length", 48},      {"llama.attention.layer_norm_rms_epsilon", 1e-5}};

class KeysOfFixture : public ::testing::TestWithParam<std::string> {};

TEST_P(KeysOfFixture, IsUnderstoodWhole) {
  EXPECT_EQ(Model::open(fixture(GetParam())).not_understood, Named());
}

INSTANTIATE_TEST_SUITE_P(Keys, KeysOfFixture, ::testing::ValuesIn(fixture_names()),
                         testing::test_name);

TEST(Keys, AnUnknownKeyIsNamedWithItsValue) {
  EXPECT_EQ(named(kLlama), Named());
  EXPECT_EQ(named(with(kLlama, {{"attention_multiplier", 0.5}})),
            (Named{{"attention_multiplier", "0.5"}}));
  EXPECT_EQ(named(with(kLlama, {{"text_config", {{"rope_theta", 3.0}}}})),
            (Named{{"text_config", R"({"rope_theta":3.0})"}}));
}

TEST(Keys, AValueInAnObjectIsNamedByItsPath) {
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 1e4}, {"attention_factor", 2}};
  EXPECT_EQ(named(with(kLlama, {{"rope_parameters", rope}})),
            (Named{{"rope_parameters/attention_factor", "2"}}));
  EXPECT_EQ(named(with(kLlama, {{"rope_parameters",
                                 {{"rope_theta", 1e4}, {"full_attention", Json::object()}}}})),
            (Named{{"rope_parameters/full_attention", "{}"}}));
}

TEST(Keys, AKeyWithASlashIsNoPath) {
  EXPECT_EQ(named(with(kLlama, {{"rope_parameters/factor", 4}})),
            (Named{{"rope_parameters~1factor", "4"}}));
}

TEST(Keys, SomeValuesAreHarmlessAndOthersAreNot) {
  EXPECT_EQ(named(with(kLlama, {{"is_causal", true}, {"pretraining_tp", 1}})), Named());
  EXPECT_EQ(named(with(kLlama, {{"is_causal", false}, {"pretraining_tp", 2}})),
            (Named{{"is_causal", "false"}, {"pretraining_tp", "2"}}));
  // Null is false to the eager attention of transformers, and true to its SDPA.
  EXPECT_EQ(named(with(kLlama, {{"is_causal", nullptr}})), (Named{{"is_causal", "null"}}));
  const Json full = {"full_attention", "full_attention"};
  const Json mixed = {"full_attention", "sliding_attention"};
  EXPECT_EQ(named(with(kLlama, {{"layer_types", full}})), Named());
  EXPECT_EQ(named(with(kLlama, {{"layer_types", mixed}})).size(), 1u);
}

TEST(Keys, BookkeepingIsHarmless) {
  EXPECT_EQ(named(with(kLlama, {{"torch_dtype", "bfloat16"},
                                {"transformers_version", "4.40.0"},
                                {"attention_dropout", 0.1},
                                {"resid_pdrop", 0.1},
                                {"eos_token_id", {1, 2}},
                                {"rope_scaling", nullptr},
                                {"use_cache", true}})),
            Named());
}

TEST(Keys, AnotherFileOfWeightsIsRefused) {
  const auto text = refusal(with(kLlama, {{"transformers_weights", "other.safetensors"}}));
  EXPECT_TRUE(says(text, "other.safetensors")) << text;
}

TEST(Keys, KeysOfGgufThatLlamaCppReadsAreNamed) {
  EXPECT_EQ(named(kGguf, Format::gguf), Named());
  for (const char* key :
       {"llama.logit_scale", "llama.attn_logit_softcapping", "llama.attention.scale",
        "llama.residual_scale", "llama.embedding_scale", "llama.attention.clamp_kqv",
        "llama.rope.scaling.attn_factor", "llama.rope.scaling.yarn_ext_factor",
        "llama.rope.freq_base_swa", "llama.attention.temperature_scale"}) {
    EXPECT_EQ(named(with(kGguf, {{key, 0.5}}), Format::gguf), (Named{{key, "0.5"}}));
  }
  const Json encoder = with(kGguf, {{"llama.attention.causal", false}});
  EXPECT_EQ(named(encoder, Format::gguf), (Named{{"llama.attention.causal", "false"}}));
  const Json plain = with(kGguf, {{"llama.attention.causal", true},
                                  {"tokenizer.ggml.tokens", {"a", "b"}},
                                  {"general.name", "x"},
                                  {"split.count", 1}});
  EXPECT_EQ(named(plain, Format::gguf), Named());
}

TEST(Keys, AFactorOfGgufNeedsNoType) {
  const auto frequency = [](const Json& changes) {
    return declared(with(kGguf, changes), Format::gguf)
        .architecture.kinds[0]
        .attention.rotary_frequencies[0];
  };
  EXPECT_EQ(frequency(Json::object()), 1);
  EXPECT_EQ(frequency({{"llama.rope.scaling.factor", 4.0}}), 0.25);
  EXPECT_EQ(frequency({{"llama.rope.scale_linear", 4.0}}), 0.25);
  EXPECT_EQ(frequency({{"llama.rope.scaling.factor", 0.0}}), 1);
  EXPECT_EQ(frequency({{"llama.rope.scaling.factor", 4.0}, {"llama.rope.scaling.type", "none"}}),
            1);
  EXPECT_TRUE(says(
      refusal(with(kGguf, {{"llama.rope.scaling.factor", 4.0}, {"llama.rope.scale_linear", 2.0}}),
              Format::gguf),
      "llama.cpp takes"));
}

// Each with two settings, of which the error names both.
TEST(Spellings, ThatDisagreeAreRefused) {
  struct Case {
    Json config;
    const char* first;
    const char* second;
  };
  const Json linear = {{"rope_type", "linear"}, {"factor", 4.0}};
  const Json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const std::vector<Case> cases = {
      {with(kLlama, {{"rope_theta", 500.0}, {"rope_parameters", plain}}), "'rope_theta' says 500.0",
       "'rope_parameters/rope_theta' says 10000.0"},
      {with(kLlama, {{"rope_scaling", linear}, {"rope_parameters", plain}}),
       "'rope_scaling/rope_type' says \"linear\"", "'rope_parameters/rope_type' says \"default\""},
      {with(kLlama, {{"rope_scaling", {{"rope_type", "default"}, {"type", "linear"}}}}),
       "'rope_scaling/rope_type'", "'rope_scaling/type'"},
      {with(kLlama, {{"rope_parameters", {{"rope_type", "default"}, {"type", "linear"}}}}),
       "'rope_parameters/rope_type'", "'rope_parameters/type'"},
      // The object that wins drops the theta of the other.
      {with(kLlama, {{"rope_scaling", {{"rope_type", "default"}}},
                     {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}}),
       "'rope_parameters/rope_theta' is 500.0", "'rope_scaling'"},
      {with(kNeox, {{"rotary_pct", 0.25}, {"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
       "'rotary_pct'", "'rope_parameters/partial_rotary_factor'"},
      {with(kNeox, {{"rotary_emb_base", 500}, {"rope_parameters", plain}}), "'rotary_emb_base'",
       "'rope_parameters/rope_theta'"},
      {with(kNeox, {{"rotary_emb_base", 10000}, {"rope_theta", 500}}), "'rope_theta' says 500",
       "10000"},
      {with(kNeox, {{"rotary_pct", 0.25}, {"partial_rotary_factor", 0.5}}),
       "'partial_rotary_factor' says 0.5", "0.25"},
      {with(kLlama, {{"original_max_position_embeddings", 8},
                     {"rope_scaling",
                      {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 64}}}}),
       "'rope_scaling/original_max_position_embeddings'", "'original_max_position_embeddings'"},
  };
  for (const auto& [config, first, second] : cases) {
    const std::string text = refusal(config);
    EXPECT_TRUE(says(text, first) && says(text, second) && says(text, "transformers")) << text;
  }
}

TEST(Spellings, ThatAgreeAreRead) {
  const Json rope = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 500.0}};
  const Json one = with(kLlama, {{"rope_parameters", rope}});
  const Json old = with(
      kLlama, {{"rope_theta", 500.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}});
  const Json both =
      with(kLlama, {{"rope_theta", 500}, {"rope_parameters", rope}, {"rope_scaling", rope}});
  EXPECT_EQ(declared(one).architecture, declared(both).architecture);
  EXPECT_EQ(declared(one).architecture, declared(old).architecture);
  // As transformers 4.50 wrote it.
  const Json neox = with(kNeox, {{"rotary_emb_base", 500},
                                 {"rope_theta", 500},
                                 {"rotary_pct", 0.5},
                                 {"partial_rotary_factor", 0.5}});
  EXPECT_EQ(declared(neox).architecture.kinds[0].attention.rotary_dims, 4);
  EXPECT_EQ(named(neox), Named());
}

TEST(Spellings, TheWidthOfANeoxHeadFollowsFromTheOthers) {
  EXPECT_EQ(refusal(with(kNeox, {{"head_dim", 8}})), "");
  EXPECT_TRUE(says(refusal(with(kNeox, {{"head_dim", 4}})), "head_dim"));
}

// A config with another scaling goes where the settings are: a rope_scaling beside rope_parameters
// would replace them.
TEST(Spellings, AreWrittenWhereTheyStand) {
  const Json rope = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const Json config = with(kLlama, {{"rope_parameters", rope}});
  Architecture wanted = declared(config).architecture;
  for (double& frequency : wanted.kinds[0].attention.rotary_frequencies) frequency /= 2;
  const Json written = config_for("llama", Format::safetensors, wanted, config);
  EXPECT_FALSE(written.contains("rope_scaling")) << written.dump();
  EXPECT_EQ(written["rope_parameters"]["factor"], 2);
}

TEST(HarmlessKeys, TheFileIsChecked) {
  const auto problem = [](const char* text) -> std::string {
    try {
      parse_known_keys("keys.json", text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem(R"({"gguf": {"harmless": {"a": true, "b": [1, null]}}})"), "");
  EXPECT_TRUE(says(problem("[]"), "keys.json"));
  EXPECT_TRUE(says(problem(R"({"gguf": {"harmles": {}}})"), "gguf"));
  EXPECT_TRUE(says(problem(R"({"gguf": {"harmless": {"a": 1}}})"), "'a'"));
  EXPECT_TRUE(says(problem(R"({"gguf": {"refused": {"a": 1}}})"), "'a'"));
}

}  // namespace
}  // namespace regauge
