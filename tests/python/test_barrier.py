"""`regauge barrier`: what it prints, whom it refuses, and that formats and ties do not matter."""

import json
import os
import shutil
import subprocess
import xml.etree.ElementTree

import pytest
from conftest import FIXTURES
from safetensors.numpy import load_file, save_file


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "tokens.txt"
    path.write_text(" ".join(str((7 * i * i + i // 5) % 50) for i in range(400)))
    return f"tokens:{path}"


@pytest.fixture
def barrier(lab, regauge, text):
    def run(a, b, *options, expect=0):
        options = ("--data", text, "--length", 8, "--threads", 1, *options)
        return regauge("barrier", a, b, *options, expect=expect)

    return run


def test_the_line_to_a_moved_copy_on_what_both_write(regauge, lab, tmp_path):
    moved = tmp_path / "moved"
    regauge("act", FIXTURES / "llama", "-o", moved, "--random", 1)
    options = ("--data", "self", "--length", 6, "--threads", 1)
    result = json.loads(regauge("barrier", FIXTURES / "llama", moved, *options, "--json"))
    points = result["points"]
    assert [p["t"] for p in points] == pytest.approx([i / 24 for i in range(25)])
    assert points[0]["loss"] == pytest.approx(points[-1]["loss"], abs=1e-4)
    assert result["barrier"] == pytest.approx(max(p["excess"] for p in points))
    assert result["barrier"] > 3 * result["barrier_error"] > 0
    assert result["examples"] == 128
    shown = regauge("barrier", FIXTURES / "llama", moved, *options, "--points", 3)
    assert len(shown.splitlines()) == 5 and "barrier" in shown.splitlines()[-1]


def test_the_same_part_of_the_data_with_and_without_alignment(barrier, tmp_path):
    """What is not aligned is measured where the aligned is: on the test part."""
    def examples(*options):
        return json.loads(barrier(FIXTURES / "llama", FIXTURES / "llama", "--points", 2, "--json", *options))["examples"]

    assert "(--split test)" in barrier(FIXTURES / "llama", FIXTURES / "llama", "--points", 2)
    assert examples() == examples("--align", "two_stage") == examples("--split", "test") < examples("--split", "all")


def test_aligned_first(regauge, lab, tmp_path):
    """A moved copy lies behind a barrier, and behind none once it is brought back; half of the way is not enough."""
    moved = tmp_path / "moved"
    regauge("act", FIXTURES / "llama", "-o", moved, "--random", 1)

    def of(*options):
        options = ("--data", "self", "--length", 6, "--threads", 1, "--points", 5, "--json", *options)
        return json.loads(regauge("barrier", FIXTURES / "llama", moved, *options))["barrier"]

    naive = of()
    picture = tmp_path / "line.svg"
    assert of("--align", "weights", "--picture", picture) < 1e-3 < 0.01 < naive
    assert of("--align", "weights", "--set", "scope=ffn") > 0.1 * naive
    options = ("--data", "self", "--align", "weights", "--set")
    regauge("barrier", FIXTURES / "llama", moved, *options, "scope=attention:7", expect=2)  # not there
    assert xml.etree.ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_settings_of_no_alignment_are_refused(barrier, regauge):
    barrier(FIXTURES / "llama", FIXTURES / "llama", "--set", "steps=3", expect=2)
    barrier(FIXTURES / "llama", FIXTURES / "llama", "--align", "weights", "--set", "steps=3", expect=2)


def test_formats_do_not_matter(barrier, regauge, tmp_path):
    regauge("convert", FIXTURES / "llama", "--to", "gguf", "-o", tmp_path / "llama.gguf")
    result = json.loads(barrier(FIXTURES / "llama", tmp_path / "llama.gguf", "--json", "--points", 3))
    assert abs(result["barrier"]) < 1e-6


def test_another_architecture_is_refused(regauge, lab, tmp_path, text):
    other = tmp_path / "other"
    shutil.copytree(FIXTURES / "llama", other)
    config = json.loads((other / "config.json").read_text())
    config["rms_norm_eps"] = 1e-3
    (other / "config.json").write_text(json.dumps(config))
    command = [os.environ["REGAUGE"], "barrier", FIXTURES / "llama", other, "--data", text]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "norm_eps" in result.stderr


def test_a_loss_that_is_not_finite_is_no_barrier_of_zero(lab, text, tmp_path):
    """Two copies of one model whose queries and keys are out of balance in opposite directions."""
    for name, size in (("a", 1e22), ("b", 1e-22)):
        shutil.copytree(FIXTURES / "llama", tmp_path / name)
        path = tmp_path / name / "model.safetensors"
        tensors = load_file(path)
        for key in tensors:
            if "q_proj.weight" in key:
                tensors[key] = (tensors[key] * size).astype(tensors[key].dtype)
            if "k_proj.weight" in key:
                tensors[key] = (tensors[key] / size).astype(tensors[key].dtype)
        save_file(tensors, path, metadata={"format": "pt"})
    command = [os.environ["REGAUGE"], "barrier", tmp_path / "a", tmp_path / "b", "--data", text, "--length", 8, "--points", 3]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "not finite at t = 0.5" in result.stderr, result.stdout + result.stderr
