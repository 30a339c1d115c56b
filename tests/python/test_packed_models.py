"""Models that were quantised to several tensors for each matrix: the same numbers as the original, and not if a block of
them is from elsewhere. Quantised by transformers and compressed-tensors; what other tools write is in tests/io."""

import json
import shutil
import sys

import pytest
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

sys.path.insert(0, str(FIXTURES.parents[1] / "bench"))

import honest_quantised  # noqa: E402
import quantisers  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("original") / "model"
    config = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=160, max_position_embeddings=64, tie_word_embeddings=False)  # fmt: skip
    model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn_like(parameter)
    model.save_pretrained(path)
    return path


KINDS = {
    "fp8": quantisers.fp8((64, 128)),
    "int4": quantisers.compressed_tensors("pack-quantized", num_bits=4, strategy="group", group_size=32, symmetric=False),
    "int8": quantisers.compressed_tensors("int-quantized", num_bits=8, strategy="channel"),
    "float8": quantisers.compressed_tensors("float-quantized", num_bits=8, type="float", strategy="channel"),
}


def quantised(folder, kind, out, *change):
    return honest_quantised.quantised(folder, out, KINDS[kind], *change)


@pytest.mark.parametrize("kind", KINDS)
def test_quantised_holds_the_same_numbers(regauge, tmp_path, folder, kind):
    path = quantised(folder, kind, tmp_path / "quantised")
    found = json.loads(regauge("diff", folder, path, "--json"))
    assert found["statement"] == "same-numbers"
    assert any("of B are A's, rounded" in reason for reason in found["reasons"])
    assert "not_understood" not in found or not found["not_understood"]


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_from_elsewhere_is_not_the_same(regauge, tmp_path, folder, kind):
    other = safetensors.torch.load_file(folder / "model.safetensors")["model.layers.1.self_attn.q_proj.weight"]

    def change(name, weights):
        if name != "model.layers.0.self_attn.q_proj.weight":
            return weights
        changed = weights.clone()
        changed[:64, :128] = other[:64, :128]
        return changed

    path = quantised(folder, kind, tmp_path / "quantised", change)
    found = json.loads(regauge("diff", folder, path, "--json", expect=1))
    assert found["statement"] == "not-the-same"
    differ = [tensor["tensor"] for tensor in found["tensors"] if tensor["relation"] in ("differs", "hidden")]
    assert differ == ["layers.0.attention.q.weight"] or len(differ) == 1, differ


@pytest.mark.parametrize("kind", KINDS)
def test_converted_back_it_is_what_the_tool_reads(regauge, tmp_path, folder, kind):
    path = quantised(folder, kind, tmp_path / "quantised")
    regauge("convert", path, "-o", tmp_path / "plain", "--to", "safetensors", "--dtype", "f32")
    plain = safetensors.torch.load_file(tmp_path / "plain" / "model.safetensors")
    original = safetensors.torch.load_file(folder / "model.safetensors")
    assert plain.keys() == original.keys()
    assert "quantization_config" not in json.loads((tmp_path / "plain" / "config.json").read_text())
    assert json.loads(regauge("diff", path, tmp_path / "plain", "--json"))["statement"] in ("identical", "same-numbers")
    transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "plain")


def test_a_moved_copy_of_a_quantised_model_is_the_same_function(regauge, tmp_path, folder):
    path = quantised(folder, "int8", tmp_path / "quantised")
    regauge("act", path, "-o", tmp_path / "moved", "--random", "1", "--dtype", "f32")
    found = json.loads(regauge("diff", path, tmp_path / "moved", "--json"))
    assert found["statement"] == "other-coordinates"


def test_activations_are_not_compared(regauge, tmp_path, folder):
    path = quantised(folder, "fp8", tmp_path / "quantised")
    tensors = safetensors.torch.load_file(path / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.input_scale"] = torch.tensor(1.5)
    safetensors.torch.save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    found = json.loads(regauge("diff", folder, path, "--json"))
    assert found["statement"] == "same-numbers"
    text = " ".join(found["not_compared"])
    assert "activations" in text and "1 scales of activations in B" in text


def test_experts_of_gpt_oss(regauge, tmp_path):
    torch.manual_seed(0)
    config = transformers.GptOssConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16,
                                       num_key_value_heads=2, vocab_size=96, num_local_experts=4, num_experts_per_tok=2)  # fmt: skip
    model = transformers.GptOssForCausalLM(config).to(torch.bfloat16)
    packed = {}
    for name, value in model.named_parameters():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        experts, rows, cols = value.shape
        blocks = torch.randint(0, 256, (experts, cols, rows // 32, 16), dtype=torch.uint8)
        scales = torch.randint(117, 121, (experts, cols, rows // 32), dtype=torch.uint8)
        packed |= {name + "_blocks": blocks, name + "_scales": scales}
        value.data = convert_moe_packed_tensors(blocks, scales)
    model.save_pretrained(tmp_path / "plain")
    shutil.copytree(tmp_path / "plain", tmp_path / "packed")
    tensors = safetensors.torch.load_file(tmp_path / "plain" / "model.safetensors")
    for name in packed:
        tensors.pop(name.removesuffix("_blocks").removesuffix("_scales"), None)
    safetensors.torch.save_file(tensors | packed, tmp_path / "packed" / "model.safetensors", metadata={"format": "pt"})
    declared = json.loads((tmp_path / "plain" / "config.json").read_text())
    (tmp_path / "packed" / "config.json").write_text(json.dumps(declared | {"quantization_config": {"quant_method": "mxfp4"}}))
    assert json.loads(regauge("diff", tmp_path / "plain", tmp_path / "packed", "--json"))["verdict"] == "same"
    blocks = packed["model.layers.0.mlp.experts.down_proj_blocks"]
    blocks[1, 2, 0] ^= 0x77
    safetensors.torch.save_file(tensors | packed, tmp_path / "packed" / "model.safetensors", metadata={"format": "pt"})
    found = json.loads(regauge("diff", tmp_path / "plain", tmp_path / "packed", "--json", expect=1))
    assert found["statement"] == "not-the-same"
