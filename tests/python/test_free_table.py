"""bench/free_table.py: a model that is freed of the pin computes the same, and its stream may turn."""

import json
import pathlib
import subprocess
import sys

import pytest
from test_lab_train import CHARACTERS, config, text  # noqa: F401

SCRIPT = pathlib.Path(__file__).parents[2] / "bench" / "free_table.py"


def freed(model, output):
    result = subprocess.run([sys.executable, SCRIPT, model, output], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return output


def test_the_same_function_and_a_stream_that_turns(regauge, lab, tmp_path, text, config):  # noqa: F811
    sinusoidal = {**CHARACTERS, "positions": "sinusoidal", "rotary_dims": 0, "rotary_frequencies": []}
    lab("train", config(sinusoidal, steps=3), "-o", tmp_path / "pinned", "--threads", 1)
    free = freed(tmp_path / "pinned", tmp_path / "free")
    loss = [
        json.loads(lab("eval", model, "--data", f"bytes:{text}", "--examples", 20, "--double", "--json"))["loss"]
        for model in (tmp_path / "pinned", free)
    ]
    assert loss[0] == pytest.approx(loss[1], abs=1e-5)  # the table is stored in float
    planned = [
        regauge("act", model, "--random", 1, "--only", "residual", "--dry-run") for model in (tmp_path / "pinned", free)
    ]
    assert "fixed position" in planned[0] and "embed.positions" not in planned[0]
    assert "fixed position" not in planned[1] and "embed.positions\n  axis 1 by residual" in planned[1]
