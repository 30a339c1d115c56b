"""What the program says of itself: help, examples, manual pages, completion, colour."""

import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("REGAUGE", "regauge")
SHELLS = ["bash", "fish", "zsh"]


def verbs(regauge):
    listed = regauge("--help").split("Verbs:")[1].split("\nBegin")[0]
    found = re.findall(r"^  (\w+) ", listed, re.M)
    assert len(found) >= 15
    return [verb for verb in found if verb not in ("lab", "barrier")]  # of the other program


def examples(help_text):
    return re.findall(r"^  (regauge .*)$", help_text.split("Examples:")[1], re.M)


@pytest.fixture
def shell(tmp_path):
    """Runs a command in a new folder, with the program on PATH."""
    path = f"{pathlib.Path(PROGRAM).resolve().parent}{os.pathsep}{os.environ['PATH']}"

    def run(command):
        environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)

    return run


def test_every_verb_has_two_examples_that_run(regauge, shell, tmp_path):
    (tmp_path / "study").mkdir()
    shutil.copy(ROOT / "docs" / "results" / "width.jsonl", tmp_path / "study")
    for folder in (".local/share/bash-completion/completions", ".config/fish/completions"):
        (tmp_path / folder).mkdir(parents=True)
    for verb in verbs(regauge):
        lines = examples(regauge(verb, "--help"))
        assert len(lines) == 2 and all(line.startswith(f"regauge {verb}") for line in lines), verb
        for line in lines:
            result = shell(line)
            negative = line.startswith("regauge diff demo/original demo/converted")
            assert result.returncode == (1 if negative else 0), f"{line}: {result.stdout}{result.stderr}"
    assert (tmp_path / "fixed").exists() and (tmp_path / "answer.html").exists()


def test_help_of_a_verb(regauge):
    assert regauge("help", "diff") == regauge("diff", "--help")
    assert regauge("help") == regauge("--help")
    assert "What is written" in regauge("help", "act")
    assert regauge("help", "lab").startswith("Run, train")  # from regauge-lab


def test_help_of_no_verb(regauge):
    result = subprocess.run([PROGRAM, "help", "dif"], capture_output=True, text=True)
    assert result.returncode == 2 and "did you mean diff?" in result.stderr
    result = subprocess.run([PROGRAM], capture_output=True, text=True)
    assert result.returncode == 2 and not result.stdout and "Verbs:" in result.stderr


def test_manual_pages(regauge, tmp_path):
    """What mandoc says of them, and what a reader sees."""
    for words in ([], *([verb] for verb in verbs(regauge))):
        page = tmp_path / "page.1"
        page.write_text(regauge("man", *words))
        checked = subprocess.run(["mandoc", "-T", "lint", "-W", "error", page], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
        shown = subprocess.run(["mandoc", "-T", "ascii", page], capture_output=True, text=True).stdout
        shown = re.sub(".\b", "", shown)
        for option in re.findall(r"--[a-z][a-z-]+", regauge(*words, "--help").split("Examples:")[0]):
            assert option in shown, (words, option)
    regauge("man", "nose", expect=2)


@pytest.mark.parametrize("shell_name", SHELLS)
def test_shells_read_the_completion(regauge, tmp_path, shell_name):
    script = tmp_path / "completion"
    script.write_text(regauge("completion", shell_name))
    assert subprocess.run([shell_name, "-n", script]).returncode == 0
    regauge("completion", "csh", expect=2)


def completed(script, words):
    command = f'source {script}; COMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words)}; _regauge; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout.split()


def test_what_bash_completes(regauge, tmp_path):
    script = tmp_path / "completion"
    script.write_text(regauge("completion", "bash"))
    assert {"diff", "act", "demo", "--family"} <= set(completed(script, ["regauge"]))
    assert {"--repair", "--html"} <= set(completed(script, ["regauge", "diff"]))
    assert "--repair" not in completed(script, ["regauge", "act", "diff"])


def test_what_fish_completes(regauge, tmp_path):
    script = tmp_path / "completion"
    script.write_text(regauge("completion", "fish"))
    for line, expected in (("regauge di", "diff"), ("regauge diff --re", "--repair")):
        said = subprocess.run(["fish", "-c", f"source {script}; complete -C '{line}'"], capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)})
        assert expected in said.stdout.split(), said


def on_a_terminal(arguments, **environment):
    """Standard output of the program where it is a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *map(str, arguments)], stdout=slave, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm", **environment}
    )
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 4096):
            shown += piece
    except OSError:  # the other end is closed
        pass
    process.wait()
    os.close(master)
    return shown.decode()


def test_colour(regauge):
    model = ROOT / "tests" / "fixtures" / "llama"
    other = model.with_name("llama-bf16")
    same, different = ["diff", model, model], ["diff", model, other]
    assert on_a_terminal(same, NO_COLOR="").startswith("\x1b[1;32midentical")
    assert on_a_terminal(different, NO_COLOR="").startswith("\x1b[1;31mnot the same")
    for plain in (on_a_terminal(same, NO_COLOR="1"), on_a_terminal(same, TERM="dumb"), regauge(*same)):
        assert "\x1b" not in plain and plain.startswith("identical")
