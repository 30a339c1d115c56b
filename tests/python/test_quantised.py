"""A GGUF file with every quantised type: dequantised as the gguf package does, and kept where nothing moves."""

import json

import gguf
import numpy
import pytest
import torch
import transformers
from conftest import FIXTURES
from gguf import GGMLQuantizationType as Type
from test_transformers_judge import load, outputs, relative_change, weights

TYPES = [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K, Type.Q6_K]
HEADS, KV_HEADS, LAYERS = 4, 2, 2
PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    **{
        f"blk.{layer}.{ours}.weight": f"model.layers.{layer}.{theirs}.weight"
        for layer in range(LAYERS)
        for ours, theirs in PARTS.items()
    },
}


def config():
    """The widths are multiples of 256, the length of the K types' blocks."""
    return transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        num_hidden_layers=LAYERS,
        vocab_size=61,
        max_position_embeddings=48,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        architectures=["LlamaForCausalLM"],
    )


def k_blocks(kind, shape, random):
    """Random blocks of a type that the package reads but does not write, of numbers around 1/16."""
    length, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (shape[0], shape[1] // length, size), dtype=numpy.uint8)

    def put(at, value):
        halves = (value * (1 + random.random(blocks.shape[:2]))).astype(numpy.float16)
        blocks[:, :, at : at + 2] = halves[:, :, None].view(numpy.uint8)

    if kind == Type.Q6_K:
        put(size - 2, 3e-5)
    else:  # d and dmin, so that the mean of the fours or fives is about zero
        largest = 15 if kind == Type.Q4_K else 31
        put(0, 4e-3 / largest)
        put(2, 2e-3)
    return blocks.reshape(shape[0], -1)


def pairs_adjacent_to_halves(tensor, heads):
    """Rows of q and k: GGUF's llama has rotary pairs side by side, transformers as halves."""
    rows = tensor.reshape(heads, -1, 2, tensor.shape[1])
    return rows.swapaxes(1, 2).reshape(tensor.shape)


def read_gguf(path):
    """Every tensor's type and bytes."""
    return {
        tensor.name: (tensor.tensor_type, tensor.data.tobytes())
        for tensor in gguf.GGUFReader(path).tensors
    }


def dequantised(path):
    """The file's tensors as transformers names and orders them, by the gguf package."""
    result = {}
    for tensor in gguf.GGUFReader(path).tensors:
        value = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
            value = pairs_adjacent_to_halves(value, HEADS if "_q" in tensor.name else KV_HEADS)
        result[NAMES[tensor.name]] = torch.from_numpy(numpy.array(value))
    return result


def gguf_writer(path, size, family="llama"):
    """A GGUF file that declares the model of this config, without tensors yet."""
    writer = gguf.GGUFWriter(path, family)
    writer.add_block_count(size.num_hidden_layers)
    writer.add_context_length(size.max_position_embeddings)
    writer.add_embedding_length(size.hidden_size)
    writer.add_feed_forward_length(size.intermediate_size)
    writer.add_head_count(size.num_attention_heads)
    writer.add_head_count_kv(size.num_key_value_heads)
    writer.add_layer_norm_rms_eps(size.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    return writer


@pytest.fixture(scope="module")
def quantised(tmp_path_factory):
    """A llama in GGUF, each type in two or more of its matrices."""
    random = numpy.random.default_rng(0)
    size = config()
    path = tmp_path_factory.mktemp("quantised") / "model.gguf"
    writer = gguf_writer(path, size)
    matrices = 0
    shapes = {
        name: tensor.shape for name, tensor in transformers.LlamaForCausalLM(size).state_dict().items()
    }
    for name, theirs in NAMES.items():
        shape = tuple(shapes[theirs])
        if len(shape) == 1:
            writer.add_tensor(name, (1 + 0.3 * random.standard_normal(shape)).astype(numpy.float32))
            continue
        kind = TYPES[matrices % len(TYPES)]
        matrices += 1
        if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
            blocks = k_blocks(kind, shape, random)
        else:
            values = random.standard_normal(shape).astype(numpy.float32) / 16
            blocks = gguf.quants.quantize(values, kind)
        writer.add_tensor(name, blocks, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def logits(quantised):
    """Of the dequantised model, without Regauge."""
    model = transformers.LlamaForCausalLM(config())
    model.load_state_dict(dequantised(quantised))
    return outputs(model.double().eval())


def test_inspect(regauge, quantised):
    found = json.loads(regauge("inspect", quantised, "--json"))
    plain = json.loads(regauge("inspect", FIXTURES / "llama-gguf" / "model.gguf", "--json"))
    assert found["family"] == "llama" and found["architecture"]["width"] == 256
    assert {factor["name"] for factor in found["factors"]} == {
        factor["name"] for factor in plain["factors"]
    }


def test_dequantised_as_the_gguf_package_does(regauge, tmp_path, quantised):
    assert {kind for kind, _ in read_gguf(quantised).values()} == {Type.F32, *TYPES}
    regauge("convert", quantised, "-o", tmp_path / "out", "--to", "safetensors")
    expected, found = dequantised(quantised), weights(tmp_path / "out")
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert 0.03 < tensor.std() < 0.5 and tensor.isfinite().all(), name
        assert found[name].dtype == torch.float32 and torch.equal(found[name], tensor), name


def part(name):
    return name.split(".")[-2]


HEAD_PARTS = {"attn_q", "attn_k", "attn_v", "attn_output"}
NORMS = {"attn_norm", "ffn_norm", "output_norm"}
READERS = {"attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up", "output"}


@pytest.mark.parametrize(
    "arguments, moving",
    [
        (["act", "--random", 1, "--only", "heads"], HEAD_PARTS),
        (["fold"], NORMS | READERS),
        (["act", "--random", 2], {part(name) for name in NAMES}),
    ],
    ids=["heads", "fold", "everything"],
)
def test_only_what_moves_is_dequantised(regauge, tmp_path, quantised, logits, arguments, moving):
    out, folder = tmp_path / "out.gguf", tmp_path / "folder"
    verb, *options = arguments
    regauge(verb, quantised, "-o", out, *options)
    before, after = read_gguf(quantised), read_gguf(out)
    assert list(before) == list(after)
    for name, (kind, data) in after.items():
        if part(name) in moving:
            assert kind == Type.F32 and data != before[name][1], name
        else:
            assert (kind, data) == before[name], name
    regauge("convert", out, "-o", folder, "--to", "safetensors")
    assert relative_change(logits, outputs(load(folder))) < 1e-5
