"""Checkpoints that Megatron-Core's own ranks save, and its other families, against transformers."""

import numpy
import pytest
from megatron_ranks import EXPERTS, FIELDS, MOE_FIELDS, SHAPE, megatron_models, transformers_answer

import regauge

torch = pytest.importorskip("torch")

LATENT = {
    **{key: value for key, value in EXPERTS.items() if key != "num_query_groups"}, "num_layers": 3, "q_lora_rank": 16, "kv_lora_rank": 16,
    "qk_head_dim": 8, "qk_pos_emb_head_dim": 4, "v_head_dim": 8, "rope_type": "rope", "moe_layer_freq": [0, 1, 1],
    "moe_shared_expert_intermediate_size": 24, "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True,
    "moe_router_topk_scaling_factor": 2.5, "layernorm_epsilon": 1e-6, "mtp_num_layers": 1,
}  # fmt: skip
LATENT_FIELDS = {
    **FIELDS, "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 3, "num_key_value_heads": 4,
    "head_dim": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "rms_norm_eps": 1e-6,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1,
}  # fmt: skip
OSS = {
    **{key: value for key, value in EXPERTS.items() if key != "qk_layernorm"}, "add_bias_linear": True, "expert_model_parallel_size": 2,
    "expert_tensor_parallel_size": 1, "softmax_type": "learnable", "glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0,
}  # fmt: skip
OSS_FIELDS = {
    **FIELDS, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 24, "layer_types": ["full_attention"] * 2, "attention_bias": True, "swiglu_limit": 7.0, "sliding_window": 128,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}  # fmt: skip
del OSS_FIELDS["rope_theta"]
LLAMA_FIELDS = {**FIELDS, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
CASES = {
    "llama": ({"config": SHAPE}, LLAMA_FIELDS),
    "qwen3_moe": ({"config": {**EXPERTS, "expert_tensor_parallel_size": 2}}, MOE_FIELDS),
    "deepseek_v3": ({"config": {**LATENT, "expert_tensor_parallel_size": 2}}, LATENT_FIELDS),
    "gpt_oss": ({"config": OSS, "activation": "quick_gelu"}, OSS_FIELDS),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Of each case: the checkpoint that two ranks saved, what they hold, and what they compute."""
    folder = tmp_path_factory.mktemp("megatron")
    settings = []
    for name, (one, _) in CASES.items():
        (folder / name).mkdir()
        settings.append({**one, "checkpoint": str(folder / name)})
    ranks = megatron_models(folder / "ranks", 2, settings)
    return {
        name: (folder / name, [state for state, _ in of_case], torch.cat([answer for _, answer in of_case], -1))
        for name, of_case in zip(CASES, ranks)
    }


@pytest.mark.parametrize("case", CASES)
def test_ranks_and_their_checkpoint_are_one_model_and_compute_what_is_read(made, tmp_path, case):
    folder, states, theirs = made[case]
    fields = CASES[case][1]
    model = regauge.from_checkpoint(folder, fields, layout="megatron")
    assert regauge.diff(model, regauge.from_state_dict(states, fields, layout="megatron")).statement == "identical"
    ours = transformers_answer(model, tmp_path / "hf")
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()
    # A control: the heads of the other rank.
    other = regauge.from_state_dict(states[::-1], fields, layout="megatron")
    assert not regauge.diff(model, other).same
    wrong = transformers_answer(other, tmp_path / "other")
    assert (wrong - theirs).abs().max() > 1e-2 * theirs.abs().max()
