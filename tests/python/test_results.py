"""The page of results says what its records say."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def check(tools):
    command = [sys.executable, tools / "results_table.py", os.environ["REGAUGE"], "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_number_of_the_page_is_that_of_the_records(regauge):
    result = check(ROOT / "tools")
    assert result.returncode == 0, result.stderr


def test_another_number_is_seen(regauge, tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "docs" / "results").mkdir(parents=True)
    script = (ROOT / "tools" / "results_table.py").read_text()
    (tmp_path / "tools" / "results_table.py").write_text(script)
    for path in (ROOT / "docs" / "results").iterdir():
        text = path.read_text()
        if path.suffix == ".jsonl":
            text = re.sub(r'"barrier":([0-9.e-]+)', lambda m: f'"barrier":{float(m[1]) + 0.1}', text, count=1)
        (tmp_path / "docs" / "results" / path.name).write_text(text)
    assert check(tmp_path / "tools").returncode == 1
