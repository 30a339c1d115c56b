"""From a wheel to the first verdict on a trained model, in an environment with nothing in it."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def test_under_two_minutes(tmp_path):
    wheels = sorted((ROOT / "build" / "dist").glob("*.whl"), key=os.path.getmtime)
    if not wheels:
        pytest.fail("there is no wheel in build/dist: tools/build_wheel.sh build/dist")
    begin = time.monotonic()
    environment = tmp_path / "environment"
    steps = [
        [sys.executable, "-m", "venv", environment],
        [environment / "bin/pip", "install", "-q", wheels[-1]],
        [environment / "bin/regauge", "demo", tmp_path / "demo"],
    ]
    for step in steps:
        subprocess.run(step, check=True)
    command = [environment / "bin/regauge", "diff", tmp_path / "demo/original", tmp_path / "demo/converted"]
    answer = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    assert answer.returncode == 1 and "rotary-missing" in answer.stdout, answer.stdout + answer.stderr
    print(f"first verdict after {seconds:.0f} s")
    assert seconds < 120
