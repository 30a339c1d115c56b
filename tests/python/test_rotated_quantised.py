"""A rotation in front of a quantiser (intel/auto-round PR 1797): is it the method that loses, or is the rotation wrong?

Two comparisons tell: the rotated model with the original, and the file of four bits with the rotated model. In one step the
rounding of four bits hides too much, and the answer is that it could not be decided.
"""

import json
import shutil
import sys

import pytest
import safetensors.torch
import torch
from conftest import FIXTURES

sys.path.insert(0, str(FIXTURES.parent.parent / "bench"))
import honest_quantised  # noqa: E402
import quantisers  # noqa: E402

SPOILED = "model.layers.0.self_attn.o_proj.weight"


def statement(regauge, a, b):
    return json.loads(regauge("diff", a, b, "--json", expect={0, 1, 4}))["statement"]


def differ(regauge, a, b):
    answer = json.loads(regauge("diff", a, b, "--json", expect=1))
    assert answer["statement"] == "not-the-same"
    return {tensor["tensor"] for tensor in answer["tensors"] if tensor["relation"] == "differs"}


@pytest.fixture(scope="module")
def made(regauge, tmp_path_factory):
    """An original, a rotated copy, and one whose outputs of attention were turned by another rotation."""
    folder = tmp_path_factory.mktemp("rotated")
    honest_quantised.original(folder / "original", "outlier columns", 1, torch.float32)
    regauge("fold", folder / "original", "-o", folder / "folded")
    for name, seed in (("rotated", 3), ("other", 4)):
        regauge("act", folder / "folded", "--random", seed, "--only", "residual,vo", "-o", folder / name)
    shutil.copytree(folder / "rotated", folder / "wrong")
    tensors, other = (safetensors.torch.load_file(folder / name / "model.safetensors") for name in ("rotated", "other"))
    safetensors.torch.save_file(tensors | {SPOILED: other[SPOILED]}, folder / "wrong" / "model.safetensors", {"format": "pt"})
    return folder


def test_the_rotation(regauge, made):
    assert statement(regauge, made / "original", made / "rotated") == "other-coordinates"
    assert statement(regauge, made / "original", made / "wrong") == "not-the-same"


@pytest.mark.parametrize("name", ["MXFP4", "INT4, groups"])
def test_the_quantiser_after_it(regauge, made, tmp_path, name):
    packer = quantisers.QUANTISERS[name][1]()
    packed = honest_quantised.quantised(made / "rotated", tmp_path / "packed", packer)
    wrong = honest_quantised.quantised(made / "wrong", tmp_path / "wrong", packer)
    assert statement(regauge, made / "rotated", packed) == "same-numbers"
    assert differ(regauge, made / "rotated", wrong) == {"layers.0.attn.o.weight"}
    # In one step neither is called the same.
    assert {statement(regauge, made / "original", file) for file in (packed, wrong)} == {"undecided"}
