"""`regauge align` by activations and by learning: what it needs, what it keeps, and that it repeats itself."""

import json
import os
import signal
import subprocess

import pytest
from conftest import FIXTURES, is_written, stopped
from test_align import noisy_copy

SELF = ("--data", "self", "--length", 12, "--threads", 1)


@pytest.fixture(scope="module")
def moved(regauge, tmp_path_factory):
    path = tmp_path_factory.mktemp("moved") / "moved"
    regauge("act", FIXTURES / "llama", "-o", path, "--random", 1)
    return path


def test_a_moved_copy_comes_back(lab, regauge, tmp_path, moved):
    out = tmp_path / "out"
    regauge("align", FIXTURES / "llama", moved, "-o", out, "--method", "activations", *SELF)
    regauge("diff", moved, out)  # exit 0: the same function
    line = json.loads(regauge("barrier", FIXTURES / "llama", out, *SELF, "--points", 3, "--json"))
    assert abs(line["points"][1]["excess"]) < 1e-3
    before = json.loads(regauge("barrier", FIXTURES / "llama", moved, *SELF, "--points", 3, "--json"))
    assert before["points"][1]["excess"] > 0.01


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Where learning has something to win."""
    path = tmp_path_factory.mktemp("noisy") / "noisy"
    noisy_copy(FIXTURES / "llama", path, 1.0, 1)
    return path


@pytest.mark.parametrize("method", ["activations", "learned"])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2", "gpt_neox"])
def test_the_function_of_b_stays(lab, regauge, tmp_path, family, method):
    a, b, out = FIXTURES / family, tmp_path / "b", tmp_path / "out"
    noisy_copy(a, b, 0.5, 1)
    learned = ("--batch", 4, "--set", "steps=6") if method == "learned" else ()
    regauge("align", a, b, "-o", out, "--method", method, *SELF, *learned)
    assert "the same function, in other coordinates" in regauge("diff", b, out)


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


def test_learning_repeats_itself_and_keeps_the_function(lab, regauge, tmp_path, noisy):
    def learned(name, *settings):
        out, report = tmp_path / name, tmp_path / f"{name}.json"
        regauge("align", FIXTURES / "llama", noisy, "-o", out, "--method", "learned", *SELF, "--report", report,
                "--start", "weights", "--batch", 4, "--set", *settings)  # fmt: skip
        assert not (tmp_path / f"{name}.learning.safetensors").exists()
        found = json.loads(report.read_text())
        assert (found["method"], found["start"], found["kept"]) == ("learned", "weights", "end")
        return out

    one, two, other = learned("one", "steps=30"), learned("two", "steps=30"), learned("other", "steps=40")
    assert weights_of(one) == weights_of(two) != weights_of(other)
    regauge("diff", noisy, one)


def test_learning_goes_on_after_an_interruption(lab, regauge, tmp_path, noisy):
    def command(out, steps=400):
        return ("align", FIXTURES / "llama", noisy, "-o", out, "--method", "learned", *SELF,
                "--start", "weights", "--batch", 4, "--set", f"steps={steps}")  # fmt: skip

    def start(*arguments):
        words = [os.environ["REGAUGE"], *map(str, command(*arguments))]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    whole, out, state = tmp_path / "whole", tmp_path / "out", tmp_path / "out.learning.safetensors"
    regauge(*command(whole))
    status, _, messages = stopped(lambda: start(out), signal.SIGINT, out, lambda: is_written(state), pause=0.5)
    assert status == 130, messages
    assert state.exists() and not out.exists()
    other = start(out, 401)
    _, messages = other.communicate(timeout=600)
    assert other.returncode == 2 and "with other settings" in messages
    regauge(*command(out))
    assert weights_of(out) == weights_of(whole)
    assert not state.exists()


def test_a_dry_run_leaves_nothing(lab, regauge, tmp_path, noisy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    regauge("align", FIXTURES / "llama", noisy, "--dry-run", "--method", "learned", *SELF, "--set", "steps=2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options, message",
    [
        (("--method", "activations"), "needs --data"),
        (("--method", "learned", *SELF, "--set", "stpes=3"), "'stpes' is not a setting"),
        (("--method", "learned", *SELF, "--set", "steps"), "expected KEY=VALUE"),
        (("--method", "learned", *SELF, "--compact"), "--set compact=true"),
    ],
)
def test_refusals(lab, tmp_path, moved, options, message):
    command = [os.environ["REGAUGE"], "align", FIXTURES / "llama", moved, "-o", tmp_path / "out", *options]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert list(tmp_path.iterdir()) == []
