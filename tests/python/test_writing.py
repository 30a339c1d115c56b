"""What is written is whole or not there, and never in the place of something else. Signals, limits and closed outputs:
`test_signals.py` and `test_streaming.py`. (attack: writers)"""

import os
import subprocess

import pytest
from conftest import FIXTURES

LLAMA = FIXTURES / "llama"
VERBS = {
    "act": ["act", LLAMA, "--random", 1],
    "fold": ["fold", LLAMA],
    "canon": ["canon", LLAMA],
    "convert": ["convert", LLAMA, "--to", "gguf"],
}


def start(*arguments):
    return subprocess.Popen(
        [os.environ["REGAUGE"], *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("verb", VERBS)
def test_an_output_that_is_there(tmp_path, verb):
    """The input itself, a file and a folder stay as they are."""
    before = contents(LLAMA)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for target in (LLAMA, tmp_path / "file", tmp_path / "folder"):
        process = start(*VERBS[verb], "-o", target)
        assert process.communicate()[0] == "" and process.returncode == 2
    assert contents(LLAMA) == before and contents(tmp_path) == {"file": b"mine"}
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("verb", VERBS)
def test_four_at_once(regauge, tmp_path, verb):
    """One of them writes; what is there in the end is whole, and nothing lies beside it."""
    out = tmp_path / "out"
    processes = [start(*VERBS[verb], "-o", out) for _ in range(4)]
    messages = [process.communicate()[1] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes[0] == 0 and set(codes) <= {0, 2}, messages
    assert list(tmp_path.iterdir()) == [out]
    regauge("diff", LLAMA, out)


def test_answers_that_have_no_place(regauge, tmp_path):
    for words in (
        ["--html", tmp_path / "no" / "such" / "page.html"],
        ["--certificate", tmp_path / "no" / "such" / "proof.safetensors"],
        ["--certificate", "/proc/proof.safetensors"],
    ):
        process = start("diff", LLAMA, LLAMA, *words)
        printed, said = process.communicate()
        assert process.returncode == 2 and said.startswith("regauge: "), (words, printed, said)
    assert not list(tmp_path.iterdir())


def test_an_output_inside_the_input(regauge, tmp_path):
    regauge("convert", LLAMA, "--to", "safetensors", "-o", tmp_path / "a")
    before = contents(tmp_path / "a")
    process = start("act", tmp_path / "a", "-o", tmp_path / "a" / "sub", "--random", 1)
    process.communicate()
    assert contents(tmp_path / "a") == before
    if process.returncode == 0:
        regauge("diff", tmp_path / "a", tmp_path / "a" / "sub")
    else:
        assert process.returncode == 2 and not (tmp_path / "a" / "sub").exists()
