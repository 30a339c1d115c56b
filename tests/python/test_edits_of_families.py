"""Edits by somebody who knows the group: almost a symmetry, and in the parts that only some families have. Each is made
in a fixture in F32 that is then moved by a random element; it must not be called the same. What is a symmetry must be."""

import numpy as np
import pytest
from conftest import FIXTURES
from doctored import doctored, said


def one(tensors, end):
    """The first tensor whose name ends so, as a view."""
    return tensors[next(name for name in sorted(tensors) if name.endswith(end))].numpy()


def halves(gain):
    return gain.shape[0] // 2


def q_gain(tensors):
    one(tensors, "layers.0.self_attn.q_norm.weight")[:] *= 1 + 1e-5


def gains_of_one_pair(tensors):
    """The two halves of a rotary pair have gains of their own: no scale of the pair."""
    for end, factor in (("q_norm", 2), ("k_norm", 0.5)):
        gain = one(tensors, f"layers.0.self_attn.{end}.weight")
        gain[0] *= factor
        gain[halves(gain)] /= factor


def scaled_under_a_joint_norm(tensors):
    """The norm of all heads sees the size of every row."""
    one(tensors, "layers.0.self_attn.q_norm.weight")[0] *= 2
    one(tensors, "layers.0.self_attn.q_proj.weight")[0] /= 2


def one_gain_of_a_joint_norm(tensors):
    one(tensors, "layers.0.self_attn.k_norm.weight")[-1] *= 1 + 1e-4


def last_gains(tensors):
    """Before a cap; stored less one."""
    gain = one(tensors, "model.norm.weight")
    gain[:] = (1 + gain) * (1 + 1e-5) - 1


def router_row(tensors):
    one(tensors, "layers.0.mlp.gate.weight")[0] *= 1 + 1e-4


def router_rows_exchanged(tensors):
    router = one(tensors, "layers.0.mlp.gate.weight")
    router[[0, 1]] = router[[1, 0]]


def one_expert(tensors):
    one(tensors, "layers.0.mlp.experts.1.down_proj.weight")[:] *= 1 + 1e-4


def half_a_shift(tensors):
    """Constants of the values that the output's bias takes back by half."""
    bias = one(tensors, "h.0.attn.c_attn.bias")
    width = bias.shape[0] // 3
    shift = 1e-3 * np.random.default_rng(1).standard_normal(width).astype(np.float32)
    bias[2 * width :] += shift
    one(tensors, "h.0.attn.c_proj.bias")[:] -= 0.5 * shift @ one(tensors, "h.0.attn.c_proj.weight")


def one_of_two_readers(tensors):
    """A value's coordinate by 2, and back in one of the query heads that read it."""
    one(tensors, "layers.1.self_attn.v_proj.weight")[0] *= 2
    one(tensors, "layers.1.self_attn.o_proj.weight")[:, 0] /= 2


EDITS = [
    ("qwen3", q_gain), ("qwen3", gains_of_one_pair), ("olmo2", scaled_under_a_joint_norm),
    ("olmo2", one_gain_of_a_joint_norm), ("gemma2", last_gains), ("qwen3_moe", router_row),
    ("olmoe", router_rows_exchanged), ("qwen2_moe", one_expert), ("gpt2", half_a_shift), ("llama", one_of_two_readers),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit"), EDITS, ids=lambda case: case if isinstance(case, str) else case.__name__)
def test_an_edit_is_told(regauge, tmp_path, name, edit):
    edited = doctored(FIXTURES / name, tmp_path / "edited", edit)
    regauge("act", edited, "-o", tmp_path / "moved", "--random", 7)
    assert said(FIXTURES / name, tmp_path / "moved")["statement"] == "not-the-same"


def gains_against_each_other(tensors):
    one(tensors, "layers.0.self_attn.q_norm.weight")[:] *= 2
    one(tensors, "layers.0.self_attn.k_norm.weight")[:] /= 2


def router_shifted(tensors):
    """All rows alike, which a softmax does not see."""
    router = one(tensors, "layers.0.mlp.gate.weight")
    router += np.random.default_rng(3).standard_normal(router.shape[1]).astype(np.float32)


@pytest.mark.parametrize(("name", "change"), [("qwen3", gains_against_each_other), ("olmoe", router_shifted)])
def test_a_symmetry_is_recognised(regauge, tmp_path, name, change):
    changed = doctored(FIXTURES / name, tmp_path / "changed", change)
    regauge("act", changed, "-o", tmp_path / "moved", "--random", 7)
    assert said(FIXTURES / name, tmp_path / "moved")["statement"] == "other-coordinates"


SELECTION = "layers.1.mlp.gate.e_score_correction_bias"
TABLE = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def behind_a_constant(name, constant, edit):
    """The group lets a constant pass, and rounding to its digits would hide what else is done."""

    def change(tensors):
        vector = one(tensors, name)
        vector.flat[0] += edit
        vector += constant

    return change


def steering_behind_a_constant(constant, edit):
    def change(tensors):
        bias, taker = one(tensors, "h.0.attn.c_attn.bias"), one(tensors, "h.0.attn.c_proj.bias")
        width = taker.shape[0]
        bias[2 * width :] += constant
        taker -= constant * one(tensors, "h.0.attn.c_proj.weight").sum(0)
        taker[::2] += edit

    return change


HIDING = [
    (family, behind_a_constant(name, constant, 3e-7 * constant))
    for family, name in (
        ("deepseek_v3", SELECTION), ("glm4_moe", SELECTION), ("gpt_oss", "layers.0.mlp.router.bias"), ("t5", TABLE),
    )
    for constant in (1e5, 1e6, 1e8)
] + [("gpt2", steering_behind_a_constant(1e7, 0.5)), ("gpt2", steering_behind_a_constant(1e8, 6))]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), HIDING)
def test_a_constant_hides_nothing(regauge, tmp_path, name, change):
    changed = doctored(FIXTURES / name, tmp_path / "changed", change)
    for pair in ((FIXTURES / name, changed), (changed, FIXTURES / name)):
        assert said(*pair)["statement"] in ("not-the-same", "undecided")


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe"])
def test_a_constant_alone_is_recognised(regauge, tmp_path, name):
    changed = doctored(FIXTURES / name, tmp_path / "changed", behind_a_constant(SELECTION, 1e3, 0))
    assert said(FIXTURES / name, changed)["statement"] == "other-coordinates"


@pytest.mark.parametrize("name", ["bert-classes", "roberta-classes"])
def test_units_of_a_pooler_may_change_places(regauge, tmp_path, name):
    def rolled(tensors):
        dense = "pooler.dense" if name.startswith("bert") else "classifier.dense"
        out = "classifier.weight" if name.startswith("bert") else "out_proj.weight"
        for end, axis in ((dense + ".weight", 0), (dense + ".bias", 0), (out, 1)):
            tensor = one(tensors, end)
            tensor[:] = np.roll(tensor, 1, axis)

    changed = doctored(FIXTURES / name, tmp_path / "changed", rolled)
    assert said(FIXTURES / name, changed)["statement"] == "other-coordinates"
