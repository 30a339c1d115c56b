"""The page of results says what its records say."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def check(tools):
    command = [sys.executable, tools / "results_table.py", os.environ["REGAUGE"], "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_number_of_the_page_is_that_of_the_records(regauge):
    result = check(ROOT / "tools")
    assert result.returncode == 0, result.stderr


@pytest.fixture
def copy(regauge, tmp_path):
    for folder in ("docs/results", "experiments"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "results_table.py", tmp_path / "tools")
    assert check(tmp_path / "tools").returncode == 0
    return tmp_path


def test_another_number_is_seen(copy):
    path = next((copy / "docs" / "results").glob("*.jsonl"))
    text = path.read_text()
    path.write_text(re.sub(r'"barrier":([0-9.e-]+)', lambda m: f'"barrier":{float(m[1]) + 0.1}', text, count=1))
    assert "does not say what the records say" in check(copy / "tools").stderr


def test_a_row_in_another_place_is_seen(copy):
    page = copy / "docs" / "results" / "README.md"
    lines = page.read_text().splitlines()
    rotary = [i for i, line in enumerate(lines) if line.startswith("| everything | rotary |")]
    first, second = rotary[:2]
    lines[first], lines[second] = lines[second], lines[first]
    page.write_text("\n".join(lines) + "\n")
    assert "does not say what the records say" in check(copy / "tools").stderr
