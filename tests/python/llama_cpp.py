"""llama.cpp's own converter and quantiser, fetched from PyPI: nothing of them lives in this tree."""

import ctypes
import functools
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import gguf
import numpy

PACKAGE = "llama-cpp-python"
VERSION = "0.3.36"
INSIDE = f"llama_cpp_python-{VERSION}/vendor/llama.cpp/"


def cache():
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    return pathlib.Path(os.environ.get("REGAUGE_CACHE", default / "regauge"))


def fetch(wanted, last):
    """The folder with what `wanted` chooses of llama.cpp's files, downloaded once (77 MB) into $REGAUGE_CACHE, by
    default ~/.cache/regauge. `last` is written last: it says that all is there."""
    folder = cache() / f"llama.cpp-{VERSION}"
    if (folder / last).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as downloads:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", PACKAGE,
             f"{PACKAGE}=={VERSION}", "-d", downloads],
            check=True,
        )  # fmt: skip
        with tarfile.open(next(pathlib.Path(downloads).glob("*.tar.gz"))) as tar:
            for member in tar:
                name = member.name.removeprefix(INSIDE)
                if name == last:
                    content = tar.extractfile(member).read()
                elif member.name.startswith(INSIDE) and wanted(name):
                    write(folder / name, tar.extractfile(member).read())
    write(folder / last, content)
    return folder


def converter():
    """The path of convert_hf_to_gguf.py."""
    script = "convert_hf_to_gguf.py"
    wanted = lambda name: name.startswith(("conversion/", "gguf-py/gguf/")) and name.endswith(".py")  # noqa: E731
    return fetch(wanted, script) / script


# What ggml-quants.c needs of the rest of ggml.
STUBS = """
#include <stdint.h>
#include <stdlib.h>
void ggml_abort(const char* file, int line, const char* format, ...) { abort(); }
const char* ggml_type_name(int type) { return ""; }
size_t ggml_type_size(int type) { switch (type) { SIZES } return 0; }
static int64_t length(int type) { switch (type) { LENGTHS } return 1; }
size_t ggml_row_size(int type, int64_t n) { return ggml_type_size(type) * n / length(type); }
"""


@functools.cache
def ggml_quants():
    """llama.cpp's ggml-quants.c as a library, compiled once by $CC (default cc) into the cache."""
    source = "ggml/src/ggml-quants.c"
    headers = lambda name: name.startswith(("ggml/include/", "ggml/src/")) and name.endswith(".h")  # noqa: E731
    folder = fetch(lambda name: headers(name) and name.count("/") <= 3, source)
    library = folder / "ggml-quants.so"
    if not library.exists():
        sizes = gguf.GGML_QUANT_SIZES.items()
        cases = [" ".join(f"case {int(kind)}: return {size[i]};" for kind, size in sizes) for i in (0, 1)]
        stubs = folder / "stubs.c"
        write(stubs, STUBS.replace("LENGTHS", cases[0]).replace("SIZES", cases[1]).encode())
        with tempfile.TemporaryDirectory(dir=folder) as work:
            made = pathlib.Path(work) / library.name
            subprocess.run(
                [os.environ.get("CC", "cc"), "-O1", "-w", "-DNDEBUG", "-shared", "-fPIC", "-I", folder / "ggml/include",
                 "-I", folder / "ggml/src", folder / source, stubs, "-lm", "-o", made],
                check=True,
            )  # fmt: skip
            made.rename(library)
    return ctypes.CDLL(library)


@functools.cache
def prepare(kind):
    """The neighbours of what is not in a codebook, which llama.cpp looks up when it quantises."""
    if kind.name.startswith(("IQ1", "IQ2")):
        ggml_quants().iq2xs_init_impl(ctypes.c_int(int(kind)))
    if kind.name.startswith("IQ3"):
        ggml_quants().iq3xs_init_impl(ctypes.c_int(256 if kind.name == "IQ3_XXS" else 512))


def quantise(values, kind, importance=None):
    """The rows of a matrix as llama-quantize stores them in this type, by an importance of each column if one is given."""
    values = numpy.ascontiguousarray(values, dtype=numpy.float32)
    rows, columns = values.shape
    length, size = gguf.GGML_QUANT_SIZES[kind]
    assert columns % length == 0
    blocks = numpy.zeros((rows, columns // length * size), dtype=numpy.uint8)
    pointer = lambda array: None if array is None else array.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    if importance is not None:
        importance = numpy.ascontiguousarray(importance, dtype=numpy.float32)
        assert importance.shape == (columns,)
    prepare(kind)
    name = kind.name.replace("Q", "q", 1) if kind.name.startswith("Q") else kind.name.lower()
    quantiser = getattr(ggml_quants(), f"quantize_{name}")
    quantiser.restype = ctypes.c_size_t
    written = quantiser(
        pointer(values), pointer(blocks), ctypes.c_int64(rows), ctypes.c_int64(columns), pointer(importance)
    )
    assert written == blocks.nbytes
    return blocks


def write(path, data):
    """Whole at once: tests that run side by side share the cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.rename(path)


# The converter's main, once per file in one process: what it imports takes longer than what it does. It knows the
# tokenizers that it was shown; a model without one is written without a vocabulary.
DRIVER = """
import json, pathlib, runpy, sys
script = sys.argv[1]
sys.path.insert(0, str(pathlib.Path(script).parent))
import conversion
known = conversion.get_model_class
def get_model_class(name, mmproj=False):
    found = known(name, mmproj)
    if tokenizer:
        return found
    own = dict(model_arch=found.model_arch, set_vocab=lambda model: model._set_vocab_none())
    return type(found.__name__, (found,), own)
conversion.get_model_class = get_model_class
for arguments in json.loads(sys.argv[2]):
    tokenizer = pathlib.Path(arguments[0], "tokenizer.model").exists()
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")
"""


def convert(jobs):
    """Folders of transformers' as GGUF files; a job is (folder, output, f32 or f16 or bf16 or q8_0, further options)."""
    arguments = [
        [str(folder), "--outfile", str(output), "--outtype", kind, *further] for folder, output, kind, *further in jobs
    ]
    run = subprocess.run(
        [sys.executable, "-c", DRIVER, converter(), json.dumps(arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
