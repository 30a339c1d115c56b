"""`--repair` writes what it has compared, plainly, and found to be A; where the mistake is not all, nothing is written.
(attack: repair, repair_wrong)"""

import os
import subprocess

import pytest
import torch
from doctored import HEADS, KV_HEADS, added, doctored, llama, logits, said
from test_allowances import aimed

LAYERS = 2


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def base(request, tmp_path_factory):
    return llama(tmp_path_factory.mktemp("base") / "a", dtype=request.param)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return llama(tmp_path_factory.mktemp("wide") / "a")


def rotary_missing(tensors):
    for name, rows in tensors.items():
        for part, heads in (("q_proj", HEADS), ("k_proj", KV_HEADS)):
            if part in name:
                tensors[name] = rows.view(heads, 2, -1, rows.shape[1]).transpose(1, 2).reshape(rows.shape).contiguous()


def gate_and_up_swapped(tensors):
    for name in [name for name in tensors if "gate_proj" in name]:
        twin = name.replace("gate", "up")
        tensors[name], tensors[twin] = tensors[twin], tensors[name]


PARTS = {
    rotary_missing: ("self_attn.q_proj", "self_attn.k_proj"),
    gate_and_up_swapped: ("mlp.gate_proj", "mlp.up_proj"),
}


def its_own_tensors(mistake, share):
    """Those of the mistake, and no others, trained on."""

    def change(tensors):
        for layer in range(LAYERS):
            for number, part in enumerate(PARTS[mistake]):
                name = f"model.layers.{layer}.{part}.weight"
                tensors[name] = added(tensors[name], share, number)

    return change


def another_tensor(mistake, share):
    name = "model.layers.1.mlp.down_proj.weight"
    return lambda tensors: tensors.update({name: added(tensors[name], share)})


def repaired(a, b, target):
    """What was said, and whether a file was written."""
    done = subprocess.run(
        [os.environ["REGAUGE"], "diff", str(a), str(b), "--repair", "-o", str(target)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert not list(target.parent.glob(".*partial*"))
    return done.stdout + done.stderr, target.exists()


@pytest.mark.parametrize("mistake", PARTS)
def test_a_mistake_alone_is_undone(base, tmp_path, mistake):
    b = doctored(base, tmp_path / "b", mistake)
    said_so, written = repaired(base, b, tmp_path / "fixed")
    assert written, said_so
    assert "verified: undoing it makes B equal to A)" in said_so and "every number is A's" in said_so
    assert said(base, tmp_path / "fixed")["statement"] == "identical"
    assert (logits(base) - logits(tmp_path / "fixed")).abs().max() == 0


@pytest.mark.parametrize("share", [0.003, 0.1])
@pytest.mark.parametrize("besides", [its_own_tensors, another_tensor])
@pytest.mark.parametrize("mistake", PARTS)
def test_a_change_besides_is_not_blessed(base, tmp_path, mistake, besides, share):
    change = besides(mistake, share)
    b = doctored(base, tmp_path / "b", lambda tensors: (change(tensors), mistake(tensors)))
    said_so, written = repaired(base, b, tmp_path / "fixed")
    assert not written
    assert "verified" not in said_so
    assert "not repaired: with the known causes undone B still differs from A" in said_so
    assert not said(base, b)["diagnosis"]["certain"]


def centred(tensors):
    """As a tool does it in the type of the file: the mean is rounded, and then the difference."""
    for name, rows in tensors.items():
        if "down_proj" in name or "o_proj" in name:
            tensors[name] = (rows.T - rows.T.mean(-1, keepdim=True)).T.contiguous()


def gains_off_by_one(tensors):
    for name, gain in tensors.items():
        if gain.ndim == 1:
            tensors[name] = gain - 1


ROUNDED = {centred: "mlp.down_proj", gains_off_by_one: "input_layernorm"}


@pytest.mark.parametrize("mistake", ROUNDED)
def test_what_was_calculated_is_told_to_differ_in_the_last_digits(base, tmp_path, mistake):
    b = doctored(base, tmp_path / "b", mistake)
    said_so, written = repaired(base, b, tmp_path / "fixed")
    assert written, said_so
    assert "verified: undoing it makes B equal to A but for the last digits" in said_so
    exact = said(base, tmp_path / "fixed")["statement"] == "identical"
    assert ("every number is A's" if exact else "A's numbers but for the last digits") in said_so


@pytest.mark.parametrize("share", [0.003, 0.1])
@pytest.mark.parametrize("mistake", ROUNDED)
def test_a_change_of_what_was_calculated_is_not_blessed(base, tmp_path, mistake, share):
    name = f"model.layers.1.{ROUNDED[mistake]}.weight"
    change = lambda tensors: tensors.update({name: added(tensors[name], share)})  # noqa: E731
    b = doctored(base, tmp_path / "b", lambda tensors: (change(tensors), mistake(tensors)))
    said_so, written = repaired(base, b, tmp_path / "fixed")
    assert not written and "verified" not in said_so


def test_a_change_besides_in_a_moved_copy(regauge, wide, tmp_path):
    """Unseen by the directions that once were fixed."""
    b = doctored(wide, tmp_path / "b", lambda tensors: (aimed(0.3)(tensors), rotary_missing(tensors)))
    regauge("act", b, "-o", tmp_path / "moved", "--random", 3)
    assert not repaired(wide, tmp_path / "moved", tmp_path / "fixed")[1]


def test_a_mistake_in_a_moved_copy(regauge, wide, tmp_path):
    b = doctored(wide, tmp_path / "b", rotary_missing)
    regauge("act", b, "-o", tmp_path / "moved", "--random", 3)
    said_so, written = repaired(wide, tmp_path / "moved", tmp_path / "fixed")
    assert written
    assert "verified: undoing it makes B equal to A but for the last digits" in said_so
    assert "A's numbers but for the last digits: off by up to" in said_so
    assert (logits(wide) - logits(tmp_path / "fixed")).abs().max() < 1e-3
    tensors = said(wide, tmp_path / "fixed")["tensors"]  # moved back, and so rounded twice
    assert max(tensor["residual"] / (tensor["size"] or 1) for tensor in tensors) < 1e-6


ROPE = {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize("keys", [dict(rms_norm_eps=1e-2), dict(rope_parameters=ROPE)], ids=["eps", "rope"])
def test_a_setting_and_a_tensor(wide, tmp_path, keys):
    b = doctored(wide, tmp_path / "b", another_tensor(None, 0.003), **keys)
    assert not repaired(wide, b, tmp_path / "fixed")[1]
    alone = doctored(wide, tmp_path / "alone", **keys)
    assert repaired(wide, alone, tmp_path / "fixed")[1]
    assert said(wide, tmp_path / "fixed")["statement"] == "identical"


def test_a_setting_and_a_key_that_is_not_understood(wide, tmp_path):
    b = doctored(wide, tmp_path / "b", rms_norm_eps=1e-3, is_causal=False)
    said_so, written = repaired(wide, b, tmp_path / "fixed")
    assert not written, said_so
    assert "verified" not in said_so
    assert "is_causal" in said_so
