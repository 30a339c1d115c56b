"""Mistakes with scales, zero points and the order of codes, made in numpy on what the tools that quantise wrote
(tests/fixtures/io/packed): in the file itself, or by whoever dequantised it. What `diff` calls them, and what it puts right."""

import json
import types

import numpy
import pytest
import safetensors
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES

PACKED = FIXTURES / "io" / "packed"
HOLDER = "model.layers.1.self_attn.k_proj."  # of 32 x 64 numbers, as the fixtures have
WEIGHT = HOLDER + "weight"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model whose one matrix is to be put into its place."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("plain")
    config = transformers.LlamaConfig(hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                      vocab_size=96, max_position_embeddings=64, tie_word_embeddings=False)  # fmt: skip
    transformers.LlamaForCausalLM(config).to(torch.float32).save_pretrained(path)
    return path


def fixture(name):
    path = PACKED / f"{name}.safetensors"
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, "pt") as file:
        config = json.loads(file.metadata()["config"])
    of_layer = {key.removeprefix("layer."): value for key, value in tensors.items() if key.startswith("layer.")}
    return types.SimpleNamespace(tensors=of_layer, config=config, original=tensors["original"].float(), name=name)


def save(plain, folder, tensors, settings):
    folder.mkdir()
    held = safetensors.torch.load_file(plain / "model.safetensors")
    held.pop(WEIGHT)
    # What is not packed by these formats' tools is F32 here, which FP8's reader leaves alone.
    held |= {HOLDER + key: value.contiguous() for key, value in tensors.items()}
    safetensors.torch.save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((plain / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    return folder


def models(plain, tmp_path, name, edit):
    """The original, the file as the tool wrote it, and the one with the mistake."""
    f = fixture(name)
    original = save(plain, tmp_path / "original", {"weight": f.original}, {})
    right = save(plain, tmp_path / "right", f.tensors, f.config)
    tensors, config = dict(f.tensors), json.loads(json.dumps(f.config))
    edit(tensors, config)
    return original, right, save(plain, tmp_path / "wrong", tensors, config)


def inverted(key):
    return lambda t, _: t.update({key: (1 / t[key].float()).to(t[key].dtype)})


def turned(key):
    return lambda t, _: t.update({key: t[key].T.contiguous()})


def ones(key):
    return lambda t, _: t.update({key: torch.ones_like(t[key].float()).to(t[key].dtype)})


def rolled(key):
    """The scales of other rows, as of another part of a fused tensor."""
    return lambda t, _: t.update({key: torch.roll(t[key].float(), 3, 0 if t[key].shape[0] > 2 else 1).to(t[key].dtype)})


def declared(**keys):
    return lambda _, config: config["quantization_config"].update(keys)


def nibbles_exchanged(key):
    return lambda t, _: t.update({key: (t[key] << 4) | (t[key] >> 4)})


def in_order_of_gptq(t, _):
    """AWQ's words with their codes one after another."""
    for key in ("qweight", "qzeros"):
        words = t[key].numpy().view(numpy.uint32)
        codes = [(words >> (4 * place)) & 15 for place in (0, 4, 1, 5, 2, 6, 3, 7)]
        t[key] = torch.from_numpy(sum(code << numpy.uint32(4 * i) for i, code in enumerate(codes)).astype(numpy.uint32).view(numpy.int32))


def zeros_less_one(t, _):
    t["qzeros"] = t["qzeros"] - 0x11111111


# fixture, mistake, its name in the file, its name where the file was dequantised with it (None: it is not made there).
MISTAKES = {
    "FP8 block scales lost": ("fp8-blocks", ones("weight_scale_inv"), "scale-missing", "scale-missing"),
    "FP8 block scales inverted": ("fp8-blocks", inverted("weight_scale_inv"), "scale-inverted", "scale-inverted"),
    "FP8 block scales transposed": ("fp8-blocks", turned("weight_scale_inv"), "scale-transposed", "scale-transposed"),
    "FP8 block scales of powers of two transposed": ("fp8-blocks-powers", turned("weight_scale_inv"), "scale-transposed", "scale-transposed"),
    "FP8 row scales lost": ("ct-fp8-channel", ones("weight_scale"), "scale-missing", "scale-missing"),
    "FP8 row scales inverted": ("ct-fp8-channel", inverted("weight_scale"), "scale-inverted", "scale-inverted"),
    "FP8 row scales of other rows": ("ct-fp8-channel", rolled("weight_scale"), "scale-other", "scale-other"),
    "FP8 scale lost": ("ct-fp8-tensor", ones("weight_scale"), "scale-missing", "scale-missing"),
    "INT8 scales lost": ("ct-int8-channel", ones("weight_scale"), "scale-missing", "scale-missing"),
    "INT8 scales inverted": ("ct-int8-channel", inverted("weight_scale"), "scale-inverted", "scale-inverted"),
    "INT4 group scales inverted": ("ct-int4-group", inverted("weight_scale"), "scale-inverted", "scale-inverted"),
    "INT4 group scales of other rows": ("ct-int4-group", rolled("weight_scale"), "scale-other", "scale-other"),
    "NVFP4 global scale lost": ("ct-nvfp4", ones("weight_global_scale"), "scale-other", "scale-missing"),
    "NVFP4 global scale inverted": ("ct-nvfp4", inverted("weight_global_scale"), "scale-inverted", "scale-inverted"),
    "NVFP4 nibbles exchanged": ("ct-nvfp4", nibbles_exchanged("weight_packed"), "code-order", "code-order"),
    "MXFP4 nibbles exchanged": ("ct-mxfp4", nibbles_exchanged("weight_packed"), "code-order", "code-order"),
    "NF4 nibbles exchanged": ("bnb-nf4", nibbles_exchanged("weight"), "code-order", "code-order"),
    "GPTQ zeros of version 2 under the label of version 1": ("gptq-4-zeros", declared(checkpoint_format="gptq"), "zero-point", "zero-point"),
    "GPTQ zeros of version 1 under the label of version 2": ("gptq-4-zeros-v1", declared(checkpoint_format="gptq_v2"), "zero-point", "zero-point"),
    "GPTQ zeros one too small": ("gptq-8", lambda t, _: t.update(qzeros=t["qzeros"] - 0x01010101), "zero-point", "zero-point"),
    "GPTQ scales inverted": ("gptq-4", inverted("scales"), "scale-inverted", "scale-inverted"),
    "GPTQ order of columns ignored": ("gptq-4-order", lambda t, _: t.pop("g_idx"), None, "scale-blocks"),
    "AWQ in GPTQ's order": ("awq", in_order_of_gptq, "code-order", "code-order"),
    "AWQ zeros one too small": ("awq", zeros_less_one, "zero-point", "zero-point"),
    "MLX scales inverted": ("mlx-4", inverted("scales"), "scale-inverted", "scale-inverted"),
}  # fmt: skip


def diagnosis(regauge, a, b):
    answer = json.loads(regauge("diff", a, b, "--json", expect=1))
    assert answer["verdict"] != "same"
    return answer["diagnosis"]


def names(found):
    return {cause["mistake"] for cause in found["causes"]}


def same_as(regauge, a, b):
    return json.loads(regauge("diff", a, b, "--json", expect={0, 1}))["statement"] in ("identical", "same-numbers")


def dequantised(regauge, path):
    out = path.with_name(path.name + "-dequantised")
    regauge("convert", path, "-o", out, "--to", "safetensors", "--dtype", "f32")
    return out


@pytest.mark.parametrize("name", sorted({m[0] for m in MISTAKES.values()}))
def test_what_the_tool_wrote_is_the_same(regauge, plain, tmp_path, name):
    original, right, _ = models(plain, tmp_path, name, lambda *_: None)
    answer = json.loads(regauge("diff", original, right, "--json", expect={0, 1}))
    cut_off = any("cut off at the end" in reason for reason in answer["reasons"])
    assert answer["statement"] == "same-numbers" or cut_off, answer["reasons"]


def is_exact(mistake, name):
    """Scales of 16 bits that were inverted are not had back exactly, nor those that were lost, nor numbers that were cut off."""
    if mistake in ("scale-missing", "scale-other"):
        return False
    inverted_in_16_bits = mistake == "scale-inverted" and not name.startswith(("FP8 block", "NVFP4", "MLX"))
    return not inverted_in_16_bits and name not in ("GPTQ zeros one too small", "AWQ in GPTQ's order", "AWQ zeros one too small")


@pytest.mark.parametrize("name", [name for name, case in MISTAKES.items() if case[2]])
def test_named_and_repaired_in_the_file(regauge, plain, tmp_path, name):
    fixture_name, edit, expected, _ = MISTAKES[name]
    original, right, wrong = models(plain, tmp_path, fixture_name, edit)
    found = diagnosis(regauge, original, wrong)
    assert names(found) == {expected}, found
    assert found["certain"] >= is_exact(expected, name), found
    if found["certain"]:
        regauge("diff", original, wrong, "--repair", "-o", tmp_path / "fixed", expect=1)
        assert same_as(regauge, right, tmp_path / "fixed")


@pytest.mark.parametrize("name", [name for name, case in MISTAKES.items() if case[3]])
def test_named_and_repaired_where_it_was_dequantised(regauge, plain, tmp_path, name):
    fixture_name, edit, _, expected = MISTAKES[name]
    _, right, wrong = models(plain, tmp_path, fixture_name, edit)
    plainly = dequantised(regauge, wrong)
    found = diagnosis(regauge, right, plainly)
    assert names(found) == {expected}, found
    assert found["certain"], found
    regauge("diff", right, plainly, "--repair", "-o", tmp_path / "fixed", expect=1)
    assert same_as(regauge, right, tmp_path / "fixed")


@pytest.mark.parametrize("name", ["FP8 block scales lost", "FP8 row scales lost", "FP8 scale lost", "INT8 scales lost"])
def test_lost_scales_are_named_without_the_quantised_file(regauge, plain, tmp_path, name):
    original, _, wrong = models(plain, tmp_path, *MISTAKES[name][:2])
    found = diagnosis(regauge, original, dequantised(regauge, wrong))
    assert names(found) == {"scale-missing"}, found


def test_a_trained_copy_has_none_of_them(regauge, plain, tmp_path):
    """Negative control: numbers that were changed by as much as rounding makes of them, and more."""
    f = fixture("gptq-4")
    original = save(plain, tmp_path / "original", {"weight": f.original}, {})
    for size in (0.1, 1):
        torch.manual_seed(2)
        noisy = f.original + size * f.original.std() * torch.randn_like(f.original)
        changed = save(plain, tmp_path / f"changed{size}", {"weight": noisy}, {})
        assert names(diagnosis(regauge, original, changed)) <= {"damaged"}


REFUSED = {
    "FP8 without scales": ("fp8-blocks", lambda t, _: t.pop("weight_scale_inv"), "has no scales"),
    "FP8 with the scales of a fused tensor": ("fp8-blocks", lambda t, _: t.update(weight_scale_inv=t["weight_scale_inv"].repeat(3, 1)), "fused"),
    "FP8 blocks misdeclared": ("fp8-blocks", declared(weight_block_size=[32, 16]), "size of a block"),
    "FP8 matrix exported empty": ("fp8-blocks", lambda t, _: t.update(weight=torch.zeros((0,)).to(torch.float8_e4m3fn)), "k_proj"),
    "NVFP4 without its global scale": ("ct-nvfp4", lambda t, _: t.pop("weight_global_scale"), "scale of its scales"),
    "GPTQ group size misdeclared": ("gptq-4", declared(group_size=64), "group_size 64"),
    "AWQ group size misdeclared": ("awq", declared(group_size=64), "group_size 64"),
    "GPTQ bits misdeclared": ("gptq-4", declared(bits=8), "8 bits"),
    "MLX group size misdeclared": ("mlx-4", lambda _, c: c["quantization"].update(group_size=64), "groups of 64"),
    "group scales transposed": ("ct-int4-group", turned("weight_scale"), "transposed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_its_name(regauge, plain, tmp_path, name):
    fixture_name, edit, words = REFUSED[name]
    _, _, wrong = models(plain, tmp_path, fixture_name, edit)
    with pytest.raises(AssertionError, match=words):
        regauge("inspect", wrong)


def test_a_last_block_that_is_a_part_of_one(regauge, plain, tmp_path):
    """576 rows in blocks of 128: shapes alone suggest 116, which reads most rows with another block's scale."""
    torch.manual_seed(3)
    config = transformers.LlamaConfig(hidden_size=192, intermediate_size=576, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4,
                                      vocab_size=96, max_position_embeddings=64, tie_word_embeddings=False)  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "original")
    held = safetensors.torch.load_file(tmp_path / "original" / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    weights = held[name] * torch.exp(torch.randn(576, 1))
    held[name] = weights
    safetensors.torch.save_file(held, tmp_path / "original" / "model.safetensors", metadata={"format": "pt"})
    padded = torch.nn.functional.pad(weights, (0, 64, 0, 64))
    scales = padded.reshape(5, 128, 2, 128).abs().amax((1, 3)) / 448
    each = lambda rows: scales.repeat_interleave(rows, 0)[:576].repeat_interleave(128, 1)[:, :192]  # noqa: E731
    codes = (weights / each(128)).to(torch.float8_e4m3fn)
    (tmp_path / "packed").mkdir()
    declares = json.loads((tmp_path / "original" / "config.json").read_text())
    packed = dict(held) | {name: codes, name + "_scale_inv": scales}
    safetensors.torch.save_file(packed, tmp_path / "packed" / "model.safetensors", metadata={"format": "pt"})
    for settings in ({}, {"weight_block_size": [128, 128]}):
        (tmp_path / "packed" / "config.json").write_text(json.dumps(declares | {"quantization_config": {"quant_method": "fp8"} | settings}))
        assert same_as(regauge, tmp_path / "original", tmp_path / "packed")
    (tmp_path / "guessed").mkdir()
    (tmp_path / "guessed" / "config.json").write_text(json.dumps(declares))
    safetensors.torch.save_file(held | {name: codes.float() * each(116)}, tmp_path / "guessed" / "model.safetensors", metadata={"format": "pt"})
    found = diagnosis(regauge, tmp_path / "packed", tmp_path / "guessed")
    assert names(found) == {"scale-blocks"} and found["certain"], found
