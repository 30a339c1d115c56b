"""Mistakes that people reported (docs/threads.md), made in numpy on transformers' own small models: what `diff` calls them."""

import json
import re
import shutil

import numpy
import pytest
import safetensors.numpy
from conftest import FIXTURES
from test_diagnosis import on, swap



def exchanged_experts(first, second):
    def edit(tensors, _):
        for expert in sorted({re.search(r"experts\.\d+\.", name)[0] for name in tensors if ".experts." in name}):
            swap(tensors, expert + first, expert + second)

    return edit


def halves(tensors, _):
    """All gates, then all ups, where gpt-oss lets them alternate."""
    apart = lambda m: numpy.concatenate([m[..., 0::2], m[..., 1::2]], -1)  # noqa: E731
    on(tensors, ("gate_up_proj", "gate_up_proj_bias"), apart)


def alternating(tensors, _):
    """A gate, an up, where Phi-3 has all gates first."""
    on(tensors, "gate_up_proj.weight", lambda m: numpy.stack(numpy.split(m, 2), 1).reshape(m.shape))


def other_half_first(tensors, _):
    on(tensors, "gate_up_proj.weight", lambda m: numpy.concatenate(numpy.split(m, 2)[::-1]))


def sideways(end):
    """The numbers of the transposed matrix, as a loader takes them that does not look at the shape."""
    return lambda tensors, _: on(tensors, tuple(n for n in tensors if ".experts." in n and n.endswith(end)),
                                 lambda m: m.T.reshape(m.shape))  # fmt: skip


def next_expert(tensors, _):
    experts = {name: tensors[name] for name in tensors if ".experts." in name}
    count = 1 + max(int(re.search(r"experts\.(\d+)\.", name)[1]) for name in experts)
    for name, value in experts.items():
        tensors[re.sub(r"experts\.(\d+)\.", lambda m: f"experts.{(int(m[1]) + 1) % count}.", name)] = value


def folded_past_the_router(tensors, config):
    """A norm's gain goes into the experts, and not into the router, as a smoothing that does not know of it does."""
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        factor = numpy.exp(0.5 * numpy.random.default_rng(layer).normal(size=config["hidden_size"])).astype("float32")
        tensors[at + "post_attention_layernorm.weight"] /= factor
        for name in tensors:
            if name.startswith(at + "mlp.experts.") and name.endswith(("gate_proj.weight", "up_proj.weight")):
                tensors[name] *= factor


def averaged_over_the_group(tensors, config):
    """A factor for every coordinate of o, and its mean over the heads of a group for v."""
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    for name in [name for name in tensors if name.endswith("o_proj.weight")]:
        factor = numpy.exp(0.5 * numpy.random.default_rng(1).normal(size=tensors[name].shape[1])).astype("float32")
        tensors[name] *= factor
        shared = factor.reshape(keys, heads // keys, -1).mean(1).reshape(-1, 1)
        tensors[name.replace("o_proj", "v_proj")] /= shared


def folded_post_gains(tensors, config):
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for gain, last in (("post_attention_layernorm", "self_attn.o_proj"), ("post_feedforward_layernorm", "mlp.down_proj")):
            tensors[f"{at}{last}.weight"] *= 1 + tensors[f"{at}{gain}.weight"][:, None]
            tensors[f"{at}{gain}.weight"][:] = 0


def chunks_of_two_ranks(tensors, config):
    """q, k and v of the first half of the heads, then of the second."""
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"] // heads

    def chunked(m):
        parts = numpy.split(m, [heads * width, (heads + keys) * width])
        return numpy.concatenate([numpy.split(part, 2)[rank] for rank in (0, 1) for part in parts])

    on(tensors, "qkv_proj.weight", chunked)


def rotary_pairs(tensors, config):
    for part, heads in (("q", config["num_attention_heads"]), ("k", config["num_key_value_heads"])):
        on(tensors, (part + "_proj.weight", part + "_norm.weight"),
           lambda m, heads=heads: m.reshape(heads, -1, 2, *m.shape[1:]).swapaxes(1, 2).reshape(m.shape))  # fmt: skip


def layers_in_another_order(tensors, config):
    count = config["num_hidden_layers"]
    before = dict(tensors)
    for name, value in before.items():
        tensors[re.sub(r"layers\.(\d+)\.", lambda m: f"layers.{(int(m[1]) + 1) % count}.", name)] = value


def keys_and_values_one_after_the_other(tensors, config):
    heads, keys, values = config["num_attention_heads"], config["qk_nope_head_dim"], config["v_head_dim"]

    def split(m):
        by_head = m.reshape(heads, keys + values, -1)
        return numpy.concatenate([by_head[:, :keys].reshape(-1, m.shape[1]), by_head[:, keys:].reshape(-1, m.shape[1])])

    on(tensors, "kv_b_proj.weight", split)


def tiled_value_heads(tensors, config):
    """The first value head of every key head, then the second ones, in one of the maps that hold them."""
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    on(tensors, "in_proj_z.weight",
       lambda m: m.reshape(keys, values // keys, -1, m.shape[1]).swapaxes(0, 1).reshape(m.shape))  # fmt: skip


def encoder_from_head(tensors, _):
    tensors["shared.weight"] = tensors["lm_head.weight"].copy()


def plus_one(*ends):
    return lambda tensors, _: on(tensors, ends, lambda gain: gain + numpy.float32(1))


def zero(end):
    return lambda tensors, _: on(tensors, end, numpy.zeros_like)


def declared(**changes):
    return lambda _, config: config.update(changes)


# name -> fixture, what is done, what it is called in place, and in a copy that was moved afterwards (None: not named).
MISTAKES = {
    "gate and up of experts exchanged": ("qwen3_moe", exchanged_experts("gate_proj", "up_proj"), "gate-up-swapped", "gate-up-swapped"),
    "w1 and w3 exchanged": ("mixtral", exchanged_experts("w1.", "w3."), "gate-up-swapped", "gate-up-swapped"),
    "the other half first": ("phi3", other_half_first, "gate-up-swapped", "gate-up-swapped"),
    "halves for alternating": ("gpt_oss", halves, "gate-up-halves", "gate-up-halves"),
    "alternating for halves": ("phi3", alternating, "gate-up-halves", "gate-up-halves"),
    "experts' down transposed": ("qwen3_moe", sideways("down_proj.weight"), "transposed", "transposed"),
    "experts in another order": ("qwen3_moe", next_expert, "experts-order", None),
    "router in another order": ("qwen3_moe", lambda t, _: on(t, "mlp.gate.weight", lambda m: numpy.roll(m, 1, 0)), "experts-order", "experts-order"),
    "router not rescaled": ("qwen3_moe", folded_past_the_router, "router-unscaled", None),
    "selection bias lost": ("deepseek_v3", zero("e_score_correction_bias"), "lost", None),
    "selection bias permuted": ("deepseek_v3", lambda t, _: on(t, "e_score_correction_bias", lambda m: numpy.roll(m, 1)), "experts-order", "experts-order"),
    "shared expert as an ordinary one": ("deepseek_v3", lambda t, _: swap(t, "mlp.shared_experts.", "mlp.experts.0."), "rows-elsewhere", None),
    "renormalisation": ("qwen3_moe", declared(norm_topk_prob=False), "constant", "constant"),
    "kv_b split wrongly": ("deepseek_v3", keys_and_values_one_after_the_other, "rows-elsewhere", None),
    "value heads in another order": ("qwen3_5_text", tiled_value_heads, "rows-elsewhere", None),
    "qkv in chunks of ranks": ("phi3", chunks_of_two_ranks, "qkv-order", "qkv-order"),
    "rotary pairs of OLMoE": ("olmoe", rotary_pairs, "rotary-doubled", "rotary-doubled"),
    "1 added twice": ("gemma3", plus_one("norm.weight"), "gain-offset", "gain-offset"),
    "1 added to norms of q and k": ("gemma3", plus_one("q_norm.weight", "k_norm.weight"), "gain-offset", "gain-offset"),
    "post gains folded": ("gemma2", folded_post_gains, "post-gain-folded", "post-gain-folded"),
    "layers in another order": ("gemma3", layers_in_another_order, "layers-exchanged", None),
    "encoder's table from the head": ("t5", encoder_from_head, "rows-elsewhere", None),
    "v and o of a group averaged": ("llama", averaged_over_the_group, "scale-other", None),
    "head's bias lost": ("marian", zero("final_logits_bias"), "lost", None),
}  # fmt: skip


def damaged_copy(name, folder):
    fixture, edit, _, _ = MISTAKES[name]
    shutil.copytree(FIXTURES / fixture, folder)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    edit(tensors, config)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return FIXTURES / fixture, folder


def names(regauge, a, b):
    result = regauge("diff", a, b, "--json", expect=1)
    answer = json.loads(result)
    assert answer["verdict"] in ("perturbed", "different")
    return {cause["mistake"] for cause in answer["diagnosis"]["causes"]}


@pytest.mark.parametrize("name", MISTAKES)
def test_is_named_in_place(regauge, tmp_path, name):
    assert names(regauge, *damaged_copy(name, tmp_path / "b")) == {MISTAKES[name][2]}


@pytest.mark.parametrize("name", MISTAKES)
def test_is_told_and_mostly_named_in_a_moved_copy(regauge, tmp_path, name):
    a, b = damaged_copy(name, tmp_path / "b")
    regauge("act", b, "--random", "3", "-o", tmp_path / "moved")
    found = names(regauge, a, tmp_path / "moved")
    if MISTAKES[name][3]:
        assert found == {MISTAKES[name][3]}


@pytest.mark.parametrize("name", [name for name, (_, _, named, _) in MISTAKES.items() if named not in ("lost", "damaged")])
def test_is_repaired(regauge, tmp_path, name):
    a, b = damaged_copy(name, tmp_path / "b")
    regauge("diff", a, b, "--repair", "-o", tmp_path / "fixed", expect=1)
    if MISTAKES[name][2] not in ("post-gain-folded", "scale-other"):
        regauge("diff", a, tmp_path / "fixed")
        return
    right, fixed = (safetensors.numpy.load_file(folder / "model.safetensors") for folder in (a, tmp_path / "fixed"))
    for tensor, value in right.items():  # but for the last digits, since it was divided
        numpy.testing.assert_allclose(fixed[tensor], value, rtol=1e-6)


def test_the_page_names_its_cases():
    page = (FIXTURES.parent.parent / "docs" / "threads.md").read_text()
    shown = set(re.findall(r"\*([^*|]+)\* \(`", page))
    assert shown == set(MISTAKES)
