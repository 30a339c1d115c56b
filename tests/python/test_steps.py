"""Steps of blocks that are larger than the format's own quantiser makes them. What such a step would hide is not taken as
rounding, and the answer says how many blocks have one. Beside each stands the file that the format's tool wrote."""

import json

import gguf
import numpy
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from test_allowances import as_gguf, coarse_steps, doctored_gguf, made, quantised  # noqa: F401
from test_scales import WEIGHT, fixture, plain, save  # noqa: F401


def words_down(codes):
    """Codes of four bits [in, out], eight of a column in a word, as GPTQ packs them."""
    eight = codes.reshape(-1, 8, codes.shape[1]).astype(numpy.uint32)
    return (eight << (4 * numpy.arange(8, dtype=numpy.uint32))[None, :, None]).sum(1, dtype=numpy.uint32).view(numpy.int32)


def words_along(codes, order=range(8)):
    """Codes of four bits, eight of a row in a word."""
    eight = codes.reshape(codes.shape[0], -1, 8).astype(numpy.uint32)
    return sum(eight[:, :, place] << numpy.uint32(4 * i) for i, place in enumerate(order)).astype(numpy.uint32)


def codes_of_words(words, order=range(8)):
    codes = numpy.zeros((*words.shape, 8), numpy.int64)
    for i, place in enumerate(order):
        codes[..., place] = words.view(numpy.uint32) >> numpy.uint32(4 * i) & 15
    return codes.reshape(words.shape[0], -1)


def without_zeros(scales):
    return numpy.where(scales == 0, 1, scales)


AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


def gptq(t, weights, times):
    zeros = (codes_of_words(t["qzeros"].numpy()) + 1) & 15  # of version 1
    scales = t["scales"].float().numpy() * times
    width = weights.shape[1] // len(scales)
    codes = numpy.rint(weights.T / scales.repeat(width, 0)) + zeros.repeat(width, 0)
    t["qweight"] = torch.from_numpy(words_down(codes.clip(0, 15)))
    t["scales"] = torch.from_numpy(scales).half()


def awq(t, weights, times):
    zeros = codes_of_words(t["qzeros"].numpy(), AWQ)
    scales = t["scales"].float().numpy() * times
    width = weights.shape[1] // len(scales)
    codes = numpy.rint(weights.T / scales.repeat(width, 0)) + zeros.repeat(width, 0)
    t["qweight"] = torch.from_numpy(words_along(codes.clip(0, 15), AWQ).view(numpy.int32))
    t["scales"] = torch.from_numpy(scales).half()


def nf4(t, weights, times):
    t["weight.absmax"] = t["weight.absmax"] * times
    blocks = weights.reshape(-1, 64) / without_zeros(t["weight.absmax"].numpy()[:, None])
    codes = numpy.abs(blocks[..., None] - t["weight.quant_map"].numpy()).argmin(-1).reshape(-1, 2).astype(numpy.uint8)
    t["weight"] = torch.from_numpy(codes[:, :1] << 4 | codes[:, 1:])


def mlx(t, weights, times):
    t["scales"] = t["scales"] * times
    scales, biases = t["scales"].numpy(), t["biases"].numpy()
    width = weights.shape[1] // scales.shape[1]
    codes = numpy.rint((weights - biases.repeat(width, 1)) / scales.repeat(width, 1)).clip(0, 15)
    t["weight"] = torch.from_numpy(words_along(codes).astype(numpy.uint32))


def int8(key, of_one=1):
    def make(t, weights, times):
        t[key] = t[key] * times
        steps = without_zeros(t[key].float().numpy().reshape(-1, 1) * of_one)
        t["weight"] = torch.from_numpy(numpy.rint(weights / steps).clip(-127, 127).astype(numpy.int8))

    return make


def int4(t, weights, times):
    t["weight_scale"] = t["weight_scale"] * times
    scales = t["weight_scale"].float().numpy()
    codes = numpy.rint(weights / scales.repeat(weights.shape[1] // scales.shape[1], 1)).clip(-8, 7) + 8
    t["weight_packed"] = torch.from_numpy(words_along(codes).view(numpy.int32))


def fp8(t, weights, times):
    t["weight_scale_inv"] = t["weight_scale_inv"] * times
    scales = t["weight_scale_inv"].float()
    down, across = (size // count for size, count in zip(weights.shape, scales.shape, strict=True))
    steps = scales.repeat_interleave(down, 0).repeat_interleave(across, 1)
    t["weight"] = (torch.from_numpy(weights) / steps).to(torch.float8_e4m3fn)


FP4 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], numpy.float32)


def fp4(steps):
    def make(t, weights, times):
        scales = steps(t, times)
        blocks = weights / scales.repeat(weights.shape[1] // scales.shape[1], 1)
        codes = numpy.abs(blocks[..., None] - FP4).argmin(-1).astype(numpy.uint8)
        t["weight_packed"] = torch.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4)

    return make


def nvfp4_steps(t, times):
    t["weight_global_scale"] = t["weight_global_scale"] / times
    return (t["weight_scale"].float() / t["weight_global_scale"]).numpy()


def mxfp4_steps(t, times):
    t["weight_scale"] = t["weight_scale"] + int(numpy.log2(times))
    return numpy.exp2(t["weight_scale"].numpy().astype(numpy.float32) - 127)


# How the numbers are made anew with scales that many times as large, each with the nearest code. Floats of eight bits lose
# nothing before they are subnormal.
FORMATS = {
    "gptq-4": (gptq, 3), "awq": (awq, 3), "bnb-nf4": (nf4, 3), "bnb-int8": (int8("SCB", 1 / 127), 4), "mlx-4": (mlx, 3),
    "ct-int8-channel": (int8("weight_scale"), 4), "ct-int4-group": (int4, 3), "fp8-blocks": (fp8, 2.0**12 + 1),
    "ct-nvfp4": (fp4(nvfp4_steps), 4), "ct-mxfp4": (fp4(mxfp4_steps), 4),
}  # fmt: skip


def said(regauge, a, b):
    return json.loads(regauge("diff", a, b, "--json", expect={0, 1}))


def about_steps(answer):
    return [reason for reason in answer["reasons"] if "larger step" in reason]


def cut_off(answer):
    return any("cut off at the end" in reason for reason in answer["reasons"])


@pytest.mark.parametrize("name", FORMATS)
def test_an_enlarged_step_is_not_rounding(regauge, plain, tmp_path, name):
    make, times = FORMATS[name]
    f = fixture(name)
    original = save(plain, tmp_path / "original", {"weight": f.original}, {})
    honest = said(regauge, original, save(plain, tmp_path / "honest", f.tensors, f.config))
    assert honest["statement"] == "same-numbers" or cut_off(honest)
    assert not about_steps(honest)

    again = dict(f.tensors)
    make(again, f.original.numpy(), 1)
    again = said(regauge, original, save(plain, tmp_path / "again", again, f.config))
    assert again["statement"] == honest["statement"] and not about_steps(again)  # so what follows is the scales alone

    enlarged = dict(f.tensors)
    make(enlarged, f.original.numpy(), times)
    answer = said(regauge, original, save(plain, tmp_path / "enlarged", enlarged, f.config))
    assert answer["statement"] == "not-the-same"
    assert [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]] == ["layers.1.attn.k.weight"]
    (reason,) = about_steps(answer)
    blocks, _, of = reason.split()[:3]
    assert WEIGHT in reason and 0.95 * int(of) <= int(blocks) <= int(of)


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1], ids=lambda kind: kind.name)
def test_honest_blocks_of_gguf_are_not_named(regauge, as_gguf, tmp_path, kind):
    b = doctored_gguf(as_gguf, tmp_path / "b.gguf", quantised(kind))
    answer = said(regauge, as_gguf, b)
    assert answer["statement"] == "same-numbers" and not about_steps(answer)


@pytest.mark.parametrize("times", [2, 16])
def test_coarse_blocks_of_gguf_are_named(regauge, as_gguf, tmp_path, times):
    b = doctored_gguf(as_gguf, tmp_path / "b.gguf", quantised(Type.Q8_0, make=coarse_steps(times)))
    answer = said(regauge, as_gguf, b)
    assert answer["statement"] == "not-the-same" and about_steps(answer)


def doubled(data, kind):
    """The same numbers: twice the step, half the codes, which are even."""
    blocks = gguf.quants.quantize(data, kind).reshape(-1, 34).copy()
    step = blocks[:, :2].view(numpy.float16) * numpy.float16(2)
    codes = blocks[:, 2:].view(numpy.int8) // 2
    return numpy.concatenate([step.view(numpy.uint8), codes.view(numpy.uint8)], 1).reshape(*data.shape[:-1], -1)


def test_numbers_that_lost_nothing_are_the_same_and_named(regauge, as_gguf, tmp_path):
    """A step that is too large, and nothing that it hides."""
    b = doctored_gguf(as_gguf, tmp_path / "b.gguf", quantised(Type.Q8_0, make=doubled))
    regauge("convert", b, "-o", tmp_path / "f32.gguf", "--to", "gguf", "--dtype", "f32")
    a = doctored_gguf(tmp_path / "f32.gguf", tmp_path / "a.gguf", lambda name, values: (values * numpy.float32(1.0001), Type.F32) if values.ndim > 1 else None)
    answer = said(regauge, a, b)
    assert answer["verdict"] == "same" and about_steps(answer)
