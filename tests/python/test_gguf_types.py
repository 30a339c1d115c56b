"""Types of GGUF whose numbers lie apart unevenly, are few, or are chosen together: what llama.cpp's own quantiser writes
is the same, or cannot be decided where more is impossible, and a block from elsewhere is never the same."""

import json

import llama_cpp
import numpy
import pytest
from gguf import GGMLQuantizationType as Type
from test_llama_cpp_quantiser import KINDS, by_importance, filled, outside, plain, quantised, random, values_of, write

EACH = [Type.Q2_K, Type.Q3_K, Type.IQ4_NL, Type.IQ4_XS, Type.TQ1_0, Type.TQ2_0, Type.MXFP4, Type.NVFP4]
JOINT = [Type.IQ1_S, Type.IQ1_M, Type.IQ2_XXS, Type.IQ2_XS, Type.IQ2_S, Type.IQ3_XXS, Type.IQ3_S, Type.Q1_0]
NAME = "blk.1.ffn_up.weight"
CANONICAL = "layers.1.ffn.up.weight"


def name_of(kind):
    return kind.name


def compared(regauge, tmp_path, matrices, tensors, expect=None):
    original = write(tmp_path / "original.gguf", plain(matrices))
    copy = write(tmp_path / "copy.gguf", tensors)
    options = {} if expect is None else {"expect": expect}
    return json.loads(regauge("diff", original, copy, "--json", **options))


def one_of(matrices, kind, values=None):
    """All plain but one, quantised."""
    values = matrices[NAME] if values is None else values
    weights = numpy.ones(values.shape[1]) if kind in JOINT else None
    return plain(matrices) | {NAME: (llama_cpp.quantise(values, kind, weights), kind)}


@pytest.fixture(scope="module")
def matrices():
    return filled([random])


@pytest.mark.parametrize("kind", EACH, ids=name_of)
def test_quantised_numbers_are_the_same(regauge, tmp_path, matrices, kind):
    answer = compared(regauge, tmp_path, matrices, quantised(matrices, kind))
    assert outside(answer) == {} and answer["statement"] == "same-numbers"


@pytest.mark.parametrize("kind", [*EACH, Type.IQ2_XXS, Type.IQ3_S, Type.Q1_0], ids=name_of)
def test_numbers_of_every_kind(regauge, tmp_path, kind):
    """Scales that are small, outliers, constants, zeros: never "not the same"."""
    matrices = filled(KINDS)
    if kind in JOINT:
        ones = {name: numpy.ones(values.shape[1]) for name, values in matrices.items()}
        tensors = {name: (llama_cpp.quantise(values, kind, ones[name]), kind) for name, values in matrices.items()}
        answer = compared(regauge, tmp_path, matrices, tensors, expect=1)
        assert answer["statement"] == "undecided"
    else:
        answer = compared(regauge, tmp_path, matrices, quantised(matrices, kind), expect={0, 1})
        assert answer["statement"] in ("same-numbers", "undecided")


@pytest.mark.parametrize("kind", [Type.Q2_K, Type.Q3_K, Type.IQ4_XS], ids=name_of)
def test_an_importance_matrix(regauge, tmp_path, matrices, kind):
    answer = compared(regauge, tmp_path, matrices, by_importance(matrices, kind), expect={0, 1})
    assert answer["statement"] in ("same-numbers", "undecided")


@pytest.mark.parametrize("kind", JOINT, ids=name_of)
def test_codebooks_leave_it_undecided(regauge, tmp_path, matrices, kind):
    answer = compared(regauge, tmp_path, matrices, one_of(matrices, kind), expect=1)
    assert answer["statement"] == "undecided" and list(outside(answer)) == [CANONICAL]


@pytest.mark.parametrize("kind", [*EACH, *JOINT], ids=name_of)
def test_one_block_from_elsewhere(regauge, tmp_path, matrices, kind):
    values = matrices[NAME].copy()
    values[7] = values_of(random, values.shape, seed=5)[7]
    answer = compared(regauge, tmp_path, matrices, one_of(matrices, kind, values), expect=1)
    assert answer["statement"] == "not-the-same" and list(outside(answer)) == [CANONICAL]
