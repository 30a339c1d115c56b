"""The plugin as pytest finds it: real runs in an empty folder."""

import subprocess
import sys

import numpy
import pytest
from conftest import changed

import regauge

TESTS = """
def test_rotated(regauge):
    found = regauge.assert_same_function("moved", "original")
    assert found.same and found.statement == "other-coordinates"

def test_broken(regauge):
    regauge.assert_same_function("broken", "original")

def test_twice(regauge):
    regauge.assert_same_function("original", "original")
    regauge.assert_same_function("moved", "original")
"""


def swap_gate_and_up(tensors):
    for name in list(tensors):
        if "gate_proj" in name:
            other = name.replace("gate", "up")
            tensors[name], tensors[other] = numpy.array(tensors[other]), tensors[name]


@pytest.fixture
def folder(llama, tmp_path):
    regauge.convert(llama, tmp_path / "original")
    regauge.act(llama, llama.symmetry.random_element(1), tmp_path / "moved")
    regauge.convert(changed(llama, swap_gate_and_up), tmp_path / "broken")
    (tmp_path / "test_models.py").write_text(TESTS)
    return tmp_path


def run(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments], cwd=folder, capture_output=True, text=True
    )


def test_the_diagnosis_is_the_message(folder):
    result = run(folder)
    assert result.returncode == 1 and "1 failed, 2 passed" in result.stdout
    assert "gate-up-swapped" in result.stdout and "not the same function" in result.stdout
    assert "pytest_regauge" not in result.stdout  # no traceback through the plugin
    assert {path.name for path in folder.iterdir()} >= {"original", "moved", "broken"}
    assert not list(folder.rglob("*.html"))


def test_pages(folder):
    for _ in range(2):  # a second run replaces its own pages
        result = run(folder, "--regauge-report", "pages")
        assert "1 failed, 2 passed" in result.stdout
    pages = sorted((folder / "pages").iterdir())
    assert [page.name for page in pages] == [
        "test_models.py-test_broken-1.html",
        "test_models.py-test_rotated-1.html",
        "test_models.py-test_twice-1.html",
        "test_models.py-test_twice-2.html",
    ]
    assert "gate-up-swapped" in pages[0].read_text() and "gate-up-swapped" not in pages[1].read_text()


def test_a_suite_without_models_does_not_load_the_package(tmp_path):
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n    assert 'regauge._core' not in sys.modules\n"
    )
    assert "1 passed" in run(tmp_path).stdout


def test_help_names_the_option(tmp_path):
    assert "--regauge-report" in run(tmp_path, "--help").stdout
