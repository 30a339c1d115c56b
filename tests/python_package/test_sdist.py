"""The source archive has what a build needs, and nothing that was built."""

import pathlib
import tarfile

import pytest

build = pytest.importorskip("scikit_build_core.build")

ROOT = pathlib.Path(__file__).parents[2]


def test_the_archive_builds(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames()}
    needed = {"CMakeLists.txt", "LICENSE", "README.md", "VERSION", "pyproject.toml"}
    for folder in ("cmake", "data", "include", "python", "src"):
        files = (path for path in (ROOT / folder).rglob("*") if path.is_file())
        needed |= {path.relative_to(ROOT).as_posix() for path in files if path.suffix != ".pyc"}
    assert len(needed) > 300 and not needed - held
    assert not [name for name in held if name.split("/")[0] in ("build", "tests", "docs")]
