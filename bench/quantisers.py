"""Matrices quantised by the tools that people use: of a name, what packs a matrix, and what the tool writes into config.json.

transformers and compressed-tensors are there with the tests; bitsandbytes and mlx are used where they are installed.
"""

import importlib.util
import json
from types import SimpleNamespace

import torch


def fp8(block, scale_fmt="float"):
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    settings = FineGrainedFP8Config(weight_block_size=block, scale_fmt=scale_fmt)
    quantizer = Fp8Quantize(SimpleNamespace(quantization_config=settings))
    declared = {"quantization_config": json.loads(json.dumps(settings.to_dict(), default=str))}
    return lambda weights: quantizer._quantize_one("weight", weights), declared


def compressed_tensors(form, **arguments):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)

    def pack(weights):
        rows, cols = weights.shape
        state = {"weight": weights}
        second = None
        if args.strategy == "tensor":
            low, high = weights.min().reshape(1), weights.max().reshape(1)
        elif args.strategy == "block":
            down, across = args.block_structure
            tiles = weights.reshape(rows // down, down, cols // across, across)
            low, high = tiles.amin((1, 3)), tiles.amax((1, 3))
        else:
            tiles = weights.reshape(rows, -1, args.group_size if args.group_size and args.group_size > 0 else cols)
            low, high = tiles.amin(-1), tiles.amax(-1)
        if args.strategy == "tensor_group":
            second = generate_gparam(weights.min().float(), weights.max().float())
            state["weight_global_scale"] = second.reshape(1)
        scale, zero = calculate_qparams(low, high, args, global_scale=second)
        return BaseCompressor.get_value_from_registry(form).compress(state | {"weight_scale": scale, "weight_zero_point": zero}, scheme)

    group = {"targets": ["Linear"], "weights": json.loads(args.model_dump_json())}
    return pack, {"quantization_config": {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}}


def bitsandbytes(kind, nested):
    import bitsandbytes.functional as functional

    def pack(weights):
        codes, state = functional.quantize_4bit(weights, quant_type=kind, compress_statistics=nested, blocksize=64)
        return {"weight": codes} | {f"weight.{key}": value for key, value in state.as_dict(packed=True).items()}

    return pack, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}}


def bitsandbytes_int8():
    import bitsandbytes.functional as functional

    def pack(weights):
        codes, scales, _ = functional.int8_vectorwise_quant(weights.half())
        return {"weight": codes, "SCB": scales, "weight_format": torch.tensor(0, dtype=torch.uint8)}

    return pack, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}


def mlx(bits, width):
    import mlx.core
    import numpy

    def pack(weights):
        parts = mlx.core.quantize(mlx.core.array(weights.float().numpy()), group_size=width, bits=bits)
        return {key: torch.from_numpy(numpy.array(part)) for key, part in zip(("weight", "scales", "biases"), parts, strict=True)}

    return pack, {"quantization": {"group_size": width, "bits": bits}}


# The module that it needs, and what makes (pack, what config.json says).
QUANTISERS = {
    "FP8, blocks of 64 x 64": ("transformers", lambda: fp8((64, 64))),
    "FP8, blocks of 32 x 128": ("transformers", lambda: fp8((32, 128))),
    "FP8, powers of two": ("transformers", lambda: fp8((32, 64), "ue8m0")),
    "FP8, a scale": ("compressed_tensors", lambda: compressed_tensors("float-quantized", num_bits=8, type="float", strategy="tensor")),
    "FP8, rows": ("compressed_tensors", lambda: compressed_tensors("float-quantized", num_bits=8, type="float", strategy="channel")),
    "FP8, blocks": ("compressed_tensors", lambda: compressed_tensors("float-quantized", num_bits=8, type="float", strategy="block", block_structure=[64, 64])),
    "INT8, a scale": ("compressed_tensors", lambda: compressed_tensors("int-quantized", num_bits=8, strategy="tensor")),
    "INT8, rows": ("compressed_tensors", lambda: compressed_tensors("int-quantized", num_bits=8, strategy="channel")),
    "INT8, rows with zero points": ("compressed_tensors", lambda: compressed_tensors("int-quantized", num_bits=8, strategy="channel", symmetric=False)),
    "INT8, packed groups": ("compressed_tensors", lambda: compressed_tensors("pack-quantized", num_bits=8, strategy="group", group_size=64)),
    "INT4, groups": ("compressed_tensors", lambda: compressed_tensors("pack-quantized", num_bits=4, strategy="group", group_size=32)),
    "INT4, groups with zero points": ("compressed_tensors", lambda: compressed_tensors("pack-quantized", num_bits=4, strategy="group", group_size=32, symmetric=False)),
    "INT3, groups": ("compressed_tensors", lambda: compressed_tensors("pack-quantized", num_bits=3, strategy="group", group_size=32)),
    "NVFP4": ("compressed_tensors", lambda: compressed_tensors("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn")),
    "MXFP4": ("compressed_tensors", lambda: compressed_tensors("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32, scale_dtype="torch.uint8")),
    "NF4": ("bitsandbytes", lambda: bitsandbytes("nf4", False)),
    "NF4, scaled again": ("bitsandbytes", lambda: bitsandbytes("nf4", True)),
    "FP4": ("bitsandbytes", lambda: bitsandbytes("fp4", False)),
    "INT8 of bitsandbytes": ("bitsandbytes", bitsandbytes_int8),
    "MLX of 4 bits": ("mlx", lambda: mlx(4, 64)),
    "MLX of 8 bits": ("mlx", lambda: mlx(8, 64)),
}  # fmt: skip


def installed():
    return [name for name, (module, _) in QUANTISERS.items() if importlib.util.find_spec(module)]
