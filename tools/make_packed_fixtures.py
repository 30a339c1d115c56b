#!/usr/bin/env python3
"""Writes tests/fixtures/io/packed/ with the tools that quantise models, and with what their own dequantisers read.

    python tools/make_packed_fixtures.py

Needs, beside torch and transformers: compressed-tensors, gptqmodel (its sources on the PYTHONPATH are enough),
autoawq, bitsandbytes, nvidia-modelopt and mlx[cpu]. Each file holds the tensors of one layer as the tool stores them,
`original` (what was quantised) and `expected` (what the tool reads, in float32); `config` of its metadata is what the
tool writes into config.json.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "io" / "packed"
ROWS, COLUMNS = 32, 64


def original(seed, dtype=torch.bfloat16, shape=(ROWS, COLUMNS)):
    """Numbers as weights are, with rows of other sizes, an outlier, a row above zero and zeros."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=random) * 0.05 * torch.exp(torch.randn(shape[0], 1, generator=random))
    values[1] = values[1].abs() + 0.02
    values[2, 5] = 1
    values[3] = 0
    return values.to(dtype)


def write(name, config, tensors, weights, expected):
    tensors = {key: value.contiguous().clone() for key, value in tensors.items()}
    assert expected.shape == weights.shape, name
    assert (expected - weights.float()).norm() < 0.6 * weights.float().norm(), name
    save_file(tensors | {"original": weights.contiguous(), "expected": expected.float().contiguous()},
              FOLDER / f"{name}.safetensors", metadata={"config": json.dumps(config)})


def compressed_tensors():
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    group = dict(strategy="group", group_size=32)
    fp4 = dict(num_bits=4, type="float")
    cases = {
        "ct-int4-group": ("pack-quantized", dict(num_bits=4, **group)),
        "ct-int4-group-zeros": ("pack-quantized", dict(num_bits=4, symmetric=False, **group)),
        "ct-int3-group": ("pack-quantized", dict(num_bits=3, **group)),
        "ct-int8-channel-packed": ("pack-quantized", dict(num_bits=8, strategy="channel")),
        "ct-int8-channel": ("int-quantized", dict(num_bits=8, strategy="channel")),
        "ct-int8-channel-zeros": ("int-quantized", dict(num_bits=8, strategy="channel", symmetric=False)),
        "ct-int8-tensor": ("int-quantized", dict(num_bits=8, strategy="tensor")),
        "ct-fp8-channel": ("float-quantized", dict(num_bits=8, type="float", strategy="channel")),
        "ct-fp8-tensor": ("float-quantized", dict(num_bits=8, type="float", strategy="tensor")),
        "ct-fp8-block": ("float-quantized", dict(num_bits=8, type="float", strategy="block", block_structure=[16, 32])),
        "ct-nvfp4": ("nvfp4-pack-quantized", dict(strategy="tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn", **fp4)),
        "ct-mxfp4": ("mxfp4-pack-quantized", dict(strategy="group", group_size=32, scale_dtype="torch.uint8", **fp4)),
    }
    for seed, (name, (form, arguments)) in enumerate(cases.items()):
        weights = original(seed)
        args = QuantizationArgs(**arguments)
        width = {"group": args.group_size, "tensor_group": args.group_size}.get(args.strategy, COLUMNS)
        if args.strategy == "tensor":
            low, high = weights.min().reshape(1), weights.max().reshape(1)
        elif args.strategy == "block":
            tiles = weights.reshape(ROWS // 16, 16, COLUMNS // 32, 32)
            low, high = tiles.amin((1, 3)), tiles.amax((1, 3))
        else:
            tiles = weights.reshape(ROWS, COLUMNS // width, width)
            low, high = tiles.amin(-1), tiles.amax(-1)
        state = {"weight": weights}
        second = None
        if name == "ct-nvfp4":
            second = generate_gparam(weights.min().float(), weights.max().float())
            state["weight_global_scale"] = second.reshape(1)
        scale, zero = calculate_qparams(low, high, args, global_scale=second)
        state |= {"weight_scale": scale, "weight_zero_point": zero}
        scheme = QuantizationScheme(targets=["Linear"], weights=args, format=form)
        compressor = BaseCompressor.get_value_from_registry(form)
        stored = compressor.compress(state, scheme)
        wide = {key: value.float() if value.dtype == torch.bfloat16 else value for key, value in stored.items()}
        if name == "ct-mxfp4":  # powers of two: exact in any type
            expected = compressor.decompress(stored, scheme)["weight"]
        elif name == "ct-nvfp4":  # decompress() rounds to bfloat16
            codes = unpack_fp4_from_uint8(stored["weight_packed"], ROWS, COLUMNS, dtype=torch.float32)
            expected = dequantize(codes, stored["weight_scale"].float(), args=args, dtype=torch.float32,
                                  global_scale=stored["weight_global_scale"])
        else:
            expected = compressor.decompress(wide, scheme)["weight"]
        config = {"quantization_config": {
            "quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": json.loads(args.model_dump_json())}}}}
        write(name, config, {f"layer.{key}": value for key, value in stored.items()}, weights, expected)


def gptq():
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import FORMAT
    from gptqmodel.quantization.quantizer import Quantizer
    from gptqmodel.quantization.config import QuantizeConfig
    from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

    for name, bits, version, ordered, sym in [
        ("gptq-2", 2, "gptq", False, True), ("gptq-3", 3, "gptq", False, True), ("gptq-4", 4, "gptq", False, True),
        ("gptq-8", 8, "gptq", False, True), ("gptq-4-zeros", 4, "gptq_v2", False, False),
        ("gptq-4-zeros-v1", 4, "gptq", False, False), ("gptq-4-order", 4, "gptq", True, True),
    ]:
        weights = original(bits, torch.float16)
        groups = torch.arange(COLUMNS) // 32
        if ordered:
            groups = groups[torch.randperm(COLUMNS, generator=torch.Generator().manual_seed(1))]
        scales, zeros = [], []
        for group in range(2):
            quantizer = Quantizer(QuantizeConfig(bits=bits, group_size=32, sym=sym))
            quantizer.configure(perchannel=True, bits=bits, sym=sym)
            quantizer.find_params(weights[:, groups == group].float(), weight=True)
            scales.append(quantizer.scale.reshape(-1))
            zeros.append(quantizer.zero.reshape(-1))
        layer = torch.nn.Linear(COLUMNS, ROWS, bias=False, dtype=torch.float16)
        layer.weight.data = weights
        linear = TorchLinear(bits=bits, group_size=32, sym=sym, desc_act=ordered, in_features=COLUMNS,
                             out_features=ROWS, bias=False, pack_dtype=torch.int32, register_buffers=True)
        linear.pack_block(layer, torch.stack(scales).T.contiguous(), torch.stack(zeros).T.contiguous(), groups.to(torch.int32))
        linear.post_init()
        keep = linear.scales
        linear.scales = keep.float()
        linear.dequant_dtype = torch.int32
        expected = linear.dequantize_weight().T.float()
        linear.scales = keep
        if version == "gptq":
            convert_gptq_v2_to_v1_format_module(linear, QuantizeConfig(bits=bits, group_size=32, sym=sym))
        tensors = {f"layer.{key}": getattr(linear, key) for key in ["qweight", "qzeros", "scales", "g_idx"]}
        config = {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": 32, "desc_act": ordered,
                                          "sym": sym, "checkpoint_format": version}}
        write(name, config, tensors, weights, expected)


def awq():
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    weights = original(5, torch.float16)
    # What AwqQuantizer.pseudo_quantize_tensor does with zero points.
    tiles = weights.reshape(-1, 32)
    high, low = tiles.amax(1, keepdim=True), tiles.amin(1, keepdim=True)
    scales = (high - low).clamp(min=1e-5) / 15
    zeros = (-torch.round(low / scales)).clamp_(0, 15)
    layer = torch.nn.Linear(COLUMNS, ROWS, bias=False, dtype=torch.float16)
    layer.weight.data = (torch.clamp(torch.round(tiles / scales) + zeros, 0, 15) - zeros).mul(scales).reshape(weights.shape)
    packed = WQLinear_GEMM.from_linear(layer, 4, 32, scales=scales.view(ROWS, -1).T.contiguous(),
                                       zeros=zeros.view(ROWS, -1).T.contiguous())
    expected = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, 32).T
    config = {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}}
    write("awq", config, {f"layer.{key}": getattr(packed, key) for key in ["qweight", "qzeros", "scales"]}, weights, expected)


def mxfp4():
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    # gpt-oss was quantised while it was trained; its own rounding is not public. This is that of the OCP specification.
    weights = original(6, shape=(3 * 8, 64)).reshape(3, 8, 64)
    tiles = weights.float().reshape(3, 8, 2, 32)
    exponents = torch.floor(torch.log2(tiles.abs().amax(-1).clamp(min=2.0**-100))) - 2
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    scaled = tiles / torch.exp2(exponents)[..., None]
    nearest = grid[(scaled.abs()[..., None] - grid).abs().argmin(-1)] * scaled.sign()
    blocks = pack_fp4_to_uint8(nearest.reshape(-1, 32)).reshape(3, 8, 2, 16)
    scales = (exponents + 127).to(torch.uint8)
    expected = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    write("mxfp4-experts", {"quantization_config": {"quant_method": "mxfp4"}},
          {"layer.weight_blocks": blocks, "layer.weight_scales": scales}, weights.transpose(1, 2), expected)


def bitsandbytes():
    import bitsandbytes.functional as functional

    for name, kind, nested, dtype in [("bnb-nf4", "nf4", False, torch.bfloat16), ("bnb-nf4-nested", "nf4", True, torch.bfloat16),
                                      ("bnb-fp4-nested", "fp4", True, torch.float16)]:
        weights = original(7, dtype)
        codes, state = functional.quantize_4bit(weights, quant_type=kind, compress_statistics=nested, blocksize=64)
        tensors = {"layer.weight": codes} | {f"layer.weight.{key}": value for key, value in state.as_dict(packed=True).items()}
        state.dtype = torch.float32
        expected = functional.dequantize_4bit(codes, state)
        config = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
                                          "bnb_4bit_use_double_quant": nested}}
        write(name, config, tensors, weights, expected)
    weights = original(8)
    codes, scales, _ = functional.int8_vectorwise_quant(weights.half())
    expected = functional.int8_vectorwise_dequant(codes, scales)
    tensors = {"layer.weight": codes, "layer.SCB": scales, "layer.weight_format": torch.tensor(0, dtype=torch.uint8)}
    write("bnb-int8", {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, tensors, weights, expected)


def modelopt():
    from modelopt.torch.quantization.qtensor import NVFP4QTensor

    weights = original(9)
    packed, scales, second = NVFP4QTensor.quantize(weights, 16)
    expected = packed.dequantize(dtype=torch.float32, scale=scales, double_scale=second, block_sizes={-1: 16})
    tensors = {"layer.weight": packed._quantized_data, "layer.weight_scale": scales, "layer.weight_scale_2": second}
    write("modelopt-nvfp4", {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, tensors, weights, expected)


def mlx():
    import mlx.core
    import numpy

    for bits in [2, 3, 4, 6, 8]:
        weights = original(10 + bits, torch.float32)
        packed = mlx.core.quantize(mlx.core.array(weights.numpy()), group_size=32, bits=bits)
        expected = torch.from_numpy(numpy.array(mlx.core.dequantize(*packed, group_size=32, bits=bits)))
        tensors = {f"layer.{key}": torch.from_numpy(numpy.array(part)) for key, part in zip(["weight", "scales", "biases"], packed, strict=True)}
        write(f"mlx-{bits}", {"quantization": {"group_size": 32, "bits": bits}}, tensors, weights, expected)


def transformers_fp8():
    from types import SimpleNamespace

    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

    for name, scale_fmt in [("fp8-blocks", "float"), ("fp8-blocks-powers", "ue8m0")]:
        weights = original(20)
        settings = FineGrainedFP8Config(weight_block_size=(16, 32), scale_fmt=scale_fmt)
        quantizer = SimpleNamespace(quantization_config=settings)
        tensors = Fp8Quantize(quantizer)._quantize_one("layer.weight", weights)
        expected = Fp8Dequantize(quantizer)._dequantize_one(tensors["layer.weight"], tensors["layer.weight_scale_inv"], torch.float32)
        write(name, {"quantization_config": json.loads(json.dumps(settings.to_dict(), default=str))}, tensors, weights, expected)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in [transformers_fp8, compressed_tensors, awq, mxfp4, bitsandbytes, modelopt, mlx, gptq]:
        make()


if __name__ == "__main__":
    main()
