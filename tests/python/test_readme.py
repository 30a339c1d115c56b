"""The README's example runs as it stands and prints what it says; the documents' links lead somewhere."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "src/*/*.md", "packaging/*.md")
    for path in ROOT.glob(pattern)
)


def consoles(document):
    """(command, what is printed) of the blocks that are marked, in their order."""
    text = (ROOT / document).read_text()
    steps = []
    for block in re.findall(r"<!-- example: console -->\n```console\n(.*?)^```$", text, re.S | re.M):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            else:
                steps[-1][1].append(line)
    return steps


def squeezed(line):
    return " ".join(line.split())


@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_the_console_prints_what_the_page_says(document, tmp_path):
    program = os.environ.get("REGAUGE")
    if not program:
        pytest.fail("set REGAUGE to the built program")
    environment = {**os.environ, "PATH": f"{pathlib.Path(program).resolve().parent}{os.pathsep}{os.environ['PATH']}"}
    assert len(consoles(document)) >= 5
    for command, expected in consoles(document):
        result = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert result.returncode in (0, 1) and expected, result.stdout
        printed = iter(squeezed(line) for line in result.stdout.splitlines())
        for line in expected:
            # In this order; "..." stands for lines that are left out.
            assert line.strip() == "..." or squeezed(line) in printed, f"'{line}' is not printed there:\n{result.stdout}"


@pytest.mark.parametrize("tool", ["readme_families", "architecture_page"])
def test_what_is_made_is_up_to_date(tool):
    made = subprocess.run([sys.executable, ROOT / "tools" / f"{tool}.py", "--check"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    assert not [page.name for page in folder.glob("0*.md") if f"]({page.name})" not in index]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    path = ROOT / document
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text())
    missing = [
        target for target in targets if "://" not in target and not (path.parent / target).exists()
    ]
    assert not missing


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
