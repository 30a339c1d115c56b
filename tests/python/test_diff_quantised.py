"""A model against its quantised GGUF: the same up to the blocks' own steps, and not if it was changed by more."""

import json

import gguf
import numpy
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from test_quantised import config, gguf_writer

TYPES = [Type.Q8_0, Type.Q5_1, Type.Q5_0, Type.Q4_1, Type.Q4_0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("original") / "model"
    model = transformers.LlamaForCausalLM(config())
    for parameter in model.parameters():  # gains that are not all 1
        if parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(path)
    return path


def quantise(regauge, folder, kind, path, noise=0.0, changed="blk.1.ffn_up.weight"):
    """The folder as GGUF, every matrix quantised; tensors of this name changed by `noise` of their size before."""
    plain = path.with_suffix(".plain.gguf")
    regauge("convert", folder, "-o", plain, "--to", "gguf")
    random = numpy.random.default_rng(1)
    declared = transformers.AutoConfig.from_pretrained(folder)
    writer = gguf_writer(path, declared, declared.model_type)
    for tensor in gguf.GGUFReader(plain).tensors:
        values = numpy.array(tensor.data)
        if tensor.name.endswith(changed):
            values += (noise * values.std() * random.standard_normal(values.shape)).astype(numpy.float32)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_quantised_is_the_same_up_to_its_steps(regauge, tmp_path, folder, kind):
    path = quantise(regauge, folder, kind, tmp_path / "model.gguf")
    found = json.loads(regauge("diff", folder, path, "--json"))
    assert found["verdict"] == "same"
    assert any(kind.name in reason for reason in found["reasons"])
    matrices = [tensor for tensor in found["tensors"] if tensor["residual"] > 0]
    # What the scales say is what rounding did, tensor by tensor, or less where codes may be cut off.
    assert all(0.5 < tensor["residual"] / tensor["rounding"] < 1.3 for tensor in matrices)


@pytest.mark.parametrize("kind, noise", [(Type.Q8_0, 0.03), (Type.Q8_0, 0.06), (Type.Q5_0, 0.15), (Type.Q4_1, 0.3)])
def test_changed_by_more_than_the_steps(regauge, tmp_path, folder, kind, noise):
    path = quantise(regauge, folder, kind, tmp_path / "model.gguf", noise)
    found = json.loads(regauge("diff", folder, path, "--json", expect=1))
    assert found["verdict"] == "perturbed"
    worst = max(found["tensors"], key=lambda tensor: tensor["residual"] / (tensor["rounding"] or 1))
    assert worst["tensor"] == "layers.1.ffn.up.weight"


def test_single_rows_are_known_better_than_that(regauge, tmp_path, folder):
    path = quantise(regauge, folder, Type.Q8_0, tmp_path / "model.gguf", 0.05, "blk.1.attn_norm.weight")
    found = json.loads(regauge("diff", folder, path, "--json", expect=1))
    assert found["verdict"] == "perturbed"
    worst = max(found["tensors"], key=lambda tensor: tensor["residual"] / (tensor["rounding"] or 1))
    assert worst["tensor"] == "layers.1.attn.norm.gain"


def test_changed_biases_are_not_taken_for_a_rotation(regauge, tmp_path):
    torch.manual_seed(1)
    size = config().to_dict() | {"vocab_size": 512}
    model = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**size))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(tmp_path / "model")
    path = quantise(regauge, tmp_path / "model", Type.Q8_0, tmp_path / "model.gguf", 0.3, ".bias")
    found = json.loads(regauge("diff", tmp_path / "model", path, "--json", expect=1))
    assert found["verdict"] == "perturbed"
    assert {cause["mistake"] for cause in found["diagnosis"]["causes"]} <= {"damaged"}
    assert not found["diagnosis"]["certain"]
    off = [tensor["tensor"] for tensor in found["tensors"] if not tensor["agrees"]]
    assert off and all(name.endswith(".bias") for name in off)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_rotated_and_then_quantised(regauge, tmp_path, kind):
    torch.manual_seed(2)
    size = config().to_dict() | {"vocab_size": 512}
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).save_pretrained(tmp_path / "model")
    regauge("act", tmp_path / "model", "-o", tmp_path / "rotated", "--random", 1, "--only", "residual")
    path = quantise(regauge, tmp_path / "rotated", kind, tmp_path / "rotated.gguf")
    found = json.loads(regauge("diff", tmp_path / "model", path, "--json"))
    assert found["verdict"] == "same" and not found["identity"]


@pytest.mark.parametrize("stream", [[], ["--untie"]], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_1, Type.Q4_0], ids=lambda kind: kind.name)
def test_a_moved_copy_of_a_quantised_file(regauge, tmp_path, kind, stream):
    """As trained models are: tokens with one strong direction in common, single gains almost zero."""
    torch.manual_seed(3)
    size = config().to_dict() | {"vocab_size": 512, "tie_word_embeddings": True}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**size))
    tokens = model.model.embed_tokens.weight.data
    tokens += 4 * tokens.std() * torch.randn_like(tokens[:1])
    for layer in model.model.layers:
        layer.post_attention_layernorm.weight.data[5] = 1e-4
    model.save_pretrained(tmp_path / "model")
    path = quantise(regauge, tmp_path / "model", kind, tmp_path / "model.gguf")
    regauge("convert", path, "-o", tmp_path / "plain", "--to", "safetensors", "--dtype", "f16")
    for name, dtype in (("wide", "f32"), ("narrow", "f16")):
        regauge("act", path, "-o", tmp_path / name, *stream, "--random", 1, "--dtype", dtype)
        for original in (path, tmp_path / "plain"):
            found = json.loads(regauge("diff", original, tmp_path / name, "--json"))
            assert found["verdict"] == "same" and not found["identity"]
