"""bench/students.py: students that fit a teacher exactly are the teacher in other coordinates."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import pytest
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import students  # noqa: E402


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def teacher(name, seed=3):
    a = {**students.COMMON, **students.ARCHITECTURES[name]}
    return a, students.draw(a, torch.Generator().manual_seed(seed), 1.5)


def tokens_of(a, count=6):
    return torch.randint(0, a["vocabulary"], (count, a["max_positions"]), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", students.ARCHITECTURES)
def test_the_forward_pass_is_the_programs(lab, tmp_path, name):
    a, x = teacher(name)
    model, tokens = students.save(a, x, tmp_path / "model"), tokens_of(a)
    safetensors.torch.save_file({"tokens": tokens}, tmp_path / "in.safetensors")
    lab("forward", model, "--input", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", "--double")
    theirs = safetensors.torch.load_file(tmp_path / "out.safetensors")["outputs"]
    ours = students.outputs(a, x.float().double(), tokens)
    torch.testing.assert_close(ours, theirs.view_as(ours).double(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", students.ARCHITECTURES)
def test_the_jacobian_is_that_of_finite_differences(name):
    a, x = teacher(name)
    tokens = tokens_of(a, 2)
    fit = students.Fit(a, tokens, torch.zeros(()))
    jacobian = fit.jacobian(x[None])[0]
    direction = torch.randn(len(x), generator=torch.Generator().manual_seed(2))
    difference = (fit.residuals((x + 1e-6 * direction)[None]) - fit.residuals((x - 1e-6 * direction)[None]))[0] / 2e-6
    torch.testing.assert_close(jacobian @ direction, difference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", students.ARCHITECTURES)
def test_a_moved_teacher_is_exact_and_a_perturbed_one_is_not(regauge, tmp_path, name):
    a, x = teacher(name)
    model, tokens = students.save(a, x, tmp_path / "model"), tokens_of(a)
    regauge("act", model, "--random", 1, "-o", tmp_path / "moved")
    moved = safetensors.torch.load_file(tmp_path / "moved" / "model.safetensors")
    y = torch.cat([moved[tensor].double().flatten() for tensor in students.shapes(a)])
    torch.testing.assert_close(students.outputs(a, y, tokens), students.outputs(a, x, tokens), rtol=1e-4, atol=1e-4)
    assert students.statement(os.environ["REGAUGE"], model, tmp_path / "moved") == "other-coordinates"
    noise = 1e-4 * torch.randn(len(y), generator=torch.Generator().manual_seed(4))
    perturbed = students.save(a, y + noise, tmp_path / "perturbed")
    assert students.statement(os.environ["REGAUGE"], model, perturbed) != "other-coordinates"


def with_a_sign_changed(a, x):
    """A coordinate of the queries, in all heads, and its gain."""
    y = x.clone()
    p = students.tensors(a, y)
    p["layers.0.attn.q.weight"][:, :: a["qk_width"]] *= -1
    p["layers.0.attn.q_norm.gain"][:, 0] *= -1
    return y


def test_a_sign_between_a_map_and_its_qk_gain_changes_nothing():
    a, x = teacher("QK-norm")
    y, tokens = with_a_sign_changed(a, x), tokens_of(a)
    assert not torch.equal(x, y)
    torch.testing.assert_close(students.outputs(a, y, tokens), students.outputs(a, x, tokens), rtol=1e-14, atol=1e-14)


def test_a_sign_between_a_map_and_its_qk_gain_is_in_the_group(regauge, tmp_path):
    a, x = teacher("QK-norm")
    model = students.save(a, x, tmp_path / "model")
    moved = students.save(a, with_a_sign_changed(a, x), tmp_path / "moved")
    assert students.statement(os.environ["REGAUGE"], model, moved) == "other-coordinates"


def test_tokens_are_enough_to_tell_parameters_apart(regauge, tmp_path):
    def dimensions(name, **changes):
        a, x = teacher(name)
        if changes:
            a = {**a, **changes}
            x = students.draw(a, torch.Generator().manual_seed(3), 1.5)
        everything = torch.tensor(list(itertools.product(range(a["vocabulary"]), repeat=a["max_positions"])))
        model = students.save(a, x, tmp_path / f"{name} {changes}")
        found = students.nullity(a, x, everything[:: max(1, len(everything) // 120)])
        return found, students.answer(os.environ["REGAUGE"], "inspect", model)["redundant"]

    for name in students.ARCHITECTURES:
        found, group = dimensions(name)
        assert found == group, name
    found, group = dimensions("QK-norm, one head", vocabulary=5)
    assert found == group + 1


def test_exact_students_are_the_teacher_and_others_are_not(regauge):
    command = [sys.executable, ROOT / "bench" / "students.py", "--regauge", os.environ["REGAUGE"],
               "--architectures", "rotary", "--chains", "12", "--enough", "1"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(records) == 12 and any(record["exact"] for record in records)
    for record in records:
        assert record["statement"] == ("other-coordinates" if record["exact"] else "not-the-same"), record
