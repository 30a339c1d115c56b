"""The models of tests/fixtures, as transformers knows them: make_fixtures.py writes them."""

import transformers as tf
from pictures import QWEN_TOWER, TOWER
from sounds import STABLE, WAVES, WHISPER

# No size equals another, so that a mix-up of axes cannot go unnoticed.
SIZES = dict(vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=2,
             num_attention_heads=4, max_position_embeddings=48)
SMALL = {**SIZES, "vocab_size": 31, "hidden_size": 16, "intermediate_size": 19}
SHIFTED = ("roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet", "roberta-prelayernorm", "xlm-roberta-xl", "m2m_100")
SMALL_FALCON = dict(vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
T5 = dict(vocab_size=61, d_model=20, d_kv=6, d_ff=27, num_layers=2, num_decoder_layers=3, num_heads=4,
          relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0)
BART = dict(vocab_size=61, d_model=20, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=5,
            encoder_ffn_dim=27, decoder_ffn_dim=23, max_position_embeddings=48, pad_token_id=1, decoder_start_token_id=2)
SMALL_BART = {**BART, "vocab_size": 31, "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "decoder_attention_heads": 2}
IDS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
ENDED = dict(bos_token_id=29, eos_token_id=30, pad_token_id=30)
ENDS = dict(cls_token_id=1, sep_token_id=2)
PICTURES = dict(  # a side that is no whole number of patches
    hidden_size=18, intermediate_size=23, num_hidden_layers=2, num_attention_heads=3, image_size=13, patch_size=4)
GQA = dict(num_key_value_heads=2)
ROUTED = dict(n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1, routed_scaling_factor=1.7,
              first_k_dense_replace=1)
QWEN_TOKENS = dict(image_token_id=60, video_token_id=59, vision_start_token_id=58, vision_end_token_id=57)
MROPE = dict(rope_type="default", rope_theta=1000000.0, mrope_section=[1, 1, 1])
DINOV2 = dict(hidden_size=20, mlp_ratio=2, num_hidden_layers=2, num_attention_heads=4, image_size=12, patch_size=4)
SQUARE = dict(hidden_size=16, intermediate_size=19, num_hidden_layers=2, num_attention_heads=2, image_size=12, patch_size=4)
ESM = dict(pad_token_id=1, mask_token_id=30, position_embedding_type="rotary")
ALBERT = dict(**{**SMALL, "num_hidden_layers": 4}, embedding_size=11)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=256)  # kept, kept, ramp, divided

GEMMA4_EXPERTS = dict(enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=7)
GEMMA4_TOWER = dict(
    hidden_size=12, intermediate_size=18, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3, head_dim=4,
    patch_size=2, pooling_kernel_size=2, position_embedding_size=8)
GEMMA4_EARS = dict(
    hidden_size=8, num_hidden_layers=1, num_attention_heads=2, output_proj_dims=10, subsampling_conv_channels=[4, 3])
GEMMA4_TOKENS = dict(image_token_id=32, video_token_id=33, audio_token_id=34, boi_token_id=35, eoi_token_id=36,
                     boa_token_id=37, eoa_token_index=38)


def models():
    """name -> (model class, config)"""
    llama = {**SIZES, **IDS, **GQA}
    small = {**SMALL, **IDS, **GQA}
    windowed = dict(sliding_window=5, layer_types=["full_attention", "sliding_attention"])
    small_latent = dict(
        **{**SMALL, **IDS, "hidden_size": 20}, num_key_value_heads=4, moe_intermediate_size=5, kv_lora_rank=10,
        q_lora_rank=11, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6)  # DeepSeek V2 wants even strides
    delta = dict(
        **{**small, "num_hidden_layers": 3}, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=5, linear_value_head_dim=3, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        rope_parameters=dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5))
    shared = dict(moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2, shared_expert_intermediate_size=6)
    mixed = dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    return {
        "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**llama, head_dim=6, rms_norm_eps=1e-5)),
        "llama-tied-biased": (tf.LlamaForCausalLM, tf.LlamaConfig(
            **llama, head_dim=8, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
            rope_parameters=LLAMA3)),
        "llama-hidden": (tf.LlamaModel, tf.LlamaConfig(**llama, head_dim=6)),
        "llama-sharded": (tf.LlamaForCausalLM, tf.LlamaConfig(**llama, head_dim=6)),
        "llama-bf16": (tf.LlamaForCausalLM, tf.LlamaConfig(
            **llama, head_dim=6, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
        "mistral": (tf.MistralForCausalLM, tf.MistralConfig(**llama, head_dim=6, sliding_window=16)),
        "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config(
            **{**llama, "hidden_size": 24}, rope_parameters=dict(rope_type="default", rope_theta=1000000.0))),
        "qwen3": (tf.Qwen3ForCausalLM, tf.Qwen3Config(**llama, head_dim=10, tie_word_embeddings=True)),
        "smollm3": (tf.SmolLM3ForCausalLM, tf.SmolLM3Config(
            **{**llama, "hidden_size": 24, "num_hidden_layers": 3}, no_rope_layer_interval=2,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
        "gemma3": (tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(
            **{**llama, "num_hidden_layers": 3}, head_dim=6, query_pre_attn_scalar=7, sliding_window=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
        "gemma4_text": (tf.Gemma4ForCausalLM, tf.Gemma4TextConfig(
            **{**small, "num_hidden_layers": 3}, head_dim=6, global_head_dim=8, num_global_key_value_heads=1,
            attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=5, final_logit_softcapping=2.5,
            layer_types=["sliding_attention", "full_attention", "full_attention"], rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.5}})),
        "gemma4_text-tables": (tf.Gemma4ForCausalLM, tf.Gemma4TextConfig(
            **{**small, "num_hidden_layers": 4}, head_dim=6, global_head_dim=8, hidden_size_per_layer_input=5,
            vocab_size_per_layer_input=31, num_kv_shared_layers=2, use_double_wide_mlp=True, sliding_window=5,
            final_logit_softcapping=2.5, layer_types=["sliding_attention", "full_attention"] * 2)),
        "gemma4_text-experts": (tf.Gemma4ForCausalLM, tf.Gemma4TextConfig(
            **small, head_dim=6, global_head_dim=8, num_global_key_value_heads=1, attention_k_eq_v=True,
            hidden_size_per_layer_input=0, sliding_window=5, layer_types=["sliding_attention", "full_attention"],
            **GEMMA4_EXPERTS)),
        "gemma4-experts": (tf.Gemma4ForConditionalGeneration, tf.Gemma4Config(
            text_config=dict(
                **small, head_dim=6, global_head_dim=8, num_global_key_value_heads=1, attention_k_eq_v=True,
                hidden_size_per_layer_input=0, sliding_window=5, use_bidirectional_attention="vision",
                layer_types=["sliding_attention", "full_attention"], **GEMMA4_EXPERTS),
            vision_config=GEMMA4_TOWER, audio_config=None, **GEMMA4_TOKENS)),
        "gemma4": (tf.Gemma4ForConditionalGeneration, tf.Gemma4Config(
            text_config=dict(
                **{**small, "num_hidden_layers": 2}, head_dim=6, global_head_dim=8, num_global_key_value_heads=1,
                attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=5,
                use_bidirectional_attention="vision", layer_types=["sliding_attention", "full_attention"]),
            vision_config=GEMMA4_TOWER, audio_config=None, **GEMMA4_TOKENS)),
        "gemma4-audio": (tf.Gemma4ForConditionalGeneration, tf.Gemma4Config(
            text_config=dict(
                **{**small, "num_hidden_layers": 4, "pad_token_id": 3}, head_dim=6, global_head_dim=8,
                hidden_size_per_layer_input=5, vocab_size_per_layer_input=31, num_kv_shared_layers=2, use_double_wide_mlp=True,
                sliding_window=5, layer_types=["sliding_attention", "full_attention"] * 2),
            vision_config=GEMMA4_TOWER, audio_config=GEMMA4_EARS, **GEMMA4_TOKENS)),
        "idefics3": (tf.Idefics3ForConditionalGeneration, tf.Idefics3Config(
            text_config=dict(**{**small, "num_hidden_layers": 3}, head_dim=6, model_type="llama"), scale_factor=2,
            image_token_id=30, vision_config={**TOWER, "num_hidden_layers": 1})),
        "smolvlm": (tf.SmolVLMForConditionalGeneration, tf.SmolVLMConfig(
            text_config=dict(**{**small, "num_hidden_layers": 3}, head_dim=6, model_type="llama"), scale_factor=2,
            image_token_id=30, vision_config={**TOWER, "num_hidden_layers": 1})),
        "gemma2": (tf.Gemma2ForCausalLM, tf.Gemma2Config(
            **llama, head_dim=6, query_pre_attn_scalar=7, sliding_window=5, attn_logit_softcapping=1.5,
            final_logit_softcapping=2.5)),
        "olmo2": (tf.Olmo2ForCausalLM, tf.Olmo2Config(
            **{**llama, "hidden_size": 24}, rope_parameters=dict(rope_type="default", rope_theta=500.0))),
        "olmo3": (tf.Olmo3ForCausalLM, tf.Olmo3Config(**{**small, "num_hidden_layers": 3}, sliding_window=5, **mixed)),
        "glm4": (tf.Glm4ForCausalLM, tf.Glm4Config(**small, head_dim=8)),
        "exaone4": (tf.Exaone4ForCausalLM, tf.Exaone4Config(
            **{**small, "num_hidden_layers": 3}, head_dim=6, sliding_window=5, sliding_window_pattern=2)),
        "exaone4-full": (tf.Exaone4ForCausalLM, tf.Exaone4Config(
            **small, head_dim=6, sliding_window=None, layer_types=["full_attention"] * 2)),
        "cohere2": (tf.Cohere2ForCausalLM, tf.Cohere2Config(
            **{**small, "num_hidden_layers": 3}, logit_scale=0.3, sliding_window=5, sliding_window_pattern=2)),
        "vaultgemma": (tf.VaultGemmaForCausalLM, tf.VaultGemmaConfig(
            **small, head_dim=6, query_pre_attn_scalar=7, sliding_window=5, attn_logit_softcapping=1.5,
            final_logit_softcapping=2.5)),
        "phi": (tf.PhiForCausalLM, tf.PhiConfig(
            **{**llama, "hidden_size": 32},
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
        "cohere": (tf.CohereForCausalLM, tf.CohereConfig(**{**llama, "hidden_size": 24}, logit_scale=0.3)),
        "qwen3_moe": (tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
            **llama, head_dim=10, moe_intermediate_size=7, num_experts=5, num_experts_per_tok=3, norm_topk_prob=True)),
        "qwen3_moe-dense": (tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
            **{**small, "num_hidden_layers": 3}, head_dim=6, moe_intermediate_size=7, num_experts=3,
            num_experts_per_tok=2, mlp_only_layers=[1])),
        "qwen3_5_text": (tf.Qwen3_5ForCausalLM, tf.Qwen3_5TextConfig(**delta)),
        "qwen3_5_moe_text": (tf.Qwen3_5MoeForCausalLM, tf.Qwen3_5MoeTextConfig(**delta, **shared)),
        "qwen3_next": (tf.Qwen3NextForCausalLM, tf.Qwen3NextConfig(**delta, **shared)),
        "glm4_moe": (tf.Glm4MoeForCausalLM, tf.Glm4MoeConfig(
            **small, head_dim=8, attention_bias=True, moe_intermediate_size=7, **ROUTED, n_shared_experts=2)),
        "dots1": (tf.Dots1ForCausalLM, tf.Dots1Config(
            **small, head_dim=8, attention_bias=True, moe_intermediate_size=7, **ROUTED, n_shared_experts=2,
            max_window_layers=small["num_hidden_layers"])),
        "deepseek_v3": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
            **{**SMALL, **IDS, "hidden_size": 20}, num_key_value_heads=4, moe_intermediate_size=5, **ROUTED, kv_lora_rank=9,
            q_lora_rank=11, qk_rope_head_dim=4, qk_nope_head_dim=3, v_head_dim=6)),
        "deepseek_v3-direct": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
            **{**SMALL, **IDS, "hidden_size": 20}, num_key_value_heads=4, moe_intermediate_size=5, **ROUTED, kv_lora_rank=9,
            q_lora_rank=None, qk_rope_head_dim=4, qk_nope_head_dim=3, v_head_dim=6)),
        "deepseek_v3-yarn": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
            **{**SMALL, **IDS, "hidden_size": 20}, num_key_value_heads=4, moe_intermediate_size=5, **ROUTED, kv_lora_rank=9,
            q_lora_rank=11, qk_rope_head_dim=4, qk_nope_head_dim=3, v_head_dim=6, rope_parameters={
                "rope_type": "yarn", "rope_theta": 100.0, "factor": 40.0, "beta_fast": 4.0, "beta_slow": 1.0,
                "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16})),
        "deepseek_v2": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
            **small_latent, **{**ROUTED, "n_group": None, "topk_group": None})),
        "deepseek_v2-direct": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
            **{**small_latent, "q_lora_rank": None}, **ROUTED, rope_parameters={
                "rope_type": "yarn", "rope_theta": 100.0, "factor": 40.0, "beta_fast": 4.0, "beta_slow": 1.0,
                "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 16})),
        "deepseek_v2-grouped": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
            **small_latent, **ROUTED, topk_method="group_limited_greedy")),
        "granitemoe": (tf.GraniteMoeForCausalLM, tf.GraniteMoeConfig(
            **{**small, "intermediate_size": 7}, num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=3.0,
            attention_multiplier=0.4, logits_scaling=5.0, residual_multiplier=0.7)),
        "ernie4_5_moe": (tf.Ernie4_5_MoeForCausalLM, tf.Ernie4_5_MoeConfig(
            **small, head_dim=6, moe_intermediate_size=7, moe_num_experts=5, moe_k=2, moe_num_shared_experts=2)),
        "minimax_m2": (tf.MiniMaxM2ForCausalLM, tf.MiniMaxM2Config(
            **{**small, "intermediate_size": 7}, head_dim=8, rotary_dim=4, num_local_experts=5, num_experts_per_tok=2)),
        "mixtral": (tf.MixtralForCausalLM, tf.MixtralConfig(
            **{**llama, "hidden_size": 24, "intermediate_size": 7}, num_local_experts=8, num_experts_per_tok=2)),
        "olmoe": (tf.OlmoeForCausalLM, tf.OlmoeConfig(
            **{**llama, "hidden_size": 24, "intermediate_size": 7}, num_experts=5, num_experts_per_tok=2)),
        "qwen2_moe": (tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(
            **{**llama, "hidden_size": 24}, moe_intermediate_size=7, num_experts=4, num_experts_per_tok=2,
            shared_expert_intermediate_size=9)),
        "gpt_oss": (tf.GptOssForCausalLM, tf.GptOssConfig(
            **{**llama, "hidden_size": 24, "intermediate_size": 7}, head_dim=6, num_local_experts=4,
            num_experts_per_tok=2, swiglu_limit=0.8, sliding_window=5, rope_parameters=dict(
                rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False,
                original_max_position_embeddings=16))),
        "gemma": (tf.GemmaForCausalLM, tf.GemmaConfig(**llama, head_dim=6)),
        "phi3": (tf.Phi3ForCausalLM, tf.Phi3Config(
            **small, sliding_window=7, rope_parameters=dict(
                rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
        "starcoder2": (tf.Starcoder2ForCausalLM, tf.Starcoder2Config(**small, sliding_window=7)),
        "stablelm": (tf.StableLmForCausalLM, tf.StableLmConfig(
            **small, use_qkv_bias=True, rope_parameters=dict(
                rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
        "seed_oss": (tf.SeedOssForCausalLM, tf.SeedOssConfig(**small, head_dim=6, attention_out_bias=True)),
        "ernie4_5": (tf.Ernie4_5ForCausalLM, tf.Ernie4_5Config(**small, head_dim=6, use_bias=True)),
        "helium": (tf.HeliumForCausalLM, tf.HeliumConfig(**small, head_dim=4, attention_bias=True)),
        "ministral": (tf.MinistralForCausalLM, tf.MinistralConfig(**small, head_dim=6, **windowed)),
        "ministral3": (tf.Ministral3ForCausalLM, tf.Ministral3Config(**small, head_dim=6, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0,
            original_max_position_embeddings=7, llama_4_scaling_beta=0.3))),
        "nemotron": (tf.NemotronForCausalLM, tf.NemotronConfig(**SIZES, **GQA, **IDS)),
        "arcee": (tf.ArceeForCausalLM, tf.ArceeConfig(**small, head_dim=6, attention_bias=True, mlp_bias=True)),
        "qwen2-sliding": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**small, use_sliding_window=True, **windowed)),
        "qwen3-sliding": (tf.Qwen3ForCausalLM, tf.Qwen3Config(
            **small, head_dim=6, use_sliding_window=True, **windowed)),
        "granite": (tf.GraniteForCausalLM, tf.GraniteConfig(
            **small, embedding_multiplier=3.0, attention_multiplier=0.4, logits_scaling=5.0, residual_multiplier=0.7)),
        "glm": (tf.GlmForCausalLM, tf.GlmConfig(**small, head_dim=8)),
        "opt": (tf.OPTForCausalLM, tf.OPTConfig(
            vocab_size=31, hidden_size=16, ffn_dim=19, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=48)),
        "bloom": (tf.BloomForCausalLM, tf.BloomConfig(vocab_size=31, hidden_size=12, n_layer=2, n_head=2)),
        "mpt": (tf.MptForCausalLM, tf.MptConfig(
            vocab_size=31, d_model=12, n_layers=2, n_heads=2, max_seq_len=48, attn_config=dict(softmax_scale=0.3))),
        "gpt_bigcode": (tf.GPTBigCodeForCausalLM, tf.GPTBigCodeConfig(
            vocab_size=31, n_embd=12, n_layer=2, n_head=2, n_positions=48, **IDS)),
        "gptj": (tf.GPTJForCausalLM, tf.GPTJConfig(
            vocab_size=31, n_embd=20, n_inner=19, n_layer=2, n_head=2, n_positions=48, rotary_dim=4, **IDS)),
        "codegen": (tf.CodeGenForCausalLM, tf.CodeGenConfig(
            vocab_size=31, n_embd=16, n_inner=19, n_layer=2, n_head=8, n_positions=48, rotary_dim=2, **IDS)),
        "falcon": (tf.FalconForCausalLM, tf.FalconConfig(
            **SMALL_FALCON, ffn_hidden_size=19, max_position_embeddings=48, **IDS)),
        "falcon-grouped": (tf.FalconForCausalLM, tf.FalconConfig(
            **SMALL_FALCON, ffn_hidden_size=19, num_kv_heads=2, new_decoder_architecture=True, bias=True, **IDS)),
        "falcon-grouped-one-norm": (tf.FalconForCausalLM, tf.FalconConfig(
            **SMALL_FALCON, ffn_hidden_size=19, num_kv_heads=2, new_decoder_architecture=True,
            num_ln_in_parallel_attn=1, **IDS)),
        "biogpt": (tf.BioGptForCausalLM, tf.BioGptConfig(**SMALL)),
        "openai-gpt": (tf.OpenAIGPTLMHeadModel, tf.OpenAIGPTConfig(
            vocab_size=31, n_embd=12, n_layer=2, n_head=2, n_positions=48)),
        "ernie": (tf.ErnieModel, tf.ErnieConfig(**SMALL)),
        "data2vec-text": (tf.Data2VecTextForMaskedLM, tf.Data2VecTextConfig(**SMALL)),
        "roberta": (tf.RobertaForMaskedLM, tf.RobertaConfig(**SMALL)),
        "xlm-roberta": (tf.XLMRobertaModel, tf.XLMRobertaConfig(**SMALL, type_vocab_size=1)),
        "mpnet": (tf.MPNetModel, tf.MPNetConfig(**SMALL)),
        "roberta-prelayernorm": (tf.RobertaPreLayerNormForMaskedLM, tf.RobertaPreLayerNormConfig(**SMALL)),
        "xlm-roberta-xl": (tf.XLMRobertaXLModel, tf.XLMRobertaXLConfig(**SMALL)),
        "megatron-bert": (tf.MegatronBertForPreTraining, tf.MegatronBertConfig(**SMALL)),
        "camembert": (tf.CamembertForMaskedLM, tf.CamembertConfig(**SMALL, type_vocab_size=1)),
        "distilbert": (tf.DistilBertForMaskedLM, tf.DistilBertConfig(
            vocab_size=31, dim=16, hidden_dim=19, n_layers=2, n_heads=4, max_position_embeddings=48)),
        "electra": (tf.ElectraForMaskedLM, tf.ElectraConfig(**SMALL, embedding_size=16)),
        "electra-discriminator": (tf.ElectraForPreTraining, tf.ElectraConfig(**SMALL, embedding_size=16)),
        "eurobert": (tf.EuroBertForMaskedLM, tf.EuroBertConfig(**small, head_dim=6, mlp_bias=True)),
        "nomic_bert": (tf.NomicBertForMaskedLM, tf.NomicBertConfig(**SMALL)),
        "gte": (tf.GteForMaskedLM, tf.GteConfig(**SMALL)),
        "jina_embeddings_v3": (tf.JinaEmbeddingsV3ForMaskedLM, tf.JinaEmbeddingsV3Config(**SMALL)),
        "modernbert": (tf.ModernBertForMaskedLM, tf.ModernBertConfig(
            **{**SMALL, "num_hidden_layers": 3}, **IDS, **ENDS, local_attention=5, global_attn_every_n_layers=2)),
        "modernbert-classes": (tf.ModernBertForSequenceClassification, tf.ModernBertConfig(
            **SMALL, **IDS, **ENDS, local_attention=5, classifier_pooling="mean", num_labels=5, norm_bias=True, attention_bias=True,
            mlp_bias=True, classifier_bias=True)),
        "modernbert-hidden": (tf.ModernBertModel, tf.ModernBertConfig(**SMALL, **IDS, **ENDS, local_attention=5)),
        "esm": (tf.EsmForMaskedLM, tf.EsmConfig(**SMALL, **ESM, token_dropout=False, emb_layer_norm_before=True)),
        "esm-dropout": (tf.EsmForMaskedLM, tf.EsmConfig(**SMALL, **ESM, token_dropout=True, emb_layer_norm_before=False)),
        "esm-dropout-hidden": (tf.EsmModel, tf.EsmConfig(**SMALL, **ESM, token_dropout=True, emb_layer_norm_before=False)),
        "albert": (tf.AlbertForMaskedLM, tf.AlbertConfig(**ALBERT)),
        "albert-pretraining": (tf.AlbertForPreTraining, tf.AlbertConfig(**ALBERT, num_hidden_groups=2)),
        "albert-hidden": (tf.AlbertModel, tf.AlbertConfig(**ALBERT, num_hidden_groups=2)),
        "albert-classes": (tf.AlbertForSequenceClassification, tf.AlbertConfig(**ALBERT, num_labels=5)),
        # v1.1: a gate, and a head of its own, which transformers unties through the file alone
        "t5": (tf.T5ForConditionalGeneration, tf.T5Config(
            **T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
        "t5-tied": (tf.T5ForConditionalGeneration, tf.T5Config(**T5, feed_forward_proj="relu")),
        "t5-encoder": (tf.T5EncoderModel, tf.T5Config(**T5, feed_forward_proj="gated-gelu")),
        "umt5": (tf.UMT5ForConditionalGeneration, tf.UMT5Config(**T5)),
        "umt5-encoder": (tf.UMT5EncoderModel, tf.UMT5Config(**T5)),
        "mt5": (tf.MT5ForConditionalGeneration, tf.MT5Config(
            **{**T5, "d_model": 16, "vocab_size": 31, "num_layers": 1, "num_decoder_layers": 2})),
        "bart": (tf.BartForConditionalGeneration, tf.BartConfig(**BART)),
        "marian": (tf.MarianMTModel, tf.MarianConfig(**BART, activation_function="swish", scale_embedding=True)),
        "marian-separate": (tf.MarianMTModel, tf.MarianConfig(
            **SMALL_BART, decoder_vocab_size=37, share_encoder_decoder_embeddings=False)),
        "mbart": (tf.MBartForConditionalGeneration, tf.MBartConfig(**SMALL_BART, scale_embedding=True)),
        "pegasus": (tf.PegasusForConditionalGeneration, tf.PegasusConfig(**SMALL_BART, activation_function="relu")),
        "m2m_100": (tf.M2M100ForConditionalGeneration, tf.M2M100Config(**SMALL_BART)),
        "whisper": (tf.WhisperForConditionalGeneration, tf.WhisperConfig(**WHISPER)),
        "wav2vec2": (tf.Wav2Vec2ForCTC, tf.Wav2Vec2Config(**WAVES)),
        "wav2vec2-stable": (tf.Wav2Vec2ForCTC, tf.Wav2Vec2Config(**WAVES, **STABLE)),
        "hubert": (tf.HubertModel, tf.HubertConfig(**WAVES, feat_proj_layer_norm=False)),
        "hubert-stable": (tf.HubertForCTC, tf.HubertConfig(**{**WAVES, "num_conv_pos_embeddings": 5}, **STABLE)),
        "gpt2": (tf.GPT2LMHeadModel, tf.GPT2Config(
            vocab_size=61, n_embd=20, n_inner=27, n_layer=2, n_head=4, n_positions=48, **IDS)),
        "gpt_neox": (tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig(
            **{**SIZES, "hidden_size": 32}, **IDS,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
        "gpt_neox-sequential": (tf.GPTNeoXForCausalLM, tf.GPTNeoXConfig(
            **{**SIZES, "hidden_size": 24}, **IDS, use_parallel_residual=False, attention_bias=False,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.67))),
        "bert": (tf.BertModel, tf.BertConfig(**SIZES, type_vocab_size=3)),
        "bert-mlm": (tf.BertForMaskedLM, tf.BertConfig(**SIZES, type_vocab_size=3)),
        "bert-pretraining": (tf.BertForPreTraining, tf.BertConfig(**SIZES, type_vocab_size=3)),
        "bert-classes": (tf.BertForSequenceClassification, tf.BertConfig(**SIZES, type_vocab_size=3, num_labels=5)),
        "bert-words": (tf.BertForTokenClassification, tf.BertConfig(**SIZES, type_vocab_size=3, num_labels=5)),
        "roberta-classes": (tf.RobertaForSequenceClassification, tf.RobertaConfig(**SMALL, num_labels=5)),
        "distilbert-classes": (tf.DistilBertForSequenceClassification, tf.DistilBertConfig(
            vocab_size=31, dim=16, hidden_dim=19, n_layers=2, n_heads=4, max_position_embeddings=48, num_labels=5)),
        "vit": (tf.ViTForImageClassification, tf.ViTConfig(
            hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4,
            image_size=12, patch_size=4, num_channels=3, num_labels=7)),
        "vit-hidden": (tf.ViTModel, tf.ViTConfig(
            hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4,
            image_size=12, patch_size=4, num_channels=2, qkv_bias=False)),
        "llava": (tf.LlavaForConditionalGeneration, tf.LlavaConfig(
            text_config=dict(**llama, head_dim=6, model_type="llama"),
            vision_config=dict(**TOWER, model_type="clip_vision_model"), image_token_index=60)),
        "gemma3-vision": (tf.Gemma3ForConditionalGeneration, tf.Gemma3Config(
            text_config=dict(
                **{**llama, "num_hidden_layers": 3}, head_dim=6, query_pre_attn_scalar=7, sliding_window=5,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
            vision_config=dict(**TOWER), mm_tokens_per_image=4, image_token_index=60, boi_token_index=58,
            eoi_token_index=59)),
        "qwen2_5_vl": (tf.Qwen2_5_VLForConditionalGeneration, tf.Qwen2_5_VLConfig(
            text_config=dict(**{**llama, "hidden_size": 24}, rope_parameters=MROPE), **QWEN_TOKENS,
            vision_config=dict(**QWEN_TOWER, out_hidden_size=24, fullatt_block_indexes=[1], window_size=8))),
        "qwen3_5": (tf.Qwen3_5ForConditionalGeneration, tf.Qwen3_5Config(
            text_config={**delta, "vocab_size": 61, "rope_parameters": dict(
                **MROPE, mrope_interleaved=True, partial_rotary_factor=0.75)},
            vision_config=dict(**QWEN_TOWER, out_hidden_size=16, num_position_embeddings=16), **QWEN_TOKENS)),
        "qwen3_5_moe": (tf.Qwen3_5MoeForConditionalGeneration, tf.Qwen3_5MoeConfig(
            text_config={**delta, **shared, "vocab_size": 61, "rope_parameters": dict(
                **MROPE, mrope_interleaved=True, partial_rotary_factor=0.75)},
            vision_config=dict(**QWEN_TOWER, out_hidden_size=16, num_position_embeddings=16), **QWEN_TOKENS)),
        "qwen3_vl": (tf.Qwen3VLForConditionalGeneration, tf.Qwen3VLConfig(
            text_config=dict(**{**llama, "num_hidden_layers": 3}, head_dim=6, rope_parameters=dict(
                **MROPE, mrope_interleaved=True)),
            vision_config=dict(
                **QWEN_TOWER, out_hidden_size=20, num_position_embeddings=16, deepstack_visual_indexes=[0, 1]),
            **QWEN_TOKENS)),
        "qwen3_vl_moe": (tf.Qwen3VLMoeForConditionalGeneration, tf.Qwen3VLMoeConfig(
            text_config=dict(
                **{**llama, "num_hidden_layers": 3}, head_dim=6, moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2, rope_parameters=dict(
                    **MROPE, mrope_interleaved=True)),
            vision_config=dict(
                **{**QWEN_TOWER, "depth": 1}, out_hidden_size=20, num_position_embeddings=16, deepstack_visual_indexes=[0]),
            **QWEN_TOKENS)),
        "qwen2_vl": (tf.Qwen2VLForConditionalGeneration, tf.Qwen2VLConfig(
            text_config=dict(**{**llama, "hidden_size": 24}, rope_parameters=MROPE), **QWEN_TOKENS, tie_word_embeddings=True,
            vision_config=dict(depth=2, embed_dim=8, hidden_size=24, mlp_ratio=2, num_heads=2, patch_size=2))),
        "mistral3": (tf.Mistral3ForConditionalGeneration, tf.Mistral3Config(
            text_config=dict(**llama, head_dim=6, model_type="mistral", sliding_window=None),
            vision_config=dict(**TOWER, head_dim=4, model_type="pixtral"), image_token_index=60)),
        "internvl": (tf.InternVLForConditionalGeneration, tf.InternVLConfig(
            text_config=dict(**{**llama, "hidden_size": 24}, model_type="qwen2"), tie_word_embeddings=False,
            vision_config={**TOWER, "image_size": [8, 8], "patch_size": [2, 2]}, image_token_id=60)),
        "internvl-qwen3": (tf.InternVLForConditionalGeneration, tf.InternVLConfig(
            text_config=dict(**llama, head_dim=6, model_type="qwen3"),
            vision_config={**TOWER, "image_size": [8, 8], "patch_size": [2, 2]}, image_token_id=60)),
        "clip_text_model": (tf.CLIPTextModel, tf.CLIPTextConfig(**SIZES, **IDS)),
        "clip_text_model-projected": (tf.CLIPTextModelWithProjection, tf.CLIPTextConfig(
            **SMALL, **ENDED, projection_dim=7)),
        "clip": (tf.CLIPModel, tf.CLIPConfig(text_config={**SMALL, **ENDED}, vision_config=PICTURES, projection_dim=7)),
        "siglip": (tf.SiglipModel, tf.SiglipConfig(
            text_config={**SMALL, "projection_size": 18}, vision_config={**PICTURES, "image_size": 9})),
        "siglip_text_model": (tf.SiglipTextModel, tf.SiglipTextConfig(**SMALL, projection_size=7)),
        "siglip_vision_model": (tf.SiglipVisionModel, tf.SiglipVisionConfig(**PICTURES)),
        "dinov3_vit": (tf.DINOv3ViTModel, tf.DINOv3ViTConfig(**SQUARE, num_register_tokens=3)),
        "dinov3_vit-gated": (tf.DINOv3ViTModel, tf.DINOv3ViTConfig(
            **{**SQUARE, "num_hidden_layers": 1}, use_gated_mlp=True, hidden_act="silu", key_bias=True, mlp_bias=False)),
        "deit": (tf.DeiTForImageClassificationWithTeacher, tf.DeiTConfig(**SQUARE, num_labels=5)),
        "deit-hidden": (tf.DeiTModel, tf.DeiTConfig(**SQUARE)),
        "beit": (tf.BeitForImageClassification, tf.BeitConfig(
            **SQUARE, num_labels=5, use_relative_position_bias=True)),
        "beit-shared": (tf.BeitForImageClassification, tf.BeitConfig(
            **SQUARE, num_labels=5, use_shared_relative_position_bias=True, use_mean_pooling=False)),
        "beit-absolute": (tf.BeitForImageClassification, tf.BeitConfig(
            **SQUARE, num_labels=5, use_absolute_position_embeddings=True, layer_scale_init_value=0.0)),
        "dinov2": (tf.Dinov2Model, tf.Dinov2Config(**DINOV2)),
        "dinov2-swiglu": (tf.Dinov2Model, tf.Dinov2Config(**DINOV2, use_swiglu_ffn=True, qkv_bias=False)),
        "dinov2_with_registers": (tf.Dinov2WithRegistersModel, tf.Dinov2WithRegistersConfig(
            **DINOV2, num_register_tokens=3)),
        "dinov2_with_registers-swiglu": (tf.Dinov2WithRegistersModel, tf.Dinov2WithRegistersConfig(
            **{**DINOV2, "num_hidden_layers": 1}, num_register_tokens=5, use_swiglu_ffn=True)),
    }
