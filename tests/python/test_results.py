"""The page of results says what its records say."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def tables(tools, *option):
    command = [sys.executable, tools / "results_table.py", os.environ["REGAUGE"], *option]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(tools):
    return tables(tools, "--check")


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


def rows(copy, keep):
    """The rows of Shakespeare's first attention without positions when only these of its (seeds, method) were measured."""
    path = copy / "docs" / "results" / "shakespeare.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    here = {"scope": "attention:0", "positions": "none"}
    kept = [r for r in records if {"scope": r["scope"], **r["cell"]} != here or keep(tuple(r["seeds"]), r["method"])]
    assert len(kept) < len(records)
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))
    made = tables(copy / "tools")
    assert made.returncode == 0, made.stderr
    return [line for line in made.stdout.splitlines() if line.startswith("| shakespeare | first attention | none |")]


def test_one_pair_has_a_gain_and_a_distance_without_a_spread(copy):
    gain, distance = sorted(rows(copy, lambda seeds, method: seeds == (1, 2)), key=len)
    assert re.fullmatch(r"\| shakespeare \| first attention \| none \| 1 \| [0-9.]+ \| [0-9.]+ \| -?[0-9.]+ \|", gain)
    assert re.fullmatch(r"\| shakespeare \| first attention \| none \| 1( \| [0-9]\.[0-9]{2}){3} \|", distance)


def test_pairs_that_lack_a_method_are_not_counted(copy):
    measured = rows(copy, lambda seeds, method: method != "orthogonal" or seeds == (1, 2))
    assert sorted(int(row.split("|")[4]) for row in measured) == [1, 3]
