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
    for pattern in ("*.md", "docs/**/*.md", "src/*/*.md")
    for path in ROOT.glob(pattern)
)


def marked_block(name, language):
    text = (ROOT / "README.md").read_text()
    found = re.findall(rf"<!-- example: {name} -->\n```{language}\n(.*?)^```$", text, re.S | re.M)
    assert len(found) == 1, f"README.md has {len(found)} blocks marked '{name}'"
    return found[0]


def squeezed(line):
    return " ".join(line.split())


def test_example_prints_what_the_readme_says(tmp_path):
    program = os.environ.get("REGAUGE")
    if not program:
        pytest.fail("set REGAUGE to the built program")
    folders = [pathlib.Path(program).resolve().parent, pathlib.Path(sys.executable).parent]
    environment = {
        **os.environ,
        "REGAUGE_SOURCE": str(ROOT),
        "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
        "HF_HUB_OFFLINE": "1",
    }
    result = subprocess.run(
        ["sh", "-e", "-c", marked_block("commands", "sh")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    printed = iter(squeezed(line) for line in result.stdout.splitlines())
    for expected in marked_block("output", "text").splitlines():
        # In this order, with other lines between.
        assert squeezed(expected) in printed, f"'{expected}' is not printed there:\n{result.stdout}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    path = ROOT / document
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text())
    missing = [
        target for target in targets if "://" not in target and not (path.parent / target).exists()
    ]
    assert not missing


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
