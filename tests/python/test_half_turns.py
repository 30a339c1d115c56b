"""Behind a norm of queries and keys one rotary pair of one kv head may make half a turn (docs/findings.md, 3d)."""

import shutil

import pytest
import safetensors.torch
import torch
import transformers as tf
from conftest import FIXTURES
from test_transformers_judge import weights


def logits(folder):
    model = tf.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        return model(torch.arange(12).view(2, 6)).logits


@pytest.fixture
def turned(tmp_path):
    """Copies of Qwen3 in which pair 1 of kv head 1 makes half a turn: in keys and queries, in keys alone, or one coordinate."""

    def make(maps, coordinates):
        target = tmp_path / f"{len(maps)}-{len(coordinates)}"
        shutil.copytree(FIXTURES / "qwen3", target)
        config = tf.AutoConfig.from_pretrained(target)
        d, group = config.head_dim, config.num_attention_heads // config.num_key_value_heads
        tensors = safetensors.torch.load_file(target / "model.safetensors")
        heads = {"q": range(group, 2 * group), "k": [1]}
        for name in maps:
            for head in heads[name]:
                for i in coordinates:
                    tensors[f"model.layers.0.self_attn.{name}_proj.weight"][head * d + i * (d // 2) + 1] *= -1
        safetensors.torch.save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
        return target

    return make


def test_half_a_turn_of_one_head_is_in_the_group(regauge, turned, tmp_path):
    source, copy = FIXTURES / "qwen3", turned("qk", [0, 1])
    before, after = logits(source), logits(copy)
    assert (before - after).abs().max() < 1e-12 * before.abs().max()
    certificate = tmp_path / "certificate.safetensors"
    assert "the same function" in regauge("diff", source, copy, "--certificate", certificate)
    assert "holds" in regauge("verify", source, copy, certificate)


def test_a_half_turn_is_found_behind_any_element_and_canon_takes_it_back(regauge, turned, tmp_path):
    source, copy = FIXTURES / "qwen3", turned("qk", [0, 1])
    regauge("act", copy, "-o", tmp_path / "moved", "--random", 3)
    assert "the same function" in regauge("diff", source, tmp_path / "moved")
    regauge("canon", source, "-o", tmp_path / "here")
    regauge("canon", tmp_path / "moved", "-o", tmp_path / "there")
    here, there = weights(tmp_path / "here"), weights(tmp_path / "there")
    for tensor in here:
        assert torch.allclose(here[tensor], there[tensor], atol=1e-4), tensor


@pytest.mark.parametrize("maps, coordinates", [("k", [0, 1]), ("qk", [0])])
def test_what_is_no_half_turn_is_told(regauge, turned, maps, coordinates):
    copy = turned(maps, coordinates)
    before, after = logits(FIXTURES / "qwen3"), logits(copy)
    assert (before - after).abs().max() > 1e-3 * before.abs().max()
    assert "not the same function" in regauge("diff", FIXTURES / "qwen3", copy, expect={1})
