"""Mistakes as converters make them, on the files themselves: named by `diff`, and undone by `--repair`."""

import json
import shutil

import gguf
import numpy
import pytest
import safetensors.numpy
from conftest import FIXTURES


def permute(rows, heads):
    """From halves to adjacent pairs, as converters to GGUF do."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def unpermute(rows, heads):
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def on(tensors, ends, function):
    """Changes every tensor whose name ends so; says how many there were."""
    found = [name for name in tensors if name.endswith(ends)]
    assert found, ends
    for name in found:
        tensors[name] = numpy.ascontiguousarray(function(tensors[name]))


def swap(tensors, one, other):
    for name in [name for name in tensors if one in name]:
        twin = name.replace(one, other)
        tensors[name], tensors[twin] = tensors[twin], tensors[name]


def rotary(function):
    def edit(tensors, config):
        heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
        on(tensors, ("q_proj.weight", "q_proj.bias"), lambda rows: function(rows, heads))
        on(tensors, ("k_proj.weight", "k_proj.bias"), lambda rows: function(rows, keys))

    return edit


def gains(offset):
    return lambda tensors, _: on(tensors, "norm.weight", lambda gain: gain + numpy.float32(offset))


def centring(tensors, _):
    on(tensors, "embed_tokens.weight", lambda rows: rows - rows.mean(axis=1, keepdims=True))


def gate_and_up(tensors, _):
    swap(tensors, "gate_proj", "up_proj")


def fused_order(tensors, _):
    reorder = lambda m: numpy.concatenate([numpy.split(m, 3, -1)[i] for i in (1, 0, 2)], -1)  # noqa: E731
    on(tensors, ("c_attn.weight", "c_attn.bias"), reorder)


def fused_split(tensors, config):
    """Rows as q, k, v one after the other where the model reads them head by head."""
    heads = config["num_attention_heads"]
    flat = lambda m: m.reshape(heads, 3, -1, *m.shape[1:]).swapaxes(0, 1).reshape(m.shape)  # noqa: E731
    on(tensors, ("query_key_value.weight", "query_key_value.bias"), flat)


def transposed(end):
    return lambda tensors, _: on(tensors, end, numpy.transpose)


def layers(tensors, _):
    swap(tensors, ".0.", ".1.")


def slice_of_another(tensors, _):
    tensors["model.layers.1.mlp.up_proj.weight"][4:11] = tensors["model.layers.0.mlp.up_proj.weight"][:7]


def one_weight(tensors, _):
    tensors["model.layers.0.mlp.down_proj.weight"][3, 5] += 0.01 * numpy.sqrt(
        numpy.mean(tensors["model.layers.0.mlp.down_proj.weight"] ** 2)
    )


def keys(**values):
    return lambda _, config: config.update(values)


def rope(**values):
    return lambda _, config: config["rope_parameters"].update(values)


def both(*edits):
    def edit(tensors, config):
        for one in edits:
            one(tensors, config)

    return edit


LLAMAS = ["llama", "llama-tied-biased", "mistral", "qwen2", "qwen3", "gemma"]
BY_NAME = {
    "rotary-missing": rotary(permute),
    "rotary-doubled": rotary(unpermute),
    "rotary-inverted": rotary(lambda rows, heads: permute(permute(rows, heads), heads)),
    "gain-offset": gains(-1),
    "centred": centring,
    "gate-up-swapped": gate_and_up,
    "layers-exchanged": layers,
    "rows-elsewhere": slice_of_another,
    "damaged": one_weight,
    "rope": rope(rope_theta=54321.0),
    "constant": keys(rms_norm_eps=1e-3),
}


CASES = [
    (name, mistake, edit)
    for name in LLAMAS
    for mistake, edit in BY_NAME.items()
    # With 8 coordinates to a head, backwards is the same permutation as twice.
    if (name, mistake) != ("llama-tied-biased", "rotary-inverted")
]
CASES += [
    ("gemma", "gain-offset", gains(1)),
    ("gpt2", "qkv-order", fused_order),
    ("gpt2", "transposed", transposed("attn.c_proj.weight")),
    ("gpt2", "layers-exchanged", layers),
    ("gpt_neox", "qkv-order", fused_split),
    ("gpt_neox", "transposed", transposed("attention.dense.weight")),
    ("bert", "transposed", transposed("attention.self.query.weight")),
    ("vit", "transposed", transposed("value.weight")),
]


def make(source, target, edit):
    shutil.copytree(source, target)
    tensors = safetensors.numpy.load_file(target / "model.safetensors")
    config = json.loads((target / "config.json").read_text())
    edit(tensors, config)
    safetensors.numpy.save_file(tensors, target / "model.safetensors", {"format": "pt"})
    (target / "config.json").write_text(json.dumps(config))


def diagnose(regauge, a, b, fixed, mistakes):
    answer = json.loads(regauge("diff", a, b, "--json", "--repair", "-o", fixed, expect=1))
    assert [cause["mistake"] for cause in answer["diagnosis"]["causes"]] == mistakes, answer["diagnosis"]
    assert answer["diagnosis"]["certain"]
    if mistakes == ["centred"]:  # what was lost is calculated: a few last digits differ
        again = json.loads(regauge("diff", a, fixed, "--json", expect=1))
        assert all(x["residual"] <= 3 * x["rounding"] for x in again["tensors"])
    else:
        assert json.loads(regauge("diff", a, fixed, "--json"))["identity"]
    return answer["diagnosis"]


@pytest.mark.parametrize(
    ("name", "mistake", "edit"), CASES, ids=[f"{name}-{mistake}" for name, mistake, _ in CASES]
)
def test_a_mistake_is_named_and_undone(regauge, tmp_path, name, mistake, edit):
    source, broken, fixed = FIXTURES / name, tmp_path / "broken", tmp_path / "fixed"
    make(source, broken, edit)
    if (name, mistake) == ("llama-tied-biased", "rope"):  # scaled frequencies have to be mended by hand
        answer = json.loads(regauge("diff", source, broken, "--json", expect=1))["diagnosis"]
        assert [cause["mistake"] for cause in answer["causes"]] == ["rope"]
        assert answer["certain"] and not answer["repairable"]
        return
    if mistake == "damaged":
        answer = json.loads(regauge("diff", source, broken, "--json", expect=1))["diagnosis"]
        assert [cause["mistake"] for cause in answer["causes"]] == ["damaged"]
        assert "at input 5, output 3 by" in answer["causes"][0]["sentence"]
        regauge("diff", source, broken, "--repair", "-o", fixed, expect=1)
        assert not fixed.exists()
        return
    diagnose(regauge, source, broken, fixed, [mistake])
    before = safetensors.numpy.load_file(source / "model.safetensors")
    after = safetensors.numpy.load_file(fixed / "model.safetensors")
    assert before.keys() == after.keys()
    for tensor, value in before.items():
        assert numpy.allclose(value, after[tensor], rtol=1e-5, atol=1e-6), tensor


@pytest.mark.parametrize(
    ("mistake", "edit"),
    [
        ("rotary-missing", lambda rows, heads, _: unpermute(rows, heads)),
        ("rotary-doubled", lambda rows, heads, _: permute(rows, heads)),
        ("rotary-heads", lambda rows, heads, queries: permute(unpermute(rows, heads), queries)),
    ],
)
def test_a_gguf_file(regauge, tmp_path, mistake, edit):
    name = "llama-tied-biased"
    broken = tmp_path / "broken.gguf"
    shutil.copy(FIXTURES / f"{name}-gguf" / "model.gguf", broken)
    config = json.loads((FIXTURES / name / "config.json").read_text())
    queries = config["num_attention_heads"]
    for tensor in gguf.GGUFReader(broken, "r+").tensors:
        heads = queries if "attn_q" in tensor.name else config["num_key_value_heads"]
        if ("attn_q" in tensor.name and mistake != "rotary-heads") or "attn_k" in tensor.name:
            tensor.data[:] = edit(numpy.array(tensor.data), heads, queries)
    diagnose(regauge, FIXTURES / name, broken, tmp_path / "fixed.gguf", [mistake])


def test_two_mistakes_at_once(regauge, tmp_path):
    source, broken = FIXTURES / "llama", tmp_path / "broken"
    make(source, broken, both(gate_and_up, gains(-1), keys(rms_norm_eps=1e-3)))
    diagnose(
        regauge, source, broken, tmp_path / "fixed", ["constant", "gain-offset", "gate-up-swapped"]
    )


def test_a_mistake_in_a_moved_model(regauge, tmp_path):
    source, moved, broken = FIXTURES / "llama", tmp_path / "moved", tmp_path / "broken"
    regauge("act", source, "-o", moved, "--random", 3)
    make(moved, broken, rotary(permute))
    fixed = tmp_path / "fixed"
    answer = json.loads(regauge("diff", source, broken, "--json", "--repair", "-o", fixed, expect=1))
    assert [cause["mistake"] for cause in answer["diagnosis"]["causes"]] == ["rotary-missing"]
    assert answer["diagnosis"]["moved"]
    regauge("diff", source, fixed)


def test_nothing_is_blamed_on_another_model(regauge, tmp_path):
    source, other = FIXTURES / "llama", tmp_path / "other"
    random = numpy.random.default_rng(1)

    def redraw(tensors, _):
        on(tensors, "proj.weight", lambda m: random.normal(size=m.shape).astype(m.dtype))
        on(tensors, ("lm_head.weight", "embed_tokens.weight"), lambda m: m[::-1])

    make(source, other, redraw)
    assert "No known mistake explains it." in regauge("diff", source, other, expect=1)
