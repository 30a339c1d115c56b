"""Checkpoints that Megatron-Core's own ranks save, and its other families, against transformers."""

import pytest
from megatron_ranks import EXPERTS, FIELDS, MOE_FIELDS, SHAPE, megatron_models, transformers_answer

import regauge

dcp = pytest.importorskip("torch.distributed.checkpoint")
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
    **{key: value for key, value in EXPERTS.items() if key != "qk_layernorm"}, "add_bias_linear": True, "moe_ffn_hidden_size": 32,
    "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1, "softmax_type": "learnable", "glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0,
}  # fmt: skip
OSS_FIELDS = {
    **FIELDS, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "num_local_experts": 4, "num_experts_per_tok": 2,
    "intermediate_size": 32, "layer_types": ["full_attention"] * 2, "attention_bias": True, "swiglu_limit": 7.0, "sliding_window": 128,
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


def exported(case, made, mistake):
    """What a converter to Hugging Face writes of the checkpoint, with a mistake."""
    folder, _, _ = made[case]
    fields = CASES[case][1]
    right = regauge.from_checkpoint(folder, fields, layout="megatron")
    tensors = {name: torch.tensor(tensor) for name, tensor in right.state_dict().items()}
    mistake(tensors)
    return right, regauge.from_state_dict(tensors, fields)


def on(tensors, end, change):
    names = [name for name in tensors if name.endswith(end)]
    assert names
    for name in names:
        tensors[name] = change(tensors[name]).contiguous()


def halves(tensors):
    """THUDM/slime#1840: all gates, then all ups, as Megatron has them."""
    on(tensors, ("gate_up_proj", "gate_up_proj_bias"), lambda m: torch.cat([m[..., 0::2], m[..., 1::2]], -1))


def not_transposed(tensors):
    """The same thread; both sides are equal, as in the model of 20B."""
    on(tensors, "mlp.experts.down_proj", lambda m: m.transpose(1, 2))


def without_sinks(tensors):
    on(tensors, "sinks", torch.zeros_like)


def even_and_odd(tensors):
    """NVIDIA/Megatron-LM#1547: even coordinates first, although Megatron's function does that itself."""
    apart = lambda m: torch.cat([m[..., 0::2, :], m[..., 1::2, :]], -2)  # noqa: E731
    heads = lambda m: m.reshape(4, 12, -1)  # noqa: E731
    on(tensors, "kv_a_proj_with_mqa.weight", lambda m: torch.cat([m[:16], apart(m[16:])]))
    on(tensors, "q_b_proj.weight", lambda m: torch.cat([heads(m)[:, :8], apart(heads(m)[:, 8:])], 1).reshape(m.shape))


@pytest.mark.parametrize(
    "case, mistake, name, tensors",
    [
        ("gpt_oss", halves, "gate-up-halves", {"ffn.gate.weight", "ffn.gate.bias", "ffn.up.weight", "ffn.up.bias"}),
        ("gpt_oss", not_transposed, "transposed", {"ffn.down.weight"}),
        ("gpt_oss", without_sinks, "lost", {"attn.sinks"}),
        ("deepseek_v3", even_and_odd, "rows-elsewhere", {"attn.q_rotary.weight", "attn.k_rotary.weight"}),
    ],
)
def test_mistakes_of_converters_are_named(made, case, mistake, name, tensors):
    found = regauge.diff(*exported(case, made, mistake))
    assert found.statement == "not-the-same"
    assert {residual.tensor.split(".", 2)[2] for residual in found.residuals if not residual.agrees} == tensors
    assert {cause.mistake for cause in found.diagnosis.causes} == {name}


def without_further_layer(tensors):
    """modelscope/ms-swift#6644, NVIDIA-NeMo/Megatron-Bridge PR 4819: what predicts a further token is not converted."""
    for name in [name for name in tensors if name.startswith("model.layers.3.")]:
        del tensors[name]


def inputs_exchanged(tensors):
    on(tensors, "layers.3.eh_proj.weight", lambda m: torch.cat(m.chunk(2, 1)[::-1], 1))


@pytest.mark.parametrize("mistake, said", [(without_further_layer, "the other file does not have it"), (inputs_exchanged, "its numbers differ")])
def test_layers_that_predict_further_tokens_are_not_left_out(made, mistake, said):
    found = regauge.diff(*exported("deepseek_v3", made, mistake))
    assert found.statement == "undecided"
    line = next(line for line in str(found).splitlines() if "model.layers.3.eh_proj.weight" in line)
    assert said in line


def test_layers_that_predict_further_tokens_lie_in_the_last_stage(made):
    """Layers of a pipeline count from zero in each stage, and these behind all of them."""
    _, states, _ = made["deepseek_v3"]
    fields = CASES["deepseek_v3"][1]

    def stage(state, layers, rest):
        here = {}
        for name, tensor in state.items():
            if not name.startswith("decoder.layers."):
                if rest(name):
                    here[name] = tensor
            elif int(name.split(".")[2]) in layers:
                number, _, end = name.removeprefix("decoder.layers.").partition(".")
                here[f"decoder.layers.{int(number) - layers[0]}.{end}"] = tensor
        return here

    stages = [
        [stage(state, [0], lambda name: name.startswith("embedding")) for state in states],
        [stage(state, [1, 2], lambda name: not name.startswith("embedding")) for state in states],
    ]
    whole = regauge.from_state_dict(states, fields, layout="megatron")
    assert regauge.diff(whole, regauge.from_state_dict(stages, fields, layout="megatron")).statement == "identical"


def test_newer_names_of_layers_that_predict_further_tokens(made):
    """NVIDIA-NeMo/Megatron-Bridge PR 4819: a process of newer Megatron-Core calls them otherwise than a checkpoint."""
    _, states, _ = made["deepseek_v3"]
    fields = CASES["deepseek_v3"][1]
    newer = [{name.replace(".transformer_layer.", ".mtp_model_layer."): tensor for name, tensor in state.items()} for state in states]
    assert newer[0].keys() != states[0].keys()
    models = [regauge.from_state_dict(one, fields, layout="megatron") for one in (states, newer)]
    assert regauge.diff(*models).statement == "identical"


def test_checkpoints_of_training_in_bfloat16(made, tmp_path):
    folder, _, _ = made["llama"]
    names = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {name: torch.empty(one.size) for name, one in names.items() if hasattr(one, "size")}
    dcp.load(tensors, checkpoint_id=folder, no_dist=True)
    rounded = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    rounded |= {f"optimizer.state.exp_avg.{name}": tensor for name, tensor in tensors.items()}
    dcp.save(rounded, checkpoint_id=tmp_path / "right", no_dist=True)
    right = regauge.from_checkpoint(folder, LLAMA_FIELDS)
    found = regauge.diff(right, regauge.from_checkpoint(tmp_path / "right", LLAMA_FIELDS))
    assert found.statement == "same-numbers"
    # Controls: layers in another order, and a tensor that is not known.
    rounded["decoder.layers.mlp.linear_fc2.weight"] = rounded["decoder.layers.mlp.linear_fc2.weight"].flip(0)
    dcp.save(rounded, checkpoint_id=tmp_path / "other", no_dist=True)
    assert regauge.diff(right, regauge.from_checkpoint(tmp_path / "other", LLAMA_FIELDS)).statement == "not-the-same"
    dcp.save({**rounded, "decoder.layers.mlp.more": torch.ones(2, 3)}, checkpoint_id=tmp_path / "more", no_dist=True)
    with pytest.raises(regauge.UsageError, match="not known to hold decoder.layers.0.mlp.more"):
        regauge.from_checkpoint(tmp_path / "more", LLAMA_FIELDS)
