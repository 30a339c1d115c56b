"""What is written to disk: the way back, untouched bytes, other formats."""

import json
import shutil

import gguf
import numpy
import pytest
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES
from test_transformers_judge import HF, load, outputs, relative_change, untying, weights

GGUF = sorted(path.parent.name for path in FIXTURES.glob("*/model.gguf"))
# A llama config cannot say the rotary frequencies that this file has.
GGUF_TO_HF = [name for name in GGUF if name != "llama-tied-biased-gguf"]


def gguf_tensors(path):
    return {
        tensor.name: torch.from_numpy(numpy.array(tensor.data).reshape(tensor.shape[::-1].tolist()))
        for tensor in gguf.GGUFReader(path).tensors
    }


def raw(folder):
    """Every tensor's bytes, shape and dtype."""
    return {
        name: (tensor.dtype, tuple(tensor.shape), tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, tensor in weights(folder).items()
    }


def assert_close(before, after, share):
    """Equal up to `share` of the tensor's largest number."""
    for name, tensor in before.items():
        # Limits of a sound tower are infinite; what is infinite is the same, or is no number here.
        differs = tensor != after[name]
        error, numbers = (tensor.double() - after[name].double()).abs()[differs], tensor.double().abs()
        assert error.numel() == 0 or error.max() <= share * numbers.max(), name


@pytest.fixture(scope="module")
def small_llama(tmp_path_factory):
    """A llama that llama2.c's format can hold: head_dim = D / heads, theta 10000, eps 1e-5."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=24,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_hidden_layers=2,
        intermediate_size=40,
        vocab_size=53,
        max_position_embeddings=32,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.3)
    folder = tmp_path_factory.mktemp("llama2c") / "hf"
    model.save_pretrained(folder)
    return folder


# The way back.


@pytest.mark.parametrize("name", HF)
def test_inverse_returns(regauge, tmp_path, name):
    source = FIXTURES / name
    out, back, element = tmp_path / "out", tmp_path / "back", tmp_path / "e.safetensors"
    untie = untying(source)
    regauge("act", source, "-o", out, "--random", 1, "--save-element", element, *untie)
    regauge("act", out, "-o", back, "--element", element, "--inverse")
    if untie:
        source = tmp_path / "untied"
        regauge("convert", FIXTURES / name, "-o", source, "--to", "safetensors", "--untie")
    start, end = weights(source), weights(back)
    assert start.keys() == end.keys()
    # Those elements of GPT-J and Whisper are badly conditioned: what F32 rounds on the way counts more (F64: 2e-12).
    assert_close(start, end, 0.1 if "bf16" in name else {"gptj": 3e-5, "whisper": 1e-4}.get(name, 1e-5))


@pytest.mark.parametrize("name", GGUF)
def test_inverse_returns_in_gguf(regauge, tmp_path, name):
    source = FIXTURES / name / "model.gguf"
    out, back, element = tmp_path / "out.gguf", tmp_path / "back.gguf", tmp_path / "e.safetensors"
    regauge("act", source, "-o", out, "--random", 1, "--save-element", element)
    regauge("act", out, "-o", back, "--element", element, "--inverse")
    start, middle, end = map(gguf_tensors, (source, out, back))
    assert start.keys() == middle.keys() == end.keys()
    assert_close(start, end, 1e-5)
    assert any((start[key] - middle[key]).abs().max() > 1e-2 for key in start)


def test_inverse_returns_in_llama2c(regauge, tmp_path, small_llama):
    regauge("convert", small_llama, "-o", tmp_path / "model.bin", "--to", "llama2c")
    element = tmp_path / "e.safetensors"
    regauge("act", tmp_path / "model.bin", "-o", tmp_path / "out.bin", "--random", 1,
            "--save-element", element)
    regauge("act", tmp_path / "out.bin", "-o", tmp_path / "back.bin", "--element", element,
            "--inverse")
    start = numpy.fromfile(tmp_path / "model.bin", numpy.float32, offset=28)
    middle = numpy.fromfile(tmp_path / "out.bin", numpy.float32, offset=28)
    end = numpy.fromfile(tmp_path / "back.bin", numpy.float32, offset=28)
    assert numpy.abs(start - middle).max() > 1e-2
    assert numpy.abs(start - end).max() < 1e-5 * numpy.abs(start).max()


def test_the_same_seed_gives_the_same_bytes(regauge, tmp_path):
    for out in ("one", "two"):
        regauge("act", FIXTURES / "llama-bf16", "-o", tmp_path / out, "--random", 5)
    assert raw(tmp_path / "one") == raw(tmp_path / "two")


# Untouched bytes.


@pytest.mark.parametrize("name", HF)
def test_what_the_element_leaves_alone_is_copied(regauge, tmp_path, name):
    source, out = FIXTURES / name, tmp_path / "out"
    summary = json.loads(
        regauge("act", source, "-o", out, "--random", 1, "--only", "heads", "--json")
    )
    before, after = raw(source), raw(out)
    assert before.keys() == after.keys()
    moved = {key for key in before if before[key] != after[key]}
    still = name in ("bloom", "mpt")  # ALiBi: no head may take another's place
    assert bool(moved) != still and moved <= set(summary["changed"])
    assert all(before[key] == after[key] for key in summary["copied"])
    untouched = ("norm", "embed", "ln_", "wte", "wpe", "mlp", "lm_head", "intermediate")
    assert not [key for key in moved if any(word in key.removeprefix("roberta_prelayernorm").lower() for word in untouched)
                and "q_norm" not in key and "k_norm" not in key]


@pytest.mark.parametrize("name", HF)
def test_converting_to_itself_changes_nothing(regauge, tmp_path, name):
    source, out = FIXTURES / name, tmp_path / "out"
    regauge("convert", source, "-o", out, "--to", "safetensors")
    assert raw(out) == raw(source)
    assert json.loads((out / "config.json").read_text()) == json.loads(
        (source / "config.json").read_text()
    )


def test_companions_come_along(regauge, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / "llama", source)
    (source / "tokenizer.json").write_text("{}")
    others = ["pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack",
              "model.onnx", "model.onnx_data", "consolidated.00.pth", "rust_model.ot"]
    for name in others:
        (source / name).write_text("other weights")
    regauge("act", source, "-o", tmp_path / "out", "--random", 1)
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "{}"
    assert not [name for name in others if (tmp_path / "out" / name).exists()]


# Other formats.


def test_through_gguf_and_back(regauge, tmp_path):
    source, middle, back = FIXTURES / "llama", tmp_path / "model.gguf", tmp_path / "back"
    said = regauge.messages("convert", source, "-o", middle, "--to", "GGUF")
    assert "model.gguf has no tokenizer" in said
    assert not regauge.messages("convert", middle, "-o", back, "--to", "safetensors")
    assert raw(back) == raw(source)
    assert torch.equal(outputs(load(back)), outputs(load(source)))


def test_gguf_reads_what_we_write(regauge, tmp_path):
    """The fixture beside it was written from the same weights by the gguf package itself."""
    regauge("convert", FIXTURES / "llama", "-o", tmp_path / "model.gguf", "--to", "gguf")
    ours = gguf_tensors(tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    assert reader.fields["general.architecture"].contents() == "llama"
    hf = weights(FIXTURES / "llama")
    for theirs, name in [
        ("model.embed_tokens.weight", "token_embd.weight"),
        ("lm_head.weight", "output.weight"),
        ("model.norm.weight", "output_norm.weight"),
        ("model.layers.1.mlp.down_proj.weight", "blk.1.ffn_down.weight"),
        ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight"),
        ("model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight"),
    ]:
        assert torch.equal(ours[name], hf[theirs]), name
    # Rows of q and k alternate between the halves of each head.
    heads, width = 4, 6
    query = hf["model.layers.0.self_attn.q_proj.weight"]
    interleaved = query.view(heads, 2, width // 2, -1).transpose(1, 2).reshape(query.shape)
    assert torch.equal(ours["blk.0.attn_q.weight"], interleaved)


def test_through_llama2c_and_back(regauge, tmp_path, small_llama):
    regauge("convert", small_llama, "-o", tmp_path / "model.bin", "--to", "llama2c")
    regauge("convert", tmp_path / "model.bin", "-o", tmp_path / "back", "--to", "safetensors")
    assert raw(tmp_path / "back") == raw(small_llama)
    assert torch.equal(outputs(load(tmp_path / "back")), outputs(load(small_llama)))


@pytest.mark.parametrize("name", GGUF_TO_HF)
def test_act_on_gguf_keeps_the_function(regauge, tmp_path, name):
    source, moved = FIXTURES / name / "model.gguf", tmp_path / "moved.gguf"
    regauge("act", source, "-o", moved, "--random", 2)
    for path, folder in [(source, "before"), (moved, "after")]:
        regauge("convert", path, "-o", tmp_path / folder, "--to", "safetensors")
    before, after = load(tmp_path / "before"), load(tmp_path / "after")
    assert relative_change(outputs(before), outputs(after)) < 1e-5


def test_act_on_llama2c_keeps_the_function(regauge, tmp_path, small_llama):
    regauge("convert", small_llama, "-o", tmp_path / "model.bin", "--to", "llama2c")
    regauge("act", tmp_path / "model.bin", "-o", tmp_path / "moved.bin", "--random", 2)
    regauge("convert", tmp_path / "moved.bin", "-o", tmp_path / "after", "--to", "safetensors")
    change = relative_change(outputs(load(small_llama)), outputs(load(tmp_path / "after")))
    assert change < 1e-5
    assert not torch.allclose(
        weights(small_llama)["lm_head.weight"], weights(tmp_path / "after")["lm_head.weight"]
    )


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_dtype_is_stored_as_asked(regauge, tmp_path, dtype):
    regauge("convert", FIXTURES / "llama", "-o", tmp_path / "out", "--to", "safetensors",
            "--dtype", dtype)
    wanted = {"F16": torch.float16, "BF16": torch.bfloat16}[dtype]
    stored = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
    for name, tensor in weights(FIXTURES / "llama").items():
        assert torch.equal(stored[name], tensor.to(wanted)), name
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["dtype"] == str(wanted).removeprefix("torch.")


def test_dtype_is_said_in_the_configs_own_words(regauge, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(FIXTURES / "llama-bf16", source)
    config = json.loads((source / "config.json").read_text())
    for words in ({"torch_dtype": "bfloat16"}, {}):
        silent = {key: value for key, value in config.items() if key != "dtype"}
        (source / "config.json").write_text(json.dumps({**silent, **words}))
        out = tmp_path / f"out{len(words)}"
        regauge("convert", source, "-o", out, "--to", "safetensors", "--dtype", "f32")
        written = json.loads((out / "config.json").read_text())
        assert written == {**silent, **dict.fromkeys(words, "float32")}


def test_untying_keeps_the_files_own_names(regauge, tmp_path):
    """GPT-2's own release has no prefix in front of its names."""
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(FIXTURES / "gpt2", source)
    tensors = {
        name.removeprefix("transformer."): tensor for name, tensor in weights(source).items()
    }
    safetensors.torch.save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    regauge("act", source, "-o", out, "--random", 1, "--untie", "--only", "heads")
    before, after = raw(source), raw(out)
    assert after.keys() == before.keys() | {"lm_head.weight"}
    assert after["lm_head.weight"] == before["wte.weight"] == after["wte.weight"]
    assert after["h.0.mlp.c_fc.weight"] == before["h.0.mlp.c_fc.weight"]


# What inspect says to people.


def test_inspect_marks_what_is_only_counted(regauge, tmp_path):
    """An untied post-norm model without an embedding norm: its raw sum may shear."""
    architecture = {"model_type": "regauge", "width": 6, "layers": 1, "heads": 2, "qk_width": 4,
                    "ffn_width": 7, "vocabulary": 30, "norm": "layer", "placement": "post",
                    "causal": False}
    shapes = {"embed.tokens": (30, 6), "head.weight": (6, 30)}
    for name, shape in {"q": (6, 8), "k": (6, 8), "v": (6, 8), "o": (8, 6)}.items():
        shapes[f"layers.0.attn.{name}.weight"] = shape
    shapes |= {"layers.0.attn.norm.gain": (6,), "layers.0.ffn.norm.gain": (6,),
               "layers.0.ffn.up.weight": (6, 7), "layers.0.ffn.down.weight": (7, 6)}
    (tmp_path / "config.json").write_text(json.dumps(architecture))
    tensors = {name: torch.ones(shape) for name, shape in shapes.items()}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    text = regauge("inspect", tmp_path)
    assert "  1 layer, width 6" in text
    assert ["layers.*.attn.input.shear", "R^6,", "counted"] in [line.split()[:3] for line in text.splitlines()]
    assert "counted: along directions" in text and "nonzero numbers" in text
    plain = regauge("inspect", FIXTURES / "llama")
    assert "  2 layers, width 20" in plain and "counted:" not in plain


WRAPPERS = {
    "DDP": lambda name: "module." + name,
    "FSDP": lambda name: "_fsdp_wrapped_module." + name.replace("layers.0.", "layers.0._fsdp_wrapped_module."),
    "torch.compile": lambda name: "_orig_mod." + name,
    "compiled layers with checkpoints": lambda name: name.replace("layers.1.", "layers.1._checkpoint_wrapped_module._orig_mod."),
    "DDP around a compiled one": lambda name: "module._orig_mod." + name,
}


def renamed(folder, out, rename):
    shutil.copytree(folder, out)
    tensors = {rename(name): tensor.contiguous() for name, tensor in weights(folder).items()}
    safetensors.torch.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_wrappers_of_training_are_no_part_of_a_name(regauge, tmp_path, wrapper):
    folder = FIXTURES / "llama"
    wrapped = renamed(folder, tmp_path / "wrapped", WRAPPERS[wrapper])
    assert json.loads(regauge("diff", folder, wrapped, "--json"))["statement"] == "identical"
    regauge("convert", wrapped, "--to", "safetensors", "-o", tmp_path / "plain")
    assert weights(tmp_path / "plain").keys() == weights(folder).keys()


def test_one_name_in_two_wrappers_is_refused(regauge, tmp_path):
    tensors = weights(FIXTURES / "llama")
    twice = renamed(FIXTURES / "llama", tmp_path / "twice", lambda name: name)
    tensors["_orig_mod.model.norm.weight"] = 2 * tensors["model.norm.weight"]
    safetensors.torch.save_file({n: t.contiguous() for n, t in tensors.items()}, twice / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(AssertionError, match="is there twice"):
        regauge("inspect", twice)
