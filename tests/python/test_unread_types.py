"""Models whose numbers are stored in a way that is not read: `inspect` answers from the headers and names it; whoever needs the
numbers is told."""

import json
import os
import struct
import subprocess

import gguf
import pytest
import safetensors.torch
import torch
from test_scales import HOLDER, WEIGHT, plain, save  # noqa: F401


def with_type(source, target, types):
    """A copy of a folder whose header says other types of some tensors; the bytes are the same."""
    target.mkdir()
    (target / "config.json").write_bytes((source / "config.json").read_bytes())
    data = (source / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    for name, kind in types.items():
        header[name]["dtype"] = kind
    text = json.dumps(header).encode()
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    return target


def with_gguf_type(source, target, name, number):
    """A copy of a file that says this type of a tensor. The bytes are the same, as many as they were."""
    data = bytearray(source.read_bytes())
    (tensor,) = (t for t in gguf.GGUFReader(str(source)).tensors if t.name == name)
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    at += 4 + 8 * len(tensor.shape)
    assert struct.unpack_from("<I", data, at) == (int(tensor.tensor_type),)
    struct.pack_into("<I", data, at, number)
    target.write_bytes(data)
    return target


def inspected(regauge, path):
    return json.loads(regauge("inspect", path, "--json"))


def check(regauge, known, path, type_name, tensors, said):
    found, expected = inspected(regauge, path), inspected(regauge, known)
    assert found["unread_types"] == {type_name: sorted(tensors)} and expected["unread_types"] == {}
    for key in ("family", "architecture", "factors", "parameters", "redundant", "identifiable", "unread"):
        assert found[key] == expected[key], key
    text = regauge("inspect", path)
    assert f"not read: the numbers of {len(tensors)} tensors of type {type_name}, {sorted(tensors)[0]} among them" in text
    for verb in (("diff", known, path), ("diff", path, path), ("convert", path, "-o", path.with_name("out"), "--to", "safetensors", "--dtype", "f32")):
        result = subprocess.run([os.environ["REGAUGE"], *map(str, verb)], capture_output=True, text=True, check=False)
        assert result.returncode == 2 and said in result.stderr, result.stderr
    assert not path.with_name("out").exists()


@pytest.mark.parametrize("kind", ["F4", "C64", "F8_E4M3FNUZ", "F12_NEW"])
def test_a_type_of_safetensors(regauge, plain, tmp_path, kind):
    path = with_type(plain, tmp_path / "a", {WEIGHT: kind})
    check(regauge, plain, path, kind, [WEIGHT], f"tensor '{WEIGHT}': {kind} tensors are not read")


@pytest.mark.parametrize("number, kind", [(42, "Q2_0"), (77, "number 77 of GGUF's types")])
def test_a_type_of_gguf(regauge, plain, tmp_path, number, kind):
    regauge("convert", plain, "--to", "gguf", "-o", tmp_path / "known.gguf")
    name = "blk.1.attn_k.weight"
    path = with_gguf_type(tmp_path / "known.gguf", tmp_path / "a.gguf", name, number)
    check(regauge, tmp_path / "known.gguf", path, kind, [name], f"{kind} tensors are not read")


def packed(plain, folder, tensors, settings):
    path = save(plain, folder, tensors, settings)
    held = safetensors.torch.load_file(path / "model.safetensors")
    assert WEIGHT not in held or held[WEIGHT].dtype is not torch.float32
    return path


def codes(*shape, dtype=torch.uint8):
    return torch.randint(0, 100, shape).to(dtype)


METHODS = {
    "hqq": {"W_q": codes(32, 32), "scale": torch.ones(32, 1), "zero": torch.ones(32, 1)},
    "aqlm": {"codes": codes(32, 8, 2, dtype=torch.int16), "codebooks": torch.ones(2, 256, 1, 8), "scales": torch.ones(32, 1, 1, 1)},
    "quanto": {"weight._data": codes(32, 64, dtype=torch.int8), "weight._scale": torch.ones(32, 1)},
    "eetq": {"weight": codes(64, 32, dtype=torch.int8), "weight_scales": torch.ones(32)},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_quantiser(regauge, plain, tmp_path, method):
    path = packed(plain, tmp_path / "a", METHODS[method], {"quantization_config": {"quant_method": method}})
    check(regauge, plain, path, method, [HOLDER + "weight"], f"weights quantised by '{method}' are not read")


def test_a_mode_of_mlx(regauge, plain, tmp_path):
    tensors = {"weight": codes(32, 8, dtype=torch.uint32), "scales": codes(32, 2)}
    path = packed(plain, tmp_path / "a", tensors, {"quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}})
    check(regauge, plain, path, 'MLX of mode "mxfp4"', [WEIGHT], "has mode \"mxfp4\"; affine is read")
