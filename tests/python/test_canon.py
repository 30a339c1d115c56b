"""`regauge canon`: equal models become nearly equal files, and stay the same function."""

import json

import pytest
import safetensors.torch
import torch
from conftest import FIXTURES
from test_transformers_judge import HF, load, outputs, relative_change, weights

# 16 bits do not tell neighbours in the order apart; of vit-hidden one norm lets hardly a constant pass, and canon says so.
EXACT = [name for name in HF if name not in ("llama-bf16", "vit-hidden")]


@pytest.mark.parametrize("name", EXACT)
def test_equal_models_become_nearly_equal_files(regauge, tmp_path, name):
    source = FIXTURES / name
    regauge("act", source, "-o", tmp_path / "moved", "--random", 9)
    regauge("canon", source, "-o", tmp_path / "here")
    regauge("canon", tmp_path / "moved", "-o", tmp_path / "there")
    here, there, before = (weights(folder) for folder in (tmp_path / "here", tmp_path / "there", source))
    assert here.keys() == there.keys()
    for tensor in here:
        if torch.equal(here[tensor], there[tensor]):  # limits of a tower are infinite
            continue
        size = max(here[tensor].norm().item(), 1.0)  # some are zero but for rounding
        assert (here[tensor] - there[tensor]).norm().item() < 1e-4 * size, tensor
    assert any(not torch.allclose(here[tensor], before[tensor], atol=1e-2) for tensor in here)
    found = json.loads(regauge("diff", source, tmp_path / "here", "--json"))
    assert all(tensor["agrees"] for tensor in found["tensors"])
    assert relative_change(outputs(load(source)), outputs(load(tmp_path / "here"))) < 1e-4


def test_tied_and_untied_copies_meet(regauge, tmp_path):
    source = FIXTURES / "gemma"
    regauge("act", source, "-o", tmp_path / "moved", "--random", 9, "--untie")
    regauge("canon", source, "-o", tmp_path / "here", "--untie")
    regauge("canon", tmp_path / "moved", "-o", tmp_path / "there")
    here, there = weights(tmp_path / "here"), weights(tmp_path / "there")
    for tensor in here:
        assert torch.allclose(here[tensor], there[tensor], atol=1e-4), tensor


def test_other_models_stay_other_models(regauge, tmp_path):
    """A negative control: one matrix of one layer is doubled."""
    source = FIXTURES / "llama"
    regauge("canon", source, "-o", tmp_path / "here")
    tensors = weights(source)
    tensors["model.layers.0.mlp.down_proj.weight"] *= 2
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_bytes((source / "config.json").read_bytes())
    safetensors.torch.save_file(tensors, tmp_path / "other" / "model.safetensors", metadata={"format": "pt"})
    regauge("canon", tmp_path / "other", "-o", tmp_path / "there")
    here, there = weights(tmp_path / "here"), weights(tmp_path / "there")
    off = max(((here[t] - there[t]).norm() / here[t].norm()).item() for t in here)
    assert off > 0.1


@pytest.mark.parametrize("name", ["llama", "gemma", "bert", "qwen2"])
def test_two_canonical_forms_differ_by_their_rounding_and_diff_says_so(regauge, tmp_path, name):
    said = "no difference is much larger than rounding"
    source = FIXTURES / name
    regauge("act", source, "-o", tmp_path / "moved", "--random", 9)
    regauge("canon", source, "-o", tmp_path / "here")
    regauge("canon", tmp_path / "moved", "-o", tmp_path / "there")
    found = json.loads(regauge("diff", tmp_path / "here", tmp_path / "there", "--json", expect=1))
    assert any(reason.startswith(said) for reason in found["reasons"])
    # A control: a change that is larger than rounding, and still small.
    tensors = weights(tmp_path / "there")
    largest = max(tensors, key=lambda tensor: tensors[tensor].numel())
    tensors[largest] *= 1 + 1e-5
    safetensors.torch.save_file(tensors, tmp_path / "there" / "model.safetensors", metadata={"format": "pt"})
    found = json.loads(regauge("diff", tmp_path / "here", tmp_path / "there", "--json", expect=1))
    assert not any(reason.startswith(said) for reason in found["reasons"])


@pytest.mark.parametrize("name", ["gpt2", "bert", "gpt_neox"])
def test_biases_that_fold_takes_away_are_zero(regauge, tmp_path, name):
    regauge("fold", FIXTURES / name, "-o", tmp_path / "folded")
    biases = {tensor: bias for tensor, bias in weights(tmp_path / "folded").items() if bias.dim() == 1}
    assert any(bias.abs().max() == 0 for bias in biases.values())
    for tensor, bias in biases.items():
        assert not (bias.abs().max() < 1e-12 and bias.abs().max() > 0), tensor


def test_what_rounding_decides_is_said(regauge, tmp_path):
    assert "but for rounding" in regauge.messages("canon", FIXTURES / "llama-bf16", "-o", tmp_path / "out")
