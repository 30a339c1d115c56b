
#include "arch/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fixture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;
using testing::fixture;
using testing::says;

class NoTensors : public TensorSource {
 public:
  const std::vector<std::int64_t>* shape(std::string_view) const override { return nullptr; }
  std::vector<double> values(std::string_view) const override { return {}; }
};

Architecture read(const Json& config) {
  return read_config(recognise(config, Format::safetensors), config, NoTensors()).architecture;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

Json llama_config() {
  return {{"model_type", "llama"},
          {"hidden_size", 20},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"intermediate_size", 27},
          {"vocab_size", 61},
          {"head_dim", 8},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 48}};
}

TEST(Config, DefaultsOfLlama) {
  const Architecture a = read(llama_config());
  EXPECT_EQ(a.kinds[0].attention.kv_heads, 4);
  EXPECT_EQ(a.kinds[0].attention.qk_width, 8);
  EXPECT_EQ(a.kinds[0].ffn.activation, Activation::silu);
  EXPECT_FALSE(a.tied);
  EXPECT_FALSE(a.kinds[0].attention.biases.q);
  EXPECT_EQ(a.kinds[0].attention.rotary_dims, 8);
  EXPECT_EQ(a.kinds[0].attention.rotary_frequencies, rotary_frequencies(8, 10000));
  EXPECT_DOUBLE_EQ(a.kinds[0].attention.scale, 1 / std::sqrt(8.0));
}

TEST(Config, BothSpellingsOfRopeMeanTheSame) {
  Json old_way = llama_config();
  old_way["rope_theta"] = 500000.0;
  Json new_way = llama_config();
  new_way["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(read(old_way), read(new_way));
  EXPECT_NE(read(old_way), read(llama_config()));

  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  old_way["rope_scaling"] = scaling;
  old_way["rope_scaling"]["rope_type"] = "llama3";
  new_way["rope_parameters"].update(scaling);
  new_way["rope_parameters"]["rope_type"] = "llama3";
  EXPECT_EQ(read(old_way), read(new_way));

  old_way["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(read(old_way).kinds[0].attention.rotary_frequencies[0], 0.25);
}

// Values of transformers' own llama3 rule for theta 500000, factor 8, factors 1 and 4, 32
// positions.
TEST(Config, Llama3Frequencies) {
  const auto f =
      Model::open(fixture("llama-tied-biased")).architecture.kinds[0].attention.rotary_frequencies;
  ASSERT_EQ(f.size(), 4u);
  EXPECT_EQ(f[0], 1);
  EXPECT_NEAR(f[1], std::pow(500.0, -0.25), 1e-15);
  EXPECT_NEAR(f[2], 0.0163135789, 1e-8);
  EXPECT_NEAR(f[3], std::pow(500.0, -0.75) / 8, 1e-15);
}

TEST(Config, RefusesRotaryTypesThatDependOnLength) {
  for (const char* type : {"yarn", "dynamic", "longrope"}) {
    Json config = llama_config();
    config["rope_scaling"] = {{"rope_type", type}, {"factor", 4.0}};
    EXPECT_TRUE(says(message_of([&] { read(config); }), type));
  }
}

TEST(Config, RefusesFrequenciesThatAreNoNumbers) {
  Json config = llama_config();
  config["rope_theta"] = -1;
  EXPECT_TRUE(says(message_of([&] { read(config); }), "theta"));
}

TEST(Config, ReportsEveryProblemAtOnce) {
  Json config = llama_config();
  config.erase("hidden_size");
  config["vocab_size"] = "many";
  config["hidden_act"] = "mish";
  config["quantization_config"] = {{"bits", 4}};
  const std::string text = message_of([&] { read(config); });
  for (const char* part : {"hidden_size", "vocab_size", "mish", "quantization_config"}) {
    EXPECT_TRUE(says(text, part)) << text;
  }
}

TEST(Config, RefusesContradictions) {
  const Json config = {{"model_type", "gpt2"}, {"n_embd", 20}, {"hidden_size", 24},
                       {"n_layer", 1},         {"n_head", 4},  {"vocab_size", 9}};
  EXPECT_TRUE(says(message_of([&] { read(config); }), "hidden_size"));
}

TEST(Config, UnknownFamilyIsNamed) {
  const std::string text = message_of([] { read({{"model_type", "lama"}}); });
  EXPECT_TRUE(says(text, "\"lama\""));
  EXPECT_TRUE(says(text, "a name like it: llama"));
  EXPECT_TRUE(says(text, "docs/families.md"));
  EXPECT_FALSE(says(message_of([] { read({{"model_type", "mamba2hybrid"}}); }), "like it"));
}

TEST(Config, MistralsWindow) {
  Json config = llama_config();
  config["model_type"] = "mistral";
  config["num_key_value_heads"] = 2;
  EXPECT_EQ(read(config).kinds[0].attention.window, 4096);  // transformers' default
  config["sliding_window"] = nullptr;
  EXPECT_EQ(read(config).kinds[0].attention.window, 0);
  config["sliding_window"] = 16;
  EXPECT_EQ(read(config).kinds[0].attention.window, 16);
}

TEST(Config, OldSpellingsOfNeoX) {
  Json config = llama_config();
  config["model_type"] = "gpt_neox";
  config.erase("head_dim");
  config["hidden_size"] = 32;
  config["rotary_pct"] = 0.5;
  config["rotary_emb_base"] = 10000;
  config["layer_norm_eps"] = 1e-5;
  const Architecture old_way = read(config);
  EXPECT_EQ(old_way.kinds[0].attention.rotary_dims, 4);
  config.erase("rotary_pct");
  config.erase("rotary_emb_base");
  config["rope_parameters"] = {{"partial_rotary_factor", 0.5}, {"rope_theta", 10000.0}};
  EXPECT_EQ(read(config), old_way);
}

// Published sizes: giant has two thirds of the neurons, to the next multiple of 8, gated.
TEST(Config, OfDinov2) {
  Json config = {{"model_type", "dinov2_with_registers"},
                 {"hidden_size", 1536},
                 {"num_hidden_layers", 40},
                 {"num_attention_heads", 24},
                 {"image_size", 518},
                 {"patch_size", 14},
                 {"use_swiglu_ffn", true}};
  const Architecture giant = read(config);
  EXPECT_EQ(giant.kinds[0].ffn.width, 4096);
  EXPECT_TRUE(giant.kinds[0].ffn.gated && giant.kinds[0].layer_scale);
  EXPECT_EQ(giant.registers, 4);
  EXPECT_EQ(giant.max_positions, 37 * 37 + 1);
  config["hidden_size"] = 1032;  // 4128, 2752
  EXPECT_EQ(read(config).kinds[0].ffn.width, 2752);
  config["hidden_size"] = 1008;  // 4032, 2688
  config["mlp_ratio"] = 2.5;     // 2520, 1680
  EXPECT_EQ(read(config).kinds[0].ffn.width, 1680);
  config["mlp_ratio"] = 2.51;  // 2530, 1686
  EXPECT_EQ(read(config).kinds[0].ffn.width, 1688);
  config["use_swiglu_ffn"] = false;
  EXPECT_EQ(read(config).kinds[0].ffn.width, 2530);
  EXPECT_FALSE(read(config).kinds[0].ffn.gated);
}

class EveryConfig : public ::testing::TestWithParam<std::string> {};

// architecture -> config -> architecture, with the file's own config as base and with none.
TEST_P(EveryConfig, RoundTrip) {
  const Model model = Model::open(fixture(GetParam()));
  const auto& layout = model.layout;
  const Json& own = model.checkpoint.config();
  EXPECT_EQ(config_for(layout.family(), layout.format(), model.architecture, own), own);
  for (const char* needs_its_base : {"llama-tied-biased", "gpt_oss", "deepseek_v2-direct",
                                     "deepseek_v3-yarn", "ministral3", "vit-hidden"}) {
    if (GetParam() == needs_its_base) return;
  }
  const Json fresh = config_for(layout.family(), layout.format(), model.architecture, nullptr);
  EXPECT_FALSE(fresh.empty());
}

TEST_P(EveryConfig, RegaugeSaysEverything) {
  const Architecture architecture = Model::open(fixture(GetParam())).architecture;
  const Json config = config_for("regauge", Format::safetensors, architecture, nullptr);
  EXPECT_EQ(read(Json::parse(config.dump())), architecture);
}

class EveryTied : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryTied, UntyingIsDeclared) {
  Model model = Model::open(fixture(GetParam()));
  ASSERT_TRUE(model.architecture.tied);
  model.architecture.tied = false;
  const Json config = config_for(model.layout.family(), model.layout.format(), model.architecture,
                                 model.checkpoint.config());
  if (model.layout.format() == Format::safetensors) {
    EXPECT_EQ(config.at("tie_word_embeddings"), false);
  }
  EXPECT_NO_THROW(layout_for(model.layout.family(), model.layout.format(), model.architecture,
                             model.checkpoint.config())
                      .holder("head.weight"));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryConfig, ::testing::ValuesIn(testing::fixture_names()),
                         testing::test_name);

INSTANTIATE_TEST_SUITE_P(Fixtures, EveryTied,
                         ::testing::Values("llama-tied-biased", "qwen3", "gemma", "gpt2",
                                           "bert-mlm", "llama-tied-biased-gguf", "qwen3-gguf",
                                           "gemma-gguf", "gpt2-gguf"),
                         testing::test_name);

TEST(ConfigFor, ConvertsLlamaBetweenFormats) {
  const Architecture a = Model::open(fixture("llama-tied-biased")).architecture;
  const Json gguf = config_for("llama", Format::gguf, a, nullptr);
  EXPECT_EQ(gguf.at("llama.block_count"), 2);
  EXPECT_NEAR(gguf.at("llama.rope.freq_base").get<double>(), 500, 1e-9);
  const Layout layout = layout_for("llama", Format::gguf, a);
  ASSERT_EQ(layout.constants().size(), 1u);
  EXPECT_EQ(layout.constants()[0].name, "rope_freqs.weight");
  EXPECT_NEAR(layout.constants()[0].values[3], 8, 1e-9);

  Architecture plain = Model::open(fixture("qwen2")).architecture;
  plain.kinds[0].attention.biases = {};
  plain.kinds[0].ffn.biases = {};
  plain.head_bias = false;
  plain.kinds[0].attention.rotary_frequencies = rotary_frequencies(6, 10000);
  plain.norm_eps = 1e-5;
  EXPECT_EQ(config_for("llama", Format::llama2c, plain, nullptr).at("hidden_dim"), 27);
  EXPECT_EQ(config_for("llama", Format::safetensors, plain, nullptr).at("rope_theta"), 10000.0);
  plain.norm_eps = 1e-6;
  EXPECT_TRUE(
      says(message_of([&] { config_for("llama", Format::llama2c, plain, nullptr); }), "norm_eps"));
}

TEST(ConfigFor, ListsAllThatAFamilyCannotSay) {
  Architecture a = Model::open(fixture("mistral")).architecture;
  a.kinds[0].ffn.activation = Activation::relu;
  a.norm_eps = 1e-3;
  EXPECT_NO_THROW(config_for("mistral", Format::safetensors, a, nullptr));
  const std::string text = message_of([&] { config_for("llama", Format::gguf, a, nullptr); });
  EXPECT_TRUE(says(text, "activation")) << text;
  EXPECT_TRUE(says(text, "attention_window")) << text;
  EXPECT_FALSE(says(text, "norm_eps")) << text;
}

TEST(ConfigFor, KeepsKeysThatAreNotItsBusiness) {
  const Model model = Model::open(fixture("llama"));
  Json base = model.checkpoint.config();
  base["something_else"] = {1, 2, 3};
  Architecture a = model.architecture;
  a.kinds[0].ffn.biases.gate = a.kinds[0].ffn.biases.up = a.kinds[0].ffn.biases.down = true;
  const Json config = config_for("llama", Format::safetensors, a, base);
  EXPECT_EQ(config.at("something_else"), base.at("something_else"));
  EXPECT_EQ(config.at("mlp_bias"), true);
  EXPECT_EQ(config.at("transformers_version"), base.at("transformers_version"));
  a.kinds[0].ffn.biases.gate = false;
  EXPECT_THROW(config_for("llama", Format::safetensors, a, base), UsageError);
}

Json smollm3_config() {
  Json config = llama_config();
  config["model_type"] = "smollm3";
  config["num_hidden_layers"] = 5;
  config["no_rope_layer_interval"] = 2;
  return config;
}

TEST(Config, LayersWithoutPositions) {
  Json config = smollm3_config();
  const auto rotates = [](const Architecture& a) {
    std::vector<bool> result;
    for (std::int64_t n = 0; n < a.layers; ++n) {
      result.push_back(a.layer(n).attention.positions == Positions::rotary);
    }
    return result;
  };
  const Architecture by_period = read(config);
  EXPECT_EQ(rotates(by_period), (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(by_period.kinds.size(), 2u);
  config["no_rope_layers"] = {0, 1, 1, 0, 1};  // a list goes before the period
  EXPECT_EQ(rotates(read(config)), (std::vector<bool>{false, true, true, false, true}));
  config["no_rope_layers"] = {1, 1, 1, 1, 1};
  EXPECT_EQ(read(config).kinds.size(), 1u);
}

// Which layers have experts.
std::vector<bool> sparse_layers(const Architecture& a) {
  std::vector<bool> result;
  for (std::int64_t n = 0; n < a.layers; ++n) result.push_back(a.layer(n).ffn.experts.count > 0);
  return result;
}

Json qwen3_moe_config() {
  Json config = llama_config();
  config["model_type"] = "qwen3_moe";
  config["num_hidden_layers"] = 5;
  config["num_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 3;
  return config;
}

TEST(Config, DenseLayersAmongSparseOnes) {
  Json config = qwen3_moe_config();
  EXPECT_EQ(read(config).kinds.size(), 1u);
  config["decoder_sparse_step"] = 2;
  EXPECT_EQ(sparse_layers(read(config)), (std::vector<bool>{false, true, false, true, false}));
  config["mlp_only_layers"] = {1, 17};  // a layer that is not there changes nothing
  EXPECT_EQ(sparse_layers(read(config)), (std::vector<bool>{false, false, false, true, false}));
  const Architecture mixed = read(config);
  EXPECT_EQ(mixed.layer(0).ffn.width, config.at("intermediate_size"));
  EXPECT_EQ(mixed.layer(3).ffn.width, 3);
  for (const Json& wrong : {Json(0), Json(-1), Json("two")}) {
    config["decoder_sparse_step"] = wrong;
    EXPECT_TRUE(says(message_of([&] { read(config); }), "decoder_sparse_step")) << wrong;
  }
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = 1;
  EXPECT_TRUE(says(message_of([&] { read(config); }), "mlp_only_layers"));
}

TEST(Config, WritesWhichLayersAreDense) {
  Json config = qwen3_moe_config();
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  const Architecture wanted = read(config);
  const Json kept = config_for("qwen3_moe", Format::safetensors, wanted, config);
  EXPECT_EQ(kept.at("decoder_sparse_step"), 2);
  EXPECT_EQ(kept.at("mlp_only_layers"), Json({3}));
  const Json fresh = config_for("qwen3_moe", Format::safetensors, wanted, nullptr);
  EXPECT_EQ(read(fresh), wanted);
  EXPECT_EQ(fresh.at("mlp_only_layers"), Json({0, 2, 3, 4}));
}

// As transformers writes them where a layer has a number of two digits.
TEST(Config, NumbersOfLayersMayBeginWithZeros) {
  std::ifstream file(fixture("gemma4_text") / "config.json");
  Json config = Json::parse(file);
  const Architecture wanted = read(config);
  Json& settings = config.at("per_layer_config");
  settings = {{"01", settings.at("1")}, {"02", settings.at("2")}};
  EXPECT_EQ(read(config), wanted);
  EXPECT_EQ(config_for("gemma4_text", Format::safetensors, wanted, config), config);
  settings["1"] = {{"head_dim", 4}};
  EXPECT_TRUE(says(message_of([&] { read(config); }), "twice"));
}

TEST(Config, AFamilyMayAskForANumberAboveOne) {
  const auto family_of_config = [](const Json& config) {
    return recognise(config, Format::gguf).name;
  };
  Json config = {{"general.architecture", "gemma4"}};
  EXPECT_EQ(family_of_config(config), "gemma4_text");
  config["gemma4.expert_count"] = 0;
  EXPECT_EQ(family_of_config(config), "gemma4_text");
  config["gemma4.expert_count"] = 128;
  EXPECT_EQ(family_of_config(config), "gemma4_text-experts");
}

TEST(Config, WindowsThatBeginAtALayer) {
  Json config = llama_config();
  config["model_type"] = "qwen2";
  config["num_hidden_layers"] = 4;
  config["use_sliding_window"] = true;
  config["sliding_window"] = 3;
  config["max_window_layers"] = 3;
  const auto windows = [](const Architecture& a) {
    std::vector<std::int64_t> result;
    for (std::int64_t n = 0; n < a.layers; ++n) result.push_back(a.layer(n).attention.window);
    return result;
  };
  EXPECT_EQ(windows(read(config)), (std::vector<std::int64_t>{0, 0, 0, 3}));
  config["max_window_layers"] = 0;
  EXPECT_EQ(windows(read(config)), (std::vector<std::int64_t>{3, 3, 3, 3}));
  config.erase("max_window_layers");  // 28
  EXPECT_EQ(windows(read(config)), (std::vector<std::int64_t>{0, 0, 0, 0}));
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};  // a list goes before it
  EXPECT_EQ(windows(read(config)), (std::vector<std::int64_t>{0, 3, 0, 0}));
}

TEST(Config, RefusesPatternsThatDoNotFit) {
  Json config = smollm3_config();
  config["no_rope_layers"] = {0, 1};
  EXPECT_TRUE(says(message_of([&] { read(config); }), "each of the 5 layers"));
  config["no_rope_layers"] = {0, 1, 2, 0, 1};
  EXPECT_TRUE(says(message_of([&] { read(config); }), "known are 1, 0"));
}

TEST(Config, WritesLayersThatDiffer) {
  const Architecture wanted = read(smollm3_config());
  const Json written = config_for("smollm3", Format::safetensors, wanted, nullptr);
  EXPECT_EQ(written.at("no_rope_layers"), Json({1, 0, 1, 0, 1}));
  EXPECT_EQ(read(written), wanted);
  EXPECT_TRUE(says(message_of([&] { config_for("llama", Format::safetensors, wanted, nullptr); }),
                   "cannot say"));
}

TEST(Architecture, KindsSurviveJson) {
  const Architecture a = read(smollm3_config());
  const Json json = to_json(a);
  EXPECT_EQ(json.at("pattern"), Json({0, 1, 0, 1, 0}));
  EXPECT_EQ(architecture_from_json(json), a);
  for (const Json& wrong :
       {Json({0, 1}), Json({1, 0, 1, 0, 1}), Json({0, 2, 0, 2, 0}), Json({0, 0, 0, 0, 0})}) {
    Json other = json;
    other["pattern"] = wrong;
    EXPECT_TRUE(says(message_of([&] { architecture_from_json(other); }), "pattern")) << wrong;
  }
}

TEST(Architecture, DifferencesNameTheLayers) {
  const Architecture a = read(smollm3_config());
  Architecture b = a;
  b.kinds[1].ffn.activation = Activation::relu;
  const auto found = differing_fields(a, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "activation");
  EXPECT_EQ(found[0].where(), "layers 1, 3: ");
  b = a;
  b.norm_eps = 0.5;
  ASSERT_EQ(differing_fields(a, b).size(), 1u);
  EXPECT_EQ(differing_fields(a, b)[0].where(), "");
}

}  // namespace
}  // namespace regauge
