#!/usr/bin/env python3
"""Writes tests/fixtures/io/ with the packages that produce such files: safetensors, gguf, torch.

    python tools/make_io_fixtures.py

The bytes depend on nothing but the versions of those packages.
"""

import pathlib

import gguf
import numpy as np
import torch
from gguf.quants import dequantize
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "io"
BLOCKS = 12


def block_scales(kind):
    """Byte offsets of the f16 scales inside a block."""
    found = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "Q2_K": [80, 82],
             "Q3_K": [108], "TQ1_0": [52], "TQ2_0": [64], "Q8_K": [], "IQ1_M": [], "MXFP4": [], "NVFP4": []}  # fmt: skip
    return found.get(kind, [0])


def size_of(kind):
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return (block, 36) if kind == "Q8_1" else (block, size)  # the package counts two floats in it, ggml two halves


def quantised(kind, rng, blocks):
    """Random blocks whose scales are finite: ordinary, tiny (subnormal), large and zero ones."""
    data = rng.integers(0, 256, (blocks, size_of(kind)[1]), dtype=np.uint8)

    def scales():
        drawn = rng.normal(size=blocks).astype(np.float16)
        drawn[1:5] = [6e-8, -3e-5, 65504, 0]
        return drawn

    for offset in block_scales(kind):
        data[:, offset : offset + 2] = scales().view(np.uint8).reshape(blocks, 2)
    if kind == "Q8_K":
        data[:, :4] = scales().astype(np.float32).view(np.uint8).reshape(blocks, 4)
    if kind == "IQ1_M":  # its scale in the high four bits of four words
        words = data[:, 48:].view(np.uint16)
        words &= 0xFFF
        words |= ((scales().view(np.uint16)[:, None] >> np.array([0, 4, 8, 12], np.uint16)) & 15) << np.uint16(12)
    if kind == "MXFP4":
        data[:6, 0] = [0, 1, 2, 253, 127, 120]
    if kind == "NVFP4":
        data[:2, :4] = [[0, 1, 0x7F, 0xFF], [0x80, 0x7E, 8, 7]]
    return data


def dequantised(kind, data):
    """By the gguf package; it has nothing for three types, whose numbers are a scale times codes."""
    if kind in ("Q8_K", "Q8_1"):
        scale = data[:, :4].copy().view(np.float32) if kind == "Q8_K" else data[:, :2].copy().view(np.float16)
        return scale.astype(np.float32) * data[:, 4 : 4 + size_of(kind)[0]].view(np.int8).astype(np.float32)
    if kind == "Q1_0":
        bits = np.unpackbits(data[:, 2:], axis=1, bitorder="little")
        return data[:, :2].copy().view(np.float16).astype(np.float32) * np.where(bits, 1, -1).astype(np.float32)
    return dequantize(data, gguf.GGMLQuantizationType[kind])


def add_quants(tensors, kinds, rng, blocks):
    for kind in kinds:
        data = quantised(kind, rng, blocks)
        with np.errstate(over="ignore"):
            values = dequantised(kind, data)
        tensors[f"{kind}.bytes"] = torch.from_numpy(data)
        tensors[f"{kind}.values"] = torch.from_numpy(values.astype(np.float32))


def write_quants(rng):
    tensors = {}
    add_quants(tensors, ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"], rng, 12)
    more = ["Q2_K", "Q3_K", "Q8_K", "Q8_1", "Q1_0", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
            "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"]  # fmt: skip
    add_quants(tensors, more, np.random.default_rng(2), 6)
    save_file(tensors, FOLDER / "quants.safetensors")


def write_rounding(rng):
    """Floats and doubles with what torch makes of them in f16 and bf16."""
    bits = rng.integers(0, 2**32, 700, dtype=np.uint64).astype(np.uint32)
    near = (rng.normal(size=300) * 2.0 ** rng.integers(-30, 17, 300)).astype(np.float32)
    edges = np.array([0, -0.0, 65504, 65519.99, 65520, 65536, 2**-24, 2**-25, 3 * 2**-25, 2**-14, 3.3895314e38,
                      3.4e38, np.inf, -np.inf, 1e-45, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8],
                     dtype=np.float32)
    floats = np.concatenate([bits.view(np.float32), near, edges])
    floats = torch.from_numpy(floats[~np.isnan(floats)])
    save_file({"f32": floats, "f16": floats.to(torch.float16), "bf16": floats.to(torch.bfloat16)},
              FOLDER / "rounding.safetensors")


def write_every_dtype():
    kinds = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
             "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
             "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8}
    tensors = {name: torch.tensor([[0, 1, 2], [3, 100, 127]]).to(kind) for name, kind in kinds.items()}
    for name in ["f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8"]:
        tensors[name][1, 1] = -100
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 4)
    save_file(tensors, FOLDER / "every_dtype.safetensors", metadata={"format": "pt", "note": "naïve"})


def write_gguf(rng):
    writer = gguf.GGUFWriter(FOLDER / "tiny.gguf", "llama")
    writer.add_uint8("t.u8", 200)
    writer.add_int8("t.i8", -100)
    writer.add_uint16("t.u16", 60000)
    writer.add_int16("t.i16", -30000)
    writer.add_uint32("llama.block_count", 2)
    writer.add_int32("t.i32", -2000000000)
    writer.add_float32("t.f32", 0.1)
    writer.add_bool("t.bool", True)
    writer.add_string("t.string", "naïve")
    writer.add_uint64("t.u64", 2**63 + 1)
    writer.add_int64("t.i64", -(2**62))
    writer.add_float64("t.f64", 0.1)
    writer.add_array("t.array.i32", [1, -2, 3])
    writer.add_array("t.array.f32", [0.5, -1.5])
    writer.add_array("t.array.bool", [True, False])
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", b"\xff\xfe"])
    writer.add_array("tokenizer.ggml.scores", [0.0, -1.0, -2.5])
    writer.add_array("tokenizer.ggml.token_type", [1, 1, 6])
    values = {}

    def add(name, data, kind):
        raw = gguf.quants.quantize(data, kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        values[name] = torch.from_numpy(np.ascontiguousarray(dequantize(raw, kind), dtype=np.float32))

    kinds = gguf.GGMLQuantizationType
    add("f32", rng.normal(size=(3, 5)).astype(np.float32), kinds.F32)
    add("f16", rng.normal(size=7).astype(np.float32), kinds.F16)
    add("bf16", rng.normal(size=(2, 3, 4)).astype(np.float32), kinds.BF16)
    add("q8_0", rng.normal(size=(2, 64)).astype(np.float32), kinds.Q8_0)
    add("q4_0", rng.normal(size=(3, 32)).astype(np.float32), kinds.Q4_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(values, FOLDER / "tiny_gguf_values.safetensors")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    write_quants(rng)
    write_rounding(rng)
    write_every_dtype()
    write_gguf(rng)


if __name__ == "__main__":
    main()
