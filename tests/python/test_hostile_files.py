"""Hostile files are refused or read, within bounds of memory and processor time, and never end the program.
`test_hostile_names.py` has what is printed of them. (attack: parsers, gguf_parser)"""

import json
import os
import random
import resource
import shutil
import struct
import subprocess

import pytest
import safetensors.numpy
from conftest import FIXTURES
from doctored import doctored, header_and_data, llama, write_safetensors

LLAMA = FIXTURES / "llama"
GGUF = FIXTURES / "llama-gguf" / "model.gguf"
SECONDS, MEMORY = 20, 2 << 30


def limits():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))


def run(*arguments):
    """The exit code, within limits of memory and processor time."""
    done = subprocess.run(
        [os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, check=False, preexec_fn=limits,
        stdin=subprocess.DEVNULL, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode in (0, 1, 2), (done.returncode, done.stderr[:500])
    seen = done.stdout + done.stderr
    assert not [byte for byte in seen if (byte < 32 and byte not in b"\t\n") or byte == 127]
    assert done.returncode != 2 or done.stderr.startswith(b"regauge: ")
    return done.returncode


def entry(shape, first, last, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


ONE = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
HEADERS = {
    "nothing": ({}, b""),
    "size 2^63": ({"x": entry([2**63], 0, 0)}, b""),
    "size 2^62 x 4": ({"x": entry([2**62, 4], 0, 0)}, b""),
    "offsets 2^63 - 1": ({"x": entry([1], 2**63 - 5, 2**63 - 1)}, b""),
    "a negative size": ({"x": entry([-1], 0, 4)}, b""),
    "a broken size": ({"x": entry([1.0], 0, 4)}, b"0000"),
    "an overlap": ({"x": entry([1], 0, 4), "y": entry([1], 0, 4)}, b"0000"),
    "sizes of zero": ({f"x{i}": entry([0, 2**40], 0, 0) for i in range(1000)}, b""),
    "a key twice": (b'{"x":' + ONE + b',"x":' + ONE + b"}", b"0000"),
    "not UTF-8": (b'{"\xff\xfe":' + ONE + b"}", b"0000"),
    "half a surrogate": (b'{"\\ud800":' + ONE + b"}", b"0000"),
    "nested a million times": (b'{"x":' + b"[" * 10**6 + b"]" * 10**6 + b"}", b""),
    "a number of 400 digits": (b'{"x":{"dtype":"F32","shape":[1' + b"0" * 400 + b'],"data_offsets":[0,4]}}', b"0000"),
    "a name with NUL": ({"a\x00b": entry([1], 0, 4)}, b"0000"),
    "a name of a megabyte": ({"x" * 10**6: entry([1], 0, 4)}, b"0000"),
    "10^5 dimensions": ({"x": entry([1] * 10**5, 0, 4)}, b"0000"),
    "metadata of 20 MB": ({"__metadata__": {"x": "y" * 20_000_000}}, b""),
    "metadata that are numbers": ({"__metadata__": {"x": 1}}, b""),
    "20,000 tensors": ({f"t{i}": entry([1], 4 * i, 4 * i + 4) for i in range(20_000)}, b"0000" * 20_000),
}


@pytest.mark.parametrize("title", HEADERS)
def test_a_safetensors_header(tmp_path, title):
    (tmp_path / "config.json").write_bytes((LLAMA / "config.json").read_bytes())
    write_safetensors(tmp_path / "model.safetensors", *HEADERS[title])
    assert run("inspect", tmp_path) == 2
    assert run("diff", LLAMA, tmp_path) == 2


CONFIGS = {
    "nested a million times": b'{"model_type":"llama","x":' + b"[" * 10**6 + b"]" * 10**6 + b"}",
    "NaN": b'{"model_type":"llama","rms_norm_eps":NaN}',
    "1e400": b'{"model_type":"llama","rms_norm_eps":1e400}',
    "10^6 layers": dict(num_hidden_layers=10**6),
    "2^63 layers": dict(num_hidden_layers=2**63),
    "-1 layers": dict(num_hidden_layers=-1),
    "no layers": dict(num_hidden_layers=0),
    "no heads": dict(num_attention_heads=0),
    "2^40 heads": dict(num_attention_heads=2**40, num_key_value_heads=1),
    "width 2^62": dict(hidden_size=2**62),
    "10^18 tokens": dict(vocab_size=10**18),
    "a base of 0": dict(rope_parameters={"rope_type": "default", "rope_theta": 0}),
    "a base of -1": dict(rope_parameters={"rope_type": "default", "rope_theta": -1.0}),
    "a type that is a number": dict(model_type=3),
}


@pytest.mark.parametrize("title", CONFIGS)
def test_a_config(tmp_path, title):
    given = CONFIGS[title]
    b = doctored(LLAMA, tmp_path / "b", **(given if isinstance(given, dict) else {}))
    if isinstance(given, bytes):
        (b / "config.json").write_bytes(given)
    assert run("inspect", b) == 2


def test_a_value_of_another_kind(tmp_path):
    """Beside the setting that is read it is not understood, and the two are not the same."""
    b = doctored(LLAMA, tmp_path / "b", rope_scaling=[1, 2])
    assert run("inspect", b) == 0
    assert run("diff", LLAMA, b) == 1


@pytest.mark.parametrize("key", ["layers", "width", "vocabulary", "max_positions"])
@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "learned"])
def test_a_config_of_our_own(regauge, tmp_path, key, positions):
    architecture = json.loads(regauge("inspect", LLAMA, "--json"))["architecture"]
    b = doctored(LLAMA, tmp_path / "b")
    own = {**architecture, "model_type": "regauge", "positions": positions, key: 10**9}
    (b / "config.json").write_text(json.dumps(own))
    assert run("inspect", b) == 2


def sharded(folder, weight_map):
    folder.mkdir()
    shutil.copy(LLAMA / "config.json", folder)
    shutil.copy(LLAMA / "model.safetensors", folder / "x.safetensors")
    names = safetensors.numpy.load_file(LLAMA / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map(names)}))
    return folder


INDICES = {
    "above": lambda names: dict.fromkeys(names, "../a/model.safetensors"),
    "absolute": lambda names: dict.fromkeys(names, str(LLAMA / "model.safetensors")),
    "NUL": lambda names: dict.fromkeys(names, "x\0.safetensors"),
    "missing": lambda names: dict.fromkeys(names, "y.safetensors"),
    "10^5 files": lambda names: {f"t{i}": f"s{i}.safetensors" for i in range(10**5)},
    "10^5 names": lambda names: {f"t{i}": "x.safetensors" for i in range(10**5)},
}


@pytest.mark.parametrize("title", INDICES)
def test_an_index(tmp_path, title):
    (tmp_path / "a").mkdir()
    shutil.copy(LLAMA / "model.safetensors", tmp_path / "a")
    assert run("inspect", sharded(tmp_path / "b", INDICES[title])) == 2


def test_an_index_that_is_right(tmp_path):
    assert run("inspect", sharded(tmp_path / "b", lambda names: dict.fromkeys(names, "x.safetensors"))) == 0


def test_what_is_no_file(tmp_path):
    """None of them is waited for."""
    fifo = tmp_path / "fifo.gguf"
    os.mkfifo(fifo)
    assert run("inspect", fifo) == 2
    assert run("verify", LLAMA, LLAMA, fifo) == 2
    assert run("act", LLAMA, "-o", tmp_path / "out", "--element", fifo) == 2
    for path in ("/dev/zero", "/dev/null"):
        assert run("inspect", path) == 2
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert run("inspect", tmp_path / "loop") == 2
    for name in ("config.json", "model.safetensors"):
        folder = doctored(LLAMA, tmp_path / name)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert run("inspect", folder) == 2
    folder = doctored(LLAMA, tmp_path / "companion")
    os.mkfifo(folder / "tokenizer.json")
    run("act", folder, "-o", tmp_path / "out", "--random", 1)
    assert not (tmp_path / "out" / "tokenizer.json").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38, 1e-45])
def test_numbers_at_the_ends(tmp_path, value):
    def change(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"].view(-1)[5] = value

    b = doctored(LLAMA, tmp_path / "b", change)
    assert run("diff", b, shutil.copytree(b, tmp_path / "c")) in (0, 1)
    assert run("diff", LLAMA, b) == 1
    run("act", b, "-o", tmp_path / "out", "--random", 1)
    run("canon", b, "-o", tmp_path / "canon")


def string(text):
    return struct.pack("<Q", len(text)) + text


def pair(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def tensor(name, sizes, kind, offset):
    return string(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def head(tensors, pairs):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, pairs)


GGUFS = {
    "nothing": b"",
    "2^64 - 1 tensors": head(2**64 - 1, 0),
    "2^64 - 1 pairs": head(0, 2**64 - 1),
    "a string of 2^63": head(0, 1) + struct.pack("<Q", 2**63) + b"x" * 100,
    "an array of 2^63": head(0, 1) + pair(b"k", 9, struct.pack("<IQ", 0, 2**63)) + b"x" * 100,
    "nested arrays": head(0, 1) + string(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000,
    "an alignment of 0": head(0, 1) + pair(b"general.alignment", 4, struct.pack("<I", 0)),
    "an alignment of 2^31": head(0, 1) + pair(b"general.alignment", 4, struct.pack("<I", 2**31)),
    "sizes of 2^63": head(1, 0) + tensor(b"t", [2**63, 2], 0, 0),
    "sizes of 2^32": head(1, 0) + tensor(b"t", [2**32, 2**32], 0, 0),
    "an offset of 2^64 - 32": head(1, 0) + tensor(b"t", [1], 0, 2**64 - 32) + bytes(100),
    "an architecture that is not UTF-8": head(0, 1) + pair(b"general.architecture", 8, string(b"\xff\xfe")),
    "an architecture of control characters": head(0, 1)
    + pair(b"general.architecture", 8, string(b"\x1b]0;owned\x07")),
    "a key twice": head(0, 2) + pair(b"\x1b[2J", 0, b"x") * 2,
    "an array of 4 MB": head(0, 1) + pair(b"k", 9, struct.pack("<IQ", 0, 4_000_000)) + bytes(4_000_000),
    "10^6 empty arrays": head(0, 1) + pair(b"k", 9, struct.pack("<IQ", 9, 10**6)) + struct.pack("<IQ", 0, 0) * 10**6,
}


@pytest.mark.parametrize("title", GGUFS)
def test_a_gguf_file(tmp_path, title):
    (tmp_path / "x.gguf").write_bytes(GGUFS[title])
    assert run("inspect", tmp_path / "x.gguf") == 2


def test_a_gguf_array_whose_values_do_not_fit_into_memory(tmp_path):
    """A byte in the file takes sixteen in memory."""
    with (tmp_path / "x.gguf").open("wb") as file:
        file.write(head(0, 1) + pair(b"k", 9, struct.pack("<IQ", 0, 150_000_000)))
        file.truncate(file.tell() + 150_000_000)
    assert run("inspect", tmp_path / "x.gguf") == 2


@pytest.mark.parametrize(
    "numbers",
    [
        [0] * 7,
        [2**31 - 2, 2**31 - 1, 2**31 - 1, 1, 1, 2**31 - 1, 2**31 - 1],
        [-(2**31)] * 7,
        [8, 8, 1, 2, 1, -(2**31), 8],
        [2, 1, 10**9, 1, 1, 1, 1],
    ],
)
def test_a_llama2c_file(tmp_path, numbers):
    (tmp_path / "x.bin").write_bytes(struct.pack("<7i", *numbers) + bytes(1000))
    assert run("inspect", tmp_path / "x.bin") == 2


@pytest.mark.parametrize("suffix", [".gguf", ".safetensors", ".bin"])
def test_bytes_changed_by_chance(regauge, tmp_path, suffix):
    """In the header, and the end cut off; the fuzzers do this millions of times to the parsers alone."""
    chance = random.Random(1)
    if suffix == ".gguf":
        raw = GGUF.read_bytes()
    elif suffix == ".safetensors":
        raw = (LLAMA / "model.safetensors").read_bytes()
    else:
        regauge("convert", llama(tmp_path / "a", rms_norm_eps=1e-5), "--to", "llama2c", "-o", tmp_path / "a.bin")
        raw = (tmp_path / "a.bin").read_bytes()
    codes = []
    for trial in range(25):
        data = bytearray(raw)
        for _ in range(chance.choice((1, 2, 8))):
            byte = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            data[chance.randrange(min(len(data), 4000))] = byte
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        path = tmp_path / str(trial)
        path.mkdir()
        shutil.copy(LLAMA / "config.json", path)
        (path / f"model{suffix}").write_bytes(data)
        codes.append(run("inspect", path if suffix == ".safetensors" else path / f"model{suffix}"))
    assert 2 in codes


def test_a_header_that_ends_where_the_file_does(tmp_path):
    header, data = header_and_data(LLAMA / "model.safetensors")
    b = doctored(LLAMA, tmp_path / "b")
    write_safetensors(b / "model.safetensors", header, data)
    assert run("diff", LLAMA, b) == 0
    write_safetensors(b / "model.safetensors", header, data[:-1])
    assert run("diff", LLAMA, b) == 2
