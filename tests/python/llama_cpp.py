"""llama.cpp's own converter, fetched from PyPI: nothing of it lives in this tree."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
INSIDE = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"


def cache():
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    return pathlib.Path(os.environ.get("REGAUGE_CACHE", default / "regauge"))


def converter():
    """The path of convert_hf_to_gguf.py, downloaded once (77 MB) into $REGAUGE_CACHE, by default ~/.cache/regauge."""
    folder = cache() / f"llama.cpp-{VERSION}"
    script = folder / "convert_hf_to_gguf.py"
    if script.exists():
        return script
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", PACKAGE,
         f"{PACKAGE}=={VERSION}", "-d", folder],
        check=True,
    )  # fmt: skip
    archive = next(folder.glob("*.tar.gz"))
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.removeprefix(INSIDE)
            wanted = name.startswith(("conversion/", "gguf-py/gguf/")) and name.endswith(".py")
            if member.name.startswith(INSIDE) and wanted:
                write(folder / name, tar.extractfile(member).read())
            elif name == script.name:
                main = tar.extractfile(member).read()
    archive.unlink()
    write(script, main)  # last: it says that all is there
    return script


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# The converter's main, once per file in one process: what it imports takes longer than what it does.
DRIVER = """
import json, pathlib, runpy, sys
script = sys.argv[1]
sys.path.insert(0, str(pathlib.Path(script).parent))
for arguments in json.loads(sys.argv[2]):
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
"""


def convert(jobs):
    """Folders of transformers' as GGUF files; a job is (folder, output, f32 or f16 or bf16 or q8_0)."""
    arguments = [[str(folder), "--outfile", str(output), "--outtype", kind] for folder, output, kind in jobs]
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, converter(), json.dumps(arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
