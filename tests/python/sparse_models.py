"""Models with experts, of every family that has them."""

import transformers as tf

# No size equals another, so that a mix-up of axes cannot go unnoticed.
SIZES = dict(
    vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4,
    max_position_embeddings=48, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
GQA = dict(num_key_value_heads=2)
ROUTED = dict(
    n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1, routed_scaling_factor=1.7,
    first_k_dense_replace=1,
)  # fmt: skip
LATENT = dict(kv_lora_rank=9, qk_rope_head_dim=4, qk_nope_head_dim=3, v_head_dim=6)
EVEN = dict(kv_lora_rank=10, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=6)  # as DeepSeek V2's strides must be
YARN = dict(
    rope_type="yarn", rope_theta=500.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False,
    original_max_position_embeddings=16,
)  # fmt: skip

DELTA = dict(
    head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5, linear_value_head_dim=3,
    linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention", "linear_attention"],
    rope_parameters=dict(rope_type="default", rope_theta=100.0, partial_rotary_factor=0.5),
)  # fmt: skip
SHARED = dict(moe_intermediate_size=11, shared_expert_intermediate_size=13, num_experts=5, num_experts_per_tok=2)

# name -> (class, config)
SPARSE = {
    "qwen3_5_moe_text: delta nets, 2 of 5 experts": (tf.Qwen3_5MoeForCausalLM, tf.Qwen3_5MoeTextConfig(
        **SIZES, **GQA, **DELTA, **SHARED)),
    "qwen3_next: delta nets, 2 of 5 experts": (tf.Qwen3NextForCausalLM, tf.Qwen3NextConfig(
        **SIZES, **GQA, **DELTA, **SHARED)),
    "qwen3_next: one value head for a key head": (tf.Qwen3NextForCausalLM, tf.Qwen3NextConfig(
        **SIZES, **GQA, **{**DELTA, "linear_num_value_heads": 2}, **SHARED, norm_topk_prob=False)),
    "qwen3_moe: 2 of 5 experts, renormalised": (tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
        **SIZES, **GQA, head_dim=6, moe_intermediate_size=11, num_experts=5, num_experts_per_tok=2,
        norm_topk_prob=True)),
    "qwen3_moe: dense layers among sparse ones": (tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(
        **{**SIZES, **GQA, "num_hidden_layers": 4}, head_dim=6, moe_intermediate_size=11, num_experts=5,
        num_experts_per_tok=2, decoder_sparse_step=2, mlp_only_layers=[3])),
    "glm4_moe: sigmoid scores, groups, a bias that selects": (tf.Glm4MoeForCausalLM, tf.Glm4MoeConfig(
        **SIZES, **GQA, head_dim=8, moe_intermediate_size=11, use_qk_norm=True, **ROUTED)),
    "dots1: the same, and norms of queries and keys always": (tf.Dots1ForCausalLM, tf.Dots1Config(
        **SIZES, **GQA, head_dim=8, moe_intermediate_size=11, norm_topk_prob=True, n_shared_experts=1,
        max_window_layers=SIZES["num_hidden_layers"], **ROUTED)),
    "deepseek_v3: latents of queries, keys and values": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
        **SIZES, num_key_value_heads=4, moe_intermediate_size=11, **ROUTED, **LATENT, q_lora_rank=11)),
    "deepseek_v3-direct: latents of keys and values": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
        **SIZES, num_key_value_heads=4, moe_intermediate_size=11, **ROUTED, **LATENT, q_lora_rank=None)),
    "deepseek_v3: YaRN, which scales all logits": (tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(
        **SIZES, num_key_value_heads=4, moe_intermediate_size=11, **ROUTED, **LATENT, q_lora_rank=11, rope_parameters={
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
            "mscale_all_dim": 1.0, "original_max_position_embeddings": 8})),
    "mixtral: 2 of 5 experts": (tf.MixtralForCausalLM, tf.MixtralConfig(
        **SIZES, **GQA, head_dim=6, num_local_experts=5, num_experts_per_tok=2)),
    "olmoe: 2 of 5 experts, joint norms on q and k": (tf.OlmoeForCausalLM, tf.OlmoeConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, num_experts=5, num_experts_per_tok=2)),
    "qwen2_moe: 2 of 5 experts beside a shared one": (tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, moe_intermediate_size=11, shared_expert_intermediate_size=13,
        num_experts=5, num_experts_per_tok=2)),
    "gpt_oss: sinks, biases, clamps, yarn": (tf.GptOssForCausalLM, tf.GptOssConfig(
        **SIZES, **GQA, head_dim=6, num_local_experts=5, num_experts_per_tok=2, swiglu_limit=0.8, sliding_window=5,
        rope_parameters=YARN)),
    "granitemoe: 2 of 5 experts, stacked": (tf.GraniteMoeForCausalLM, tf.GraniteMoeConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=3.0,
        attention_multiplier=0.4, logits_scaling=5.0, residual_multiplier=0.7)),
    "ernie4_5_moe: chosen with a bias, a dense layer, tied": (tf.Ernie4_5_MoeForCausalLM, tf.Ernie4_5_MoeConfig(
        **SIZES, **GQA, head_dim=6, moe_intermediate_size=11, moe_num_experts=5, moe_k=2)),
    "minimax_m2: sigmoid, joint norms on q and k, 4 of 8 rotate": (tf.MiniMaxM2ForCausalLM, tf.MiniMaxM2Config(
        **SIZES, **GQA, head_dim=8, rotary_dim=4, num_local_experts=5, num_experts_per_tok=2)),
    "deepseek_v2: softmax": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
        **SIZES, **EVEN, **{**ROUTED, "n_group": None, "topk_group": None}, num_key_value_heads=4, q_lora_rank=11,
        moe_intermediate_size=5)),
    "deepseek_v2-direct: softmax": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
        **SIZES, **EVEN, **ROUTED, num_key_value_heads=4, q_lora_rank=None, moe_intermediate_size=5)),
    "deepseek_v2-grouped: softmax in groups": (tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(
        **SIZES, **EVEN, **ROUTED, num_key_value_heads=4, q_lora_rank=11, moe_intermediate_size=5,
        topk_method="group_limited_greedy")),
}  # fmt: skip
