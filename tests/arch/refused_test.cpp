// Models of a known family that compute something for which there is no notion yet: each is
// refused, and by the key that says so.
#include <gtest/gtest.h>

#include "arch/config.h"
#include "fixture.h"
#include "regauge/base/error.h"

namespace regauge {
namespace {

using Json = nlohmann::json;

class FileWithout : public TensorSource {
 public:
  const std::vector<std::int64_t>* shape(std::string_view) const override { return nullptr; }
  std::vector<double> values(std::string_view) const override { return {}; }
};

std::string refusal_of(const std::string& fixture, const char* changes) {
  Json config = Checkpoint::open(testing::fixture(fixture)).config();
  config.merge_patch(Json::parse(changes));
  try {
    read_config(recognise(config, Format::safetensors), config, FileWithout());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

struct Near {
  const char* fixture;
  const char* changes;  // null removes a key
  const char* named;
};

constexpr Near kNear[] = {
    {"phi3", R"({"rope_parameters": {"rope_type": "longrope", "long_factor": [1, 2]}})",
     "longrope"},
    {"phi3", R"({"rope_parameters": null, "rope_scaling": {"type": "su"}})", "'su'"},
    {"glm", R"({"rope_parameters": {"rope_type": "yarn", "factor": 4}})", "yarn"},
    {"seed_oss", R"({"rope_parameters": {"rope_type": "dynamic", "factor": 4}})", "dynamic"},
    {"mistral", R"({"layer_types": ["sliding_attention", "full_attention"]})", "layer_types"},
    {"ministral", R"({"layer_types": ["linear_attention", "full_attention"]})", "linear_attention"},
    {"qwen2-sliding", R"({"layer_types": null, "max_window_layers": -1})", "max_window_layers"},
    {"qwen3_moe", R"({"decoder_sparse_step": 0})", "decoder_sparse_step"},
    {"qwen2-sliding", R"({"use_sliding_window": false})", "layer_types"},
    {"qwen3-sliding", R"({"layer_types": ["chunked_attention", "full_attention"]})", "chunked"},
    {"exaone4", R"({"layer_types": ["chunked_attention", "full_attention", "full_attention"]})",
     "chunked"},
    {"exaone4", R"({"layer_types": null, "sliding_window_pattern": "LLLG"})",
     "sliding_window_pattern"},
    {"cohere2", R"({"head_dim": 6})", "head_dim"},
    {"deepseek_v2", R"({"topk_method": "noaux_tc"})", "topk_method"},
    {"deepseek_v2", R"({"mlp_bias": true})", "mlp_bias"},
    {"ernie4_5_moe", R"({"use_bias": true})", "use_bias"},
    {"ernie4_5_moe", R"({"moe_layer_interval": 2})", "moe_layer_interval"},
    {"ernie4_5_moe", R"({"moe_layer_end_index": 0})", "moe_layer_end_index"},
    {"minimax_m2", R"({"rotary_dim": null})", "partial_rotary_factor"},
    {"stablelm", R"({"qk_layernorm": true})", "qk_layernorm"},
    {"opt", R"({"do_layer_norm_before": false})", "do_layer_norm_before"},
    {"opt", R"({"word_embed_proj_dim": 8})", "word_embed_proj_dim"},
    {"opt", R"({"_remove_final_layer_norm": true})", "_remove_final_layer_norm"},
    {"bloom", R"({"n_head": 3})", "n_head"},
    {"bloom", R"({"apply_residual_connection_post_layernorm": true})", "post_layernorm"},
    {"mpt", R"({"n_heads": 3})", "n_heads"},
    {"mpt", R"({"attn_config": {"clip_qkv": 6}})", "clip_qkv"},
    {"mpt", R"({"attn_config": {"alibi": false}})", "alibi"},
    {"mpt", R"({"attn_config": {"qk_ln": true}})", "qk_ln"},
    {"falcon", R"({"alibi": true})", "alibi"},
    {"falcon", R"({"parallel_attn": false})", "parallel_attn"},
    {"falcon", R"({"multi_query": false})", "multi_query"},
    {"gpt_bigcode", R"({"multi_query": false})", "multi_query"},
    {"roberta", R"({"position_embedding_type": "relative_key"})", "relative_key"},
    {"roberta", R"({"hidden_act": "relu"})", "hidden_act"},  // its head has gelu all the same
    {"roberta", R"({"is_decoder": true})", "is_decoder"},
    {"roberta", R"({"architectures": ["RobertaForMultipleChoice"]})", "architectures"},
    {"mpnet", R"({"relative_attention_num_buckets": 40})", "relative_attention_num_buckets"},
    {"mpnet", R"({"architectures": ["MPNetForMultipleChoice"]})", "architectures"},
    {"roberta-prelayernorm", R"({"hidden_act": "relu"})", "hidden_act"},
    {"xlm-roberta-xl", R"({"is_decoder": true})", "is_decoder"},
    {"megatron-bert", R"({"architectures": ["MegatronBertForCausalLM"]})", "architectures"},
    {"distilbert", R"({"architectures": ["DistilBertForMultipleChoice"]})", "architectures"},
    {"t5", R"({"architectures": ["T5ForSequenceClassification"]})", "architectures"},
    {"t5", R"({"feed_forward_proj": "gated-gelu_10"})", "feed_forward_proj"},
    {"t5", R"({"is_gated_act": false})", "is_gated_act"},
    {"t5", R"({"num_layers": 0})", "encoder"},
    {"t5", R"({"is_encoder_decoder": false})", "is_encoder_decoder"},
    {"bart", R"({"architectures": ["BartModel"]})", "architectures"},
    {"bart", R"({"architectures": ["BartForSequenceClassification"]})", "architectures"},
    {"bart", R"({"tie_word_embeddings": false})", "tie_word_embeddings"},
    {"bart", R"({"is_encoder_decoder": false})", "is_encoder_decoder"},
    {"marian", R"({"decoder_vocab_size": 60})", "decoder_vocab_size"},
    {"m2m_100", R"({"decoder_layers": 0})", "encoder"},
    {"whisper", R"({"architectures": ["WhisperModel"]})", "architectures"},
    {"whisper", R"({"tie_word_embeddings": false})", "tie_word_embeddings"},
    {"whisper", R"({"decoder_layers": 0})", "encoder"},
    {"wav2vec2", R"({"architectures": ["Wav2Vec2ForSequenceClassification"]})", "architectures"},
    {"wav2vec2", R"({"feat_extract_activation": "relu"})", "feat_extract_activation"},
    {"wav2vec2", R"({"conv_kernel": [5, 3]})", "conv_kernel"},
    {"wav2vec2", R"({"conv_bias": true})", "bias"},
    {"wav2vec2", R"({"num_conv_pos_embedding_groups": 3})", "positional_groups"},
    {"wav2vec2-stable", R"({"adapter_attn_dim": 4})", "adapter_attn_dim"},
    {"wav2vec2", R"({"add_adapter": true})", "add_adapter"},
    {"hubert", R"({"conv_pos_batch_norm": true})", "conv_pos_batch_norm"},
    {"electra", R"({"architectures": ["ElectraForMultipleChoice"]})", "architectures"},
    {"electra-discriminator", R"({"embedding_size": 8})", "embedding_size"},
    {"electra", R"({"embedding_size": 8})", "embedding_size"},
    {"eurobert", R"({"architectures": ["EuroBertForTokenClassification"]})", "architectures"},
    {"nomic_bert", R"({"head_dim": 8})", "head_dim"},
    {"gte", R"({"rope_parameters": {"rope_type": "dynamic", "factor": 2}})", "dynamic"},
    {"dinov2", R"({"architectures": ["Dinov2ForImageClassification"]})", "architectures"},
    {"dinov2", R"({"architectures": ["Dinov2Backbone"]})", "architectures"},
    {"dinov2", R"({"image_size": 13})", "max_positions"},
    {"dinov3_vit", R"({"architectures": ["DINOv3ViTBackbone"]})", "architectures"},
    {"dinov3_vit", R"({"num_attention_heads": 8})", "4 divides"},
    {"deit", R"({"architectures": ["DeiTForMaskedImageModeling"]})", "architectures"},
    {"beit", R"({"architectures": ["BeitModel"]})", "mean_position"},
    {"beit", R"({"use_shared_relative_position_bias": true})", "use_relative_position_bias"},
    {"beit", R"({"layer_scale_init_value": 0.3})", "layer_scale_init_value"},
    {"beit-absolute", R"({"use_relative_position_bias": true})", "use_relative_position_bias"},
    {"modernbert", R"({"hidden_activation": "relu"})", "hidden_activation"},
    {"modernbert", R"({"classifier_activation": "silu"})", "classifier_activation"},
    {"modernbert", R"({"decoder_bias": false})", "decoder_bias"},
    {"modernbert", R"({"architectures": ["ModernBertForMultipleChoice"]})", "architectures"},
    {"esm", R"({"position_embedding_type": "absolute"})", "position_embedding_type"},
    {"esm", R"({"position_embedding_type": null})", "position_embedding_type"},
    {"esm", R"({"is_folding_model": true})", "is_folding_model"},
    {"albert", R"({"inner_group_num": 2})", "inner_group_num"},
    {"albert", R"({"num_hidden_layers": 1})", "passes"},
    {"esm-dropout", R"({"emb_layer_norm_before": true})", "dropped_token"},
    {"esm-dropout", R"({"mask_token_id": null})", "mask_token_id"},
    {"esm-dropout", R"({"mask_token_id": 31})", "dropped_token"},
    {"llava", R"({"text_config": {"model_type": "phi3"}})", "model_type"},
    {"llava", R"({"architectures": ["LlavaModel"]})", "architectures"},
    {"gemma4_text-tables", R"({"num_kv_shared_layers": 4})", "shares_keys"},
    {"gemma4_text-tables", R"({"num_kv_shared_layers": 5})", "num_kv_shared_layers"},
    {"gemma4_text-tables", R"({"num_kv_shared_layers": 3})", "shares_keys"},
    {"gemma4_text", R"({"enable_moe_block": true})", "num_experts"},
    {"gemma4_text-experts", R"({"top_k_experts": 1})", "active"},
    {"gemma4_text-experts", R"({"hidden_size_per_layer_input": 4})", "hidden_size_per_layer_input"},
    {"gemma4_text-experts", R"({"num_kv_shared_layers": 1})", "num_kv_shared_layers"},
    {"gemma4_text", R"({"use_bidirectional_attention": "all"})", "use_bidirectional_attention"},
    {"gemma4_text", R"({"attention_bias": true})", "attention_bias"},
    {"gemma4_text", R"({"per_layer_config": {"1": {"head_dim": 4}}})", "per_layer_config/2"},
    {"gemma4_text", R"({"per_layer_config": {"0": {"head_dim": 4}}})", "per_layer_config/0"},
    {"gemma4_text", R"({"per_layer_config": {"2": {"sliding_window": 4}}})", "per_layer_config/2"},
    {"gemma4_text",
     R"({"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})",
     "the last layer"},
    {"gemma4_text",
     R"({"rope_parameters": {"full_attention": {"rope_type": "proportional", "factor": 0}}})",
     "proportional"},
    {"gemma3-vision", R"({"use_bidirectional_attention": true})", "use_bidirectional_attention"},
    {"llava", R"({"quantization_config": {"bits": 4}})", "quantization_config"},
    {"dinov2_with_registers-swiglu",
     R"({"architectures": ["Dinov2WithRegistersForImageClassification"]})", "architectures"},
    {"jina_embeddings_v3", R"({"quantization_config": {"bits": 4}})", "quantization_config"},
};

TEST(Refused, ByTheKeyThatAsksForMore) {
  for (const Near& near : kNear) {
    EXPECT_EQ(refusal_of(near.fixture, "{}"), "") << near.fixture;
    const std::string text = refusal_of(near.fixture, near.changes);
    EXPECT_TRUE(testing::says(text, near.named)) << near.changes << ": '" << text << "'";
  }
}

// Convolutions beside what they were not verified with.
TEST(Refused, WhatConvolutionsAreNotUnderstoodWith) {
  const auto problem = [](const char* fixture, void (*change)(Architecture&)) {
    Architecture a = Model::open(testing::fixture(fixture)).architecture;
    change(a);
    std::string all;
    for (const auto& each : problems_of(a)) all += each + "\n";
    return all;
  };
  for (const auto change :
       {+[](Architecture& a) { a.convolutions.clear(); },
        +[](Architecture& a) { a.convolutions.back().channels += 1; },
        +[](Architecture& a) { a.convolutions.front().stride = 0; },
        +[](Architecture& a) { a.convolutions.front().padding = 3; },
        +[](Architecture& a) { a.input_width = 0; }, +[](Architecture& a) { a.norm_eps = 0; },
        +[](Architecture& a) { a.tied = false; }, +[](Architecture& a) { a.embedding_norm = true; },
        +[](Architecture& a) { a.input_norm = true; },
        +[](Architecture& a) { a.encoder_positions = -1; },
        +[](Architecture& a) { a.position_table = PositionTable::none; }}) {
    EXPECT_NE(problem("whisper", change), "");
  }
  for (const auto change : {+[](Architecture& a) { a.positional_kernel = 0; },
                            +[](Architecture& a) { a.positional_groups = 0; },
                            +[](Architecture& a) { a.positional_groups = 1; },
                            +[](Architecture& a) { a.embedding_norm = false; },
                            +[](Architecture& a) { a.class_token = true; },
                            +[](Architecture& a) { a.norm_bias = false; },
                            +[](Architecture& a) { a.input_bias = false; },
                            +[](Architecture& a) { a.convolutions.front().bias = true; }}) {
    EXPECT_NE(problem("wav2vec2", change), "");
  }
  EXPECT_NE(problem("bart", [](Architecture& a) { a.input_width = 3; }), "");
  EXPECT_NE(problem("bart", [](Architecture& a) { a.encoder_positions = 3; }), "");
}

// Layer scales and registers beside what they were not verified with.
TEST(Refused, WhatLayerScalesAndRegistersAreNotUnderstoodWith) {
  const auto problem = [](const char* fixture, void (*change)(Architecture&)) {
    Architecture a = Model::open(testing::fixture(fixture)).architecture;
    change(a);
    std::string all;
    for (const auto& each : problems_of(a)) all += each + "\n";
    return all;
  };
  const auto scaled = [](Architecture& a) { a.kinds[0].layer_scale = true; };
  EXPECT_EQ(problem("llama", scaled), "");
  for (const char* other : {"bert", "gemma2", "olmo2", "phi", "t5", "mixtral", "deepseek_v3"}) {
    EXPECT_TRUE(testing::says(problem(other, scaled), "layer_scale")) << other;
  }
  const auto with_registers = [](Architecture& a) { a.registers = 2; };
  EXPECT_EQ(problem("vit", with_registers), "");
  EXPECT_TRUE(testing::says(problem("gpt2", with_registers), "registers"));
  for (const auto change : {+[](Architecture& a) { a.class_token = false; },
                            +[](Architecture& a) { a.embedding_norm = true; },
                            +[](Architecture& a) { a.registers = -1; },
                            +[](Architecture& a) {
                              a.causal = true;
                              a.kinds[0].attention.window = 3;
                            },
                            +[](Architecture& a) { a.position_table = PositionTable::sinusoidal; },
                            +[](Architecture& a) {
                              a.position_table = PositionTable::none;
                              a.kinds[0].attention.positions = Positions::alibi;
                            }}) {
    EXPECT_TRUE(testing::says(problem("dinov2_with_registers", change), "registers"));
  }
}

// What single encoders have, beside what it was not verified with.
TEST(Refused, WhatEncodersAreNotUnderstoodWith) {
  const auto problem = [](const char* fixture, void (*change)(Architecture&)) {
    Architecture a = Model::open(testing::fixture(fixture)).architecture;
    change(a);
    std::string all;
    for (const auto& each : problems_of(a)) all += each + "\n";
    return all;
  };
  for (const auto change : {+[](Architecture& a) { a.embedding_norm = false; },
                            +[](Architecture& a) {
                              for (auto& kind : a.kinds) kind.placement = Placement::post;
                            },
                            +[](Architecture& a) {
                              for (auto& kind : a.kinds) kind.parallel = true;
                            }}) {
    EXPECT_TRUE(testing::says(problem("modernbert", change), "bare_first_attention"));
  }
  EXPECT_TRUE(testing::says(problem("llama", [](Architecture& a) { a.mean_position = true; }),
                            "mean_position"));
  EXPECT_TRUE(testing::says(problem("llama", [](Architecture& a) { a.transform_bias = false; }),
                            "transform_bias"));
  for (const auto change : {+[](Architecture& a) { a.causal = true; },
                            +[](Architecture& a) { a.kinds[0].attention.rotary_dims = 4; },
                            +[](Architecture& a) { a.kinds[0].attention.softcap = 2; },
                            +[](Architecture& a) { a.kinds[0].attention.window = 3; }}) {
    EXPECT_NE(problem("dinov3_vit", change), "");
  }
  for (const auto change :
       {+[](Architecture& a) { a.class_token = false; },
        +[](Architecture& a) { a.kinds[0].attention.relative_buckets += 1; },
        +[](Architecture& a) { a.kinds[0].attention.relative_max_distance = 3; },
        +[](Architecture& a) { a.mean_position = false; },
        +[](Architecture& a) { a.output.add(Output::hidden); }}) {
    EXPECT_NE(problem("beit", change), "");
  }
  for (const auto change : {+[](Architecture& a) { a.distillation_token = false; },
                            +[](Architecture& a) { a.position_table = PositionTable::none; },
                            +[](Architecture& a) { a.log_probabilities = true; },
                            +[](Architecture& a) { a.registers = 2; }}) {
    EXPECT_NE(problem("deit", change), "");
  }
  for (const auto change :
       {+[](Architecture& a) { a.dropped_token = 31; }, +[](Architecture& a) { a.norm_eps = 0; },
        +[](Architecture& a) { a.token_types = 2; },
        +[](Architecture& a) { a.log_probabilities = true; }}) {
    EXPECT_NE(problem("esm-dropout", change), "");
  }
}

}  // namespace
}  // namespace regauge
