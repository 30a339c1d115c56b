"""No signal ends the program: it says what happened, takes away what it had not finished, and has an exit code."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest
from conftest import FIXTURES, stopped
from test_streaming import checkpoint  # noqa: F401

UNANSWERED = 4
LLAMA = FIXTURES / "llama"


def start(*arguments, **options):
    return subprocess.Popen(
        [os.environ["REGAUGE"], *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def has_mapped(process, path):
    with contextlib.suppress(OSError):
        return str(path) in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    return False


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGXCPU])
def test_interrupted_work_leaves_nothing(checkpoint, tmp_path, number):  # noqa: F811
    out = tmp_path / "out"
    status, printed, said = stopped(
        lambda: start("act", checkpoint, "-o", out, "--random", 1), number, out,
        lambda: any(tmp_path.glob(".out.partial-*")),
    )  # fmt: skip
    assert status == 130
    assert "nothing was written" in said and printed == ""
    assert not list(tmp_path.iterdir())


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path):
    """As under nohup."""
    process = start(
        "act", LLAMA, "-o", tmp_path / "out", "--random", 1,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    process.send_signal(signal.SIGHUP)
    process.communicate()
    assert process.returncode == 0


def cut_while_read(source, words, is_under_way):
    """The status and messages of a process that found its source cut to a page."""
    for _ in range(5):
        copy = source.parent / "cut"
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.index.json"))
        shutil.copy(source / "model.safetensors.index.json", copy)
        files = sorted(copy.glob("*.safetensors"))
        process = start(*words(copy))
        while process.poll() is None and not is_under_way(process, files):
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        for file in files:
            os.truncate(file, 4096)
        process.send_signal(signal.SIGCONT)
        printed, said = process.communicate(timeout=600)
        shutil.rmtree(copy)
        if process.returncode != 0:
            return process.returncode, printed, said
    pytest.fail("the work was over too soon")


def test_a_source_that_is_cut_while_it_is_rewritten(checkpoint, tmp_path):  # noqa: F811
    status, printed, said = cut_while_read(
        checkpoint,
        lambda source: ["act", source, "-o", tmp_path / "out", "--random", 1],
        lambda process, files: any(tmp_path.glob(".out.partial-*")),
    )
    assert status == 2, said
    assert printed == "" and "shorter" in said
    assert not list(tmp_path.iterdir())


def test_a_source_that_is_cut_while_it_is_compared(checkpoint):  # noqa: F811
    status, printed, said = cut_while_read(
        checkpoint,
        lambda source: ["diff", checkpoint, source],
        lambda process, files: has_mapped(process, files[-1]),
    )
    assert status == 2, printed + said
    assert printed == "" and "regauge: " in said


@pytest.mark.parametrize("verb", ["act", "fold", "canon", "convert"])
def test_a_limit_on_the_size_of_files(verb, tmp_path):
    more = {"act": ["--random", 1], "fold": [], "canon": [], "convert": ["--to", "gguf"]}[verb]
    size = (LLAMA / "model.safetensors").stat().st_size // 3
    process = start(
        verb, LLAMA, "-o", tmp_path / "out", *more,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )  # fmt: skip
    _, said = process.communicate()
    assert process.returncode == 2
    assert "File too large" in said
    assert not list(tmp_path.iterdir())


ANSWERS = [
    ["inspect", LLAMA],
    ["inspect", LLAMA, "--json"],
    ["diff", LLAMA, LLAMA],
    ["diff", LLAMA, LLAMA, "--json"],
    ["act", LLAMA, "--random", 1, "--dry-run"],
    ["--help"],
    ["diff", "--help"],
    ["--version"],
]


def unanswered(arguments, stdout, **options):
    process = subprocess.run(
        [os.environ["REGAUGE"], *map(str, arguments)],
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, **options,
    )  # fmt: skip
    assert process.returncode == UNANSWERED, process.stderr
    assert "could not be written" in process.stderr


@pytest.mark.parametrize("arguments", ANSWERS, ids=lambda words: " ".join(w for w in map(str, words) if "/" not in w))
def test_an_answer_that_cannot_be_written(arguments):
    with open("/dev/full", "w", encoding="utf-8") as full:
        unanswered(arguments, full)
    read, write = os.pipe()
    os.close(read)
    unanswered(arguments, write)
    os.close(write)
    unanswered(arguments, None, preexec_fn=lambda: os.close(1))


def test_a_closed_standard_output_is_not_written_into_a_file(regauge, tmp_path):
    """The first file that is opened would get its number."""
    words = ["act", LLAMA, "--random", 1, "-o"]
    unanswered([*words, tmp_path / "out"], None, preexec_fn=lambda: os.close(1))
    regauge(*words, tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
