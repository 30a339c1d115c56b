"""The snippets of docs/python.md run, in their order, in one namespace."""

import importlib.util
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def installed(*names):
    return all(importlib.util.find_spec(name) for name in names)


def snippets():
    """(line, needs torch, code), of every block."""
    text = PAGE.read_text()
    for match in re.finditer(r"(<!-- needs torch -->\n)?```python\n(.*?)```", text, re.DOTALL):
        yield text[: match.start(2)].count("\n"), bool(match[1]), match[2]


@pytest.mark.skipif(not installed("mathformer"), reason="pip install --no-deps mathformer==2.0.0")
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for line, needs_torch, code in snippets():
        if not needs_torch or installed("torch", "transformers"):
            exec(compile("\n" * line + code, str(PAGE), "exec"), namespace)
    printed = capsys.readouterr().out
    for promised in re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for expected in promised.splitlines():
            assert expected in printed
