"""The snippets of the documentation run: of each page in their order, Python in one namespace."""

import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

import regauge

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    page
    for page in (ROOT / "docs").rglob("*.md")
    if re.search(r"^```(python|sh)$", page.read_text(), re.MULTILINE)
]
GUIDE = ROOT / "docs" / "guides" / "verify-a-conversion.md"


def installed(*names):
    return all(importlib.util.find_spec(name) for name in names)


def blocks(page, language):
    """(line, needs torch, text), of every block in this language."""
    text = page.read_text()
    for match in re.finditer(rf"(<!-- needs torch -->\n)?```({language})\n(.*?)```", text, re.DOTALL):
        yield text[: match.start(3)].count("\n"), bool(match[1]), match[2], match[3]


@pytest.fixture
def shell(tmp_path):
    """Runs commands in tmp_path, with the installed package's `regauge` and `python`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, arguments in (("python", ""), ("python3", ""), ("regauge", "-m regauge")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        program.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(commands):
        return subprocess.run(
            ["sh", "-e", "-c", commands + "\n:"], cwd=folder, env=environment, text=True, capture_output=True, check=False
        )

    run.folder = folder
    return run


def test_one_version():
    """In all files that say one; the last one in the CHANGELOG has notes, which the release takes from there."""
    version = (ROOT / "VERSION").read_text().strip()
    for file in ("CITATION.cff", "packaging/conda/recipe.yaml", "packaging/vcpkg/regauge/vcpkg.json"):
        assert re.findall(r'^ *"?version"?: "?([0-9.]+)"?,?$', (ROOT / file).read_text(), re.MULTILINE)[0] == version, file
    released = re.search(r"^## \[([0-9.]+)\] - \d{4}-\d{2}-\d{2}\n(.*?)^### ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL)
    assert released[1] == version and len(released[2]) > 200
    assert regauge.__version__ == version


def test_there_are_pages():
    assert {page.name for page in PAGES} >= {"python.md", "formats.md", "verify-a-rotation.md", GUIDE.name}


@pytest.mark.skipif(not installed("mathformer"), reason="pip install --no-deps mathformer==2.0.0")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(page, shell, monkeypatch, capsys):
    if "import peft" in page.read_text() and not installed("peft", "torch", "transformers"):
        pytest.skip("pip install peft")
    monkeypatch.chdir(shell.folder)
    namespace = {}
    printed = ""
    for line, needs_torch, language, code in blocks(page, "python|sh"):
        if needs_torch and not installed("torch", "transformers"):
            continue
        if language == "python":
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        else:
            result = shell(code)
            assert result.returncode == 0, f"{page}:{line}: {result.stdout}{result.stderr}"
            printed += result.stdout
    printed += capsys.readouterr().out
    for *_, promised in blocks(page, "text"):
        for expected in promised.splitlines():
            assert expected in printed


def test_the_readme_runs(shell, monkeypatch):
    assert shell("regauge demo demo").returncode == 0
    monkeypatch.chdir(shell.folder)
    [(line, _, _, code)] = blocks(ROOT / "README.md", "python")
    exec(compile("\n" * line + code, "README.md", "exec"), {})


@pytest.mark.parametrize("same", [True, False])
def test_the_jobs_of_ci(shell, same):
    """The commands of the GitHub Action and of the hook, on a pair that is the same and on one that is not."""
    models = shell.folder / "models"
    a = ROOT / "tests" / "fixtures" / "llama"
    b = a if same else a.with_name("llama-bf16")
    assert shell(f"mkdir {models}; cp -r {a} {models}/original; regauge act {b} --random 1 -o {models}/converted").returncode == 0
    (_, _, _, action), (_, _, _, hook) = blocks(GUIDE, "yaml")
    commands = re.findall(r"- run: (.*)", action)
    assert commands.pop(0).startswith("pip install") and commands
    commands += re.findall(r"entry: (.*)", hook)
    for command in commands:
        result = shell(command)
        assert (result.returncode == 0) == same, result.stdout + result.stderr
    assert (shell.folder / "certificate.safetensors").exists() == same


@pytest.mark.parametrize("same", [True, False])
def test_the_action(shell, same):
    """The steps of action.yml that compare, with what GitHub gives them."""
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    compare, last = next(step for step in steps if step.get("id") == "diff"), steps[-1]
    a = ROOT / "tests" / "fixtures" / "llama"
    b = shell.folder / "converted"
    regauge.convert(a if same else a.with_name("llama-bf16"), b)
    given = f"export ORIGINAL={a} CONVERTED={b} GITHUB_OUTPUT=$PWD/outputs GITHUB_STEP_SUMMARY=$PWD/summary\n"
    result = shell(given + compare["run"])
    assert result.returncode == 0, result.stdout + result.stderr
    outputs = dict(line.split("=", 1) for line in (shell.folder / "outputs").read_text().splitlines())
    assert outputs["statement"] == ("identical" if same else "not-the-same")
    assert outputs["statement"].split("-")[0] in (shell.folder / "summary").read_text()
    kept = {path.name for path in pathlib.Path(outputs["out"]).iterdir()}
    assert kept >= {"answer.html", "answer.json", "answer.md"} and ("certificate.safetensors" in kept) == same
    assert shell(f"STATUS={outputs['status']}\n{last['run']}").returncode == (0 if same else 1)
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (shell(f"{hooks[0]['entry']} {a} {b}").returncode == 0) == same
