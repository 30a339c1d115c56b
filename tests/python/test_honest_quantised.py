"""What the tools that quantise write is a faithful quantisation, and is not with one block from elsewhere: a part of
bench/honest_quantised.py, with the tools that are there with the tests."""

import json
import os
import shutil
import sys

import pytest
import safetensors.torch
import torch
from conftest import FIXTURES

sys.path.insert(0, str(FIXTURES.parents[1] / "bench"))

import honest_quantised  # noqa: E402
import quantisers  # noqa: E402

ALWAYS = [name for name, (module, _) in quantisers.QUANTISERS.items() if module in ("transformers", "compressed_tensors")]


@pytest.mark.parametrize("name", ALWAYS)
def test_honest_quantisations_pass_and_others_do_not(regauge, tmp_path, name):
    packer = quantisers.QUANTISERS[name][1]()
    for i, weights in enumerate(("normal", "rows of other sizes")):
        work = tmp_path / weights
        folder = honest_quantised.original(work / "original", weights, i, torch.bfloat16)
        said, _ = honest_quantised.said(os.environ["REGAUGE"], folder, honest_quantised.quantised(folder, work / "quantised", packer))
        assert said == "same-numbers", weights
    change, (rows, cols) = honest_quantised.with_a_block_from_elsewhere(folder, 2)
    spoiled = honest_quantised.quantised(folder, work / "spoiled", packer, change)
    said, where = honest_quantised.said(os.environ["REGAUGE"], folder, spoiled)
    assert said == "not-the-same" and where == ["layers.0.attn.q.weight"]
    if "8" in name:  # four bits leave too few numbers that are far from their rounding
        assert "the large ones from input" in regauge("diff", folder, spoiled, expect=1)


def smoothed(folder, out, with_gains):
    """As SmoothQuant and AWQ do before they quantise: what reads a norm is multiplied by factors that its gains are divided by."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    torch.manual_seed(0)
    readers = {"input_layernorm": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "post_attention_layernorm": ("mlp.gate_proj", "mlp.up_proj")}
    for norm, names in readers.items():
        factors = torch.exp(0.7 * torch.randn(honest_quantised.WIDTH))
        if with_gains:
            tensors[f"model.layers.0.{norm}.weight"] /= factors
        for name in names:
            tensors[f"model.layers.0.{name}.weight"] *= factors
    shutil.copytree(folder, out)
    safetensors.torch.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


def test_factors_of_smoothing_are_an_element_of_the_group(regauge, tmp_path):
    packer = quantisers.QUANTISERS["FP8, rows"][1]()
    folder = honest_quantised.original(tmp_path / "original", "normal", 0, torch.float32)
    right = honest_quantised.quantised(smoothed(folder, tmp_path / "smoothed", True), tmp_path / "right", packer)
    assert json.loads(regauge("diff", folder, right, "--json"))["statement"] == "other-coordinates"
    wrong = honest_quantised.quantised(smoothed(folder, tmp_path / "forgotten", False), tmp_path / "wrong", packer)
    found = json.loads(regauge("diff", folder, wrong, "--json", expect=1))
    assert found["statement"] == "not-the-same"
    assert {cause["mistake"] for cause in found["diagnosis"]["causes"]} == {"scale-other"}
