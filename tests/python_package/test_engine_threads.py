"""Mistakes that people reported of running engines (docs/threads.md), made in what the ranks hold."""

import json
import types

import numpy
import pytest
from test_engines import FIXTURES, of_rank, vllm_ranks

import regauge

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def tensors_of(model):
    return {name: numpy.array(tensor) for name, tensor in model.state_dict().items()}


def diff(model, ranks):
    return regauge.diff(model, regauge.from_state_dict(ranks, model.config, layout="vllm"))


def causes(found):
    assert found.statement == "not-the-same"
    return {cause.mistake for cause in found.diagnosis.causes}


def fused_ranks(model, world):
    """Phi-3's files hold queries, keys and values as one, and gate and up; a rank holds its share of each of these."""
    fields = model.config
    width = fields["hidden_size"] // fields["num_attention_heads"]
    ends = numpy.cumsum([fields["num_attention_heads"] * width, fields["num_key_value_heads"] * width])
    tensors = tensors_of(model)
    for name in [name for name in tensors if "qkv_proj" in name or "gate_up_proj" in name]:
        parts = ("q_proj", "k_proj", "v_proj") if "qkv" in name else ("gate_proj", "up_proj")
        fused = "qkv_proj" if "qkv" in name else "gate_up_proj"
        whole = tensors.pop(name)
        pieces = numpy.split(whole, ends if "qkv" in name else 2)
        tensors |= {name.replace(fused, part): piece for part, piece in zip(parts, pieces)}
    return [of_rank(tensors, rank, world, kv_heads=fields["num_key_value_heads"]) for rank in range(world)]


@pytest.mark.parametrize("world", [1, 2])
def test_ranks_of_a_family_that_stores_what_is_fused(world):
    model = regauge.open(FIXTURES / "phi3")
    assert diff(model, fused_ranks(model, world)).statement == "identical"


def test_sizes_that_are_not_scaled_to_the_rank():
    """TensorRT-LLM#11220: the fused matrix is cut as one, and not its queries, keys and values."""
    model = regauge.open(FIXTURES / "phi3")
    ranks = fused_ranks(model, 2)
    for name, tensor in tensors_of(model).items():
        if "qkv_proj" in name:
            ranks[0][name], ranks[1][name] = numpy.split(tensor, 2)
    assert causes(diff(model, ranks)) == {"qkv-order"}


def test_w1_and_w3_that_alternate():
    """vLLM PR 52240: some backends take a row of w1, a row of w3, and others all of w1 first."""
    model = regauge.open(FIXTURES / "qwen3_moe")
    ranks = vllm_ranks(model, 1)
    assert diff(model, ranks).statement == "identical"
    for name in [name for name in ranks[0] if "w13_weight" in name]:
        experts, rows, columns = ranks[0][name].shape
        ranks[0][name] = ranks[0][name].reshape(experts, 2, rows // 2, columns).swapaxes(1, 2).reshape(experts, rows, columns)
    assert causes(diff(model, ranks)) == {"gate-up-halves"}


def test_a_name_that_was_replaced_twice():
    """vLLM#48449: qkv_proj holds v_proj, and becomes qkqkv_proj."""
    model = regauge.open(FIXTURES / "llama")
    held = {name.replace("qkv_proj", "qkqkv_proj"): tensor for name, tensor in vllm_ranks(model, 1)[0].items()}
    with pytest.raises(regauge.UsageError, match="q_proj.weight' is missing"):
        regauge.from_state_dict(held, model.config, layout="vllm")


def latent_ranks(tensors, world):
    """As vLLM's DeepseekV2MLAAttention holds them: the two maps to latents as one, which is not cut, and those from latents cut by heads."""

    def held(rank):
        plain = {name: tensor for name, tensor in tensors.items() if "self_attn" not in name}
        result = of_rank(plain, rank, world, kv_heads=world)
        for name in [name for name in tensors if "self_attn" in name]:
            if "q_a_proj" in name:
                both = tensors[name], tensors[name.replace("q_a_proj", "kv_a_proj_with_mqa")]
                result[name.replace("q_a_proj", "fused_qkv_a_proj")] = numpy.concatenate(both)
            elif any(part in name for part in ("q_proj", "q_b_proj", "kv_b_proj")):
                result[name] = numpy.split(tensors[name], world)[rank]
            elif "o_proj" in name:
                result[name] = numpy.split(tensors[name], world, 1)[rank]
            elif "kv_a_proj_with_mqa" not in name or name.replace("kv_a_proj_with_mqa", "q_a_proj") not in tensors:
                result[name] = tensors[name]
        return result

    return [held(rank) for rank in range(world)]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("family", ["deepseek_v3", "deepseek_v3-direct"])
def test_ranks_with_latents(family, world):
    model = regauge.open(FIXTURES / family)
    ranks = latent_ranks(tensors_of(model), world)
    assert diff(model, ranks).statement == "identical"
    if world > 1:  # a control
        assert not diff(model, ranks[::-1]).same


BLOCK = 32
LATENTS = dict(
    vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=64,
    kv_lora_rank=64, q_lora_rank=32, qk_nope_head_dim=8, v_head_dim=8, qk_rope_head_dim=8, n_group=1, topk_group=1,
    n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, first_k_dense_replace=2, tie_word_embeddings=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """A DeepSeek whose kv_b_proj transformers' own quantiser wrote in FP8 with a scale for each block; the floats of the rest, and codes and scales."""
    from safetensors.torch import load_file, save_file
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    folder = tmp_path_factory.mktemp("fp8")
    torch.manual_seed(1)
    transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**LATENTS)).to(torch.bfloat16).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    settings = transformers.FineGrainedFP8Config(weight_block_size=(BLOCK, BLOCK))
    quantiser = Fp8Quantize(types.SimpleNamespace(quantization_config=settings))
    packed = {}
    for name in [name for name in tensors if "kv_b_proj" in name]:
        blocks = torch.arange(1, tensors[name].shape[0] // BLOCK * tensors[name].shape[1] // BLOCK + 1).reshape(-1, tensors[name].shape[1] // BLOCK)
        packed |= quantiser._quantize_one(name, tensors.pop(name) * blocks.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1))
    save_file(tensors | packed, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    declared = {"quantization_config": json.loads(json.dumps(settings.to_dict(), default=str))}
    (folder / "config.json").write_text(json.dumps(config | declared))
    return types.SimpleNamespace(folder=folder, config=config, tensors=tensors, packed=packed)


def decoded(quantised, turn):
    """What MLA makes of kv_b_proj when its weights are loaded: floats by the scales that the layer holds."""
    result = {}
    for name in [name for name in quantised.packed if name.endswith("weight")]:
        scales = turn(quantised.packed[name + "_scale_inv"].float())
        spread = scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        result[name] = quantised.packed[name].float() * spread[: len(quantised.packed[name])]
    return result


@pytest.mark.parametrize("world", [1, 2])
def test_block_scales_that_were_turned_where_they_lie(quantised, world):
    """vLLM PR 50204: a kernel transposes the scales in place, and what is decoded by them afterwards is another matrix."""
    said = {}
    for how, turn in (("right", lambda scales: scales), ("wrong", lambda scales: scales.T)):
        tensors = {name: tensor.float().numpy() for name, tensor in (quantised.tensors | decoded(quantised, turn)).items()}
        engine = regauge.from_state_dict(latent_ranks(tensors, world), quantised.config, layout="vllm")
        said[how] = regauge.diff(quantised.folder, engine)
    assert said["right"].statement in ("identical", "same-numbers")
    assert causes(said["wrong"]) == {"scale-transposed"}
