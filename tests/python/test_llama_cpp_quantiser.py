"""What llama.cpp's own quantiser writes lies within the bounds that `diff` gives each number, and a changed code does not."""

import json

import llama_cpp
import numpy
import pytest
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize
from test_quantised import NAMES, config, gguf_writer

TYPES = [Type.Q8_0, Type.Q5_1, Type.Q5_0, Type.Q4_1, Type.Q4_0, Type.Q6_K, Type.Q5_K, Type.Q4_K]


def random(draw, shape):
    return draw.standard_normal(shape) / 16


def heavy_tailed(draw, shape):
    return draw.standard_t(1.5, shape) / 16


def outliers(draw, shape):
    """One number in a row a hundred times larger: the sub-blocks beside it share its scales."""
    values = random(draw, shape)
    values[numpy.arange(shape[0]), draw.integers(shape[1], size=shape[0])] *= 100
    return values


def sparse(draw, shape):
    return random(draw, shape) * (draw.random(shape) < 0.02)


def one_number(draw, shape):
    """In each block of 256."""
    values = numpy.zeros(shape)
    values[:, ::256] = random(draw, values[:, ::256].shape)
    return values


def constant(draw, shape):
    return numpy.full(shape, 0.3)


def negative_constant(draw, shape):
    return numpy.full(shape, -0.3)


def constants(draw, shape):
    """Each run of 32 has its own."""
    return numpy.repeat(random(draw, (shape[0], shape[1] // 32)), 32, axis=1)


def positive(draw, shape):
    return abs(random(draw, shape))


def negative(draw, shape):
    return -abs(random(draw, shape))


def far_from_zero(draw, shape):
    return 5 + 0.01 * random(draw, shape)


def far_below_zero(draw, shape):
    return -5 + 0.01 * random(draw, shape)


def few_values(draw, shape):
    return draw.integers(-1, 2, shape) * 0.05


def sizes(draw, shape):
    """Each run of 16 has its own size, over six powers of ten."""
    return random(draw, shape) * numpy.repeat(10 ** draw.uniform(-6, 0, (shape[0], shape[1] // 16)), 16, axis=1)


def small(draw, shape):
    """Scales that F16 holds with few digits, as of the rows of tokens that were never seen; each row has its size."""
    return random(draw, shape) * 10 ** draw.uniform(-6, -2, (shape[0], 1))


def denormal(draw, shape):
    return random(draw, shape) * 10 ** draw.uniform(-42, -6, (shape[0], 1))


KINDS = [
    random, heavy_tailed, outliers, sparse, one_number, constant, negative_constant, constants, positive, negative,
    far_from_zero, far_below_zero, few_values, sizes, small, denormal,
]  # fmt: skip


def values_of(kind, shape, seed):
    return kind(numpy.random.default_rng([seed, KINDS.index(kind)]), shape).astype(numpy.float32)


def shapes():
    """The matrices of the model, by their names in GGUF."""
    size = config()
    width, inner = size.hidden_size, size.intermediate_size
    kv_width = width // size.num_attention_heads * size.num_key_value_heads
    found = {"token_embd.weight": (size.vocab_size, width), "output.weight": (size.vocab_size, width)}
    for layer in range(size.num_hidden_layers):
        parts = {"attn_q": (width, width), "attn_k": (kv_width, width), "attn_v": (kv_width, width),
                 "attn_output": (width, width), "ffn_gate": (inner, width), "ffn_up": (inner, width),
                 "ffn_down": (width, inner)}  # fmt: skip
        found |= {f"blk.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return found


def write(path, tensors):
    """A llama of these matrices: name -> (numbers, type)."""
    writer = gguf_writer(path, config())
    for name in NAMES:
        if name in tensors:
            numbers, kind = tensors[name]
            writer.add_tensor(name, numbers, raw_dtype=kind)
        else:
            writer.add_tensor(name, numpy.ones(config().hidden_size, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def plain(matrices):
    return {name: (values, Type.F32) for name, values in matrices.items()}


def quantised(matrices, kind):
    return {name: (llama_cpp.quantise(values, kind), kind) for name, values in matrices.items()}


def filled(kinds, seed=0):
    """The matrices of the model, each of the next of these kinds."""
    return {name: values_of(kinds[i % len(kinds)], shape, seed) for i, (name, shape) in enumerate(shapes().items())}


def outside(answer):
    """The tensors that are not within their bounds, with how far they are off."""
    return {tensor["tensor"]: (tensor["relation"], tensor["excess"]) for tensor in answer["tensors"] if not tensor["agrees"]}


def is_the_same(regauge, original, copy):
    answer = json.loads(regauge("diff", original, copy, "--json"))
    assert outside(answer) == {} and answer["statement"] == "same-numbers"
    assert not any("larger step" in reason for reason in answer["reasons"])


@pytest.fixture(scope="module")
def matrices():
    assert len(KINDS) == len(shapes())
    return filled(KINDS)


@pytest.fixture(scope="module")
def original(tmp_path_factory, matrices):
    return write(tmp_path_factory.mktemp("original") / "model.gguf", plain(matrices))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_quantised_numbers_lie_within_their_bounds(regauge, tmp_path, original, matrices, kind):
    is_the_same(regauge, original, write(tmp_path / "copy.gguf", quantised(matrices, kind)))


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_1, Type.Q6_K, Type.Q4_K], ids=lambda kind: kind.name)
def test_quantised_from_f16(regauge, tmp_path, original, matrices, kind):
    """The converter writes F16, and llama-quantize reads that."""
    halves = {name: values.astype(numpy.float16).astype(numpy.float32) for name, values in matrices.items()}
    is_the_same(regauge, original, write(tmp_path / "copy.gguf", quantised(halves, kind)))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_trained_numbers(regauge, tmp_path, data, kind):
    """The numbers of stories260K, laid into the matrices of a larger model."""
    matrices = trained(data)
    original = write(tmp_path / "original.gguf", plain(matrices))
    is_the_same(regauge, original, write(tmp_path / "copy.gguf", quantised(matrices, kind)))


# The first byte of a block that holds codes, and what adds one to its lowest code.
FIRST_CODE = {Type.Q8_0: 2, Type.Q5_1: 8, Type.Q5_0: 6, Type.Q4_1: 4, Type.Q4_0: 2, Type.Q6_K: 0, Type.Q5_K: 48, Type.Q4_K: 16}


def with_one_code_off(values, kind, row):
    """The quantised matrix with the first code of a row moved by one, away from the number that it stands for."""
    blocks = llama_cpp.quantise(values, kind)
    before = dequantize(blocks[row], kind)[0]
    for step in (1, -1):
        changed = blocks.copy()
        code = int(changed[row, FIRST_CODE[kind]]) & 15
        if kind != Type.Q8_0 and not 0 <= code + step <= 15:
            continue
        changed[row, FIRST_CODE[kind]] = (int(changed[row, FIRST_CODE[kind]]) + step) % 256
        after = dequantize(changed[row], kind)[0]
        if abs(after - values[row, 0]) > abs(after - before) * 0.999:
            return changed
    return None


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_one_code_off_by_one(regauge, tmp_path, kind):
    matrices = filled([random])
    original = write(tmp_path / "original.gguf", plain(matrices))
    tensors, name = quantised(matrices, kind), "blk.1.ffn_up.weight"
    changed = next(found for row in range(99) if (found := with_one_code_off(matrices[name], kind, row)) is not None)
    assert (changed != tensors[name][0]).sum() == 1
    tensors[name] = (changed, kind)
    answer = json.loads(regauge("diff", original, write(tmp_path / "copy.gguf", tensors), "--json", expect=1))
    assert list(outside(answer)) == ["layers.1.ffn.up.weight"]


# With an importance matrix, extremes of columns that matter little are cut off.
SUB_BLOCKS = [Type.Q6_K, Type.Q5_K, Type.Q4_K]


def by_importance(matrices, kind, seed=0):
    """Importances of columns are far apart, as they are in real models."""
    draw = numpy.random.default_rng(seed)
    return {
        name: (llama_cpp.quantise(values, kind, draw.standard_normal(values.shape[1]) ** 2 * 10), kind)
        for name, values in matrices.items()
    }


def trained(data):
    numbers = numpy.fromfile(data / "llama2c-stories260K" / "stories260K.bin", dtype=numpy.float32, offset=28)
    return {name: numpy.resize(numbers, shape) for name, shape in shapes().items()}


@pytest.mark.parametrize("numbers", ["random", "trained"])
@pytest.mark.parametrize("kind", SUB_BLOCKS, ids=lambda kind: kind.name)
def test_an_importance_matrix(regauge, tmp_path, request, kind, numbers):
    matrices = trained(request.getfixturevalue("data")) if numbers == "trained" else filled([random])
    original = write(tmp_path / "original.gguf", plain(matrices))
    copy = write(tmp_path / "copy.gguf", by_importance(matrices, kind))
    for a, b in ((original, copy), (copy, original)):
        answer = json.loads(regauge("diff", a, b, "--json", expect=1))
        assert answer["statement"] == "undecided", outside(answer)
        assert not any("larger step" in reason for reason in answer["reasons"])
        cut = [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]]
        assert cut
        for name in cut:
            reason = next(reason for reason in answer["reasons"] if reason.startswith(name))
            assert "numbers were cut off at the end of their block, as an importance matrix does" in reason


@pytest.mark.parametrize("kind", SUB_BLOCKS, ids=lambda kind: kind.name)
def test_an_edit_beside_an_importance_matrix(regauge, tmp_path, kind):
    """However large: an edit of ordinary numbers is not forgiven, and never less so as it grows."""
    matrices = filled([random])
    name = "blk.1.ffn_up.weight"
    quantised_before = by_importance(matrices, kind)
    copy = write(tmp_path / "copy.gguf", quantised_before)
    step = abs(numpy.diff(numpy.unique(dequantize(quantised_before[name][0][0], kind)[:16]))).min()
    ranks = {"same-numbers": 0, "undecided": 1, "not-the-same": 2}
    found = []
    for size in (0.01, 0.3, 1, 3, 30):
        edited = {n: values.copy() for n, values in matrices.items()}
        edited[name] += size * step * numpy.random.default_rng(1).standard_normal(edited[name].shape).astype("f")
        original = write(tmp_path / f"original-{size}.gguf", plain(edited))
        found.append(json.loads(regauge("diff", original, copy, "--json", expect=1))["statement"])
    assert found[-3:] == ["not-the-same"] * 3
    assert sorted(found, key=ranks.get) == found


def test_too_many_cut_off(regauge, tmp_path):
    """A scale that is too small for every block: most numbers would have been cut off."""
    matrices = filled([random])
    original = write(tmp_path / "original.gguf", plain(matrices))
    tensors, name = quantised(matrices, Type.Q4_K), "blk.1.ffn_up.weight"
    tensors[name] = (llama_cpp.quantise(matrices[name].clip(-0.03, 0.03), Type.Q4_K), Type.Q4_K)
    answer = json.loads(regauge("diff", original, write(tmp_path / "copy.gguf", tensors), "--json", expect=1))
    assert answer["statement"] == "not-the-same"
    assert list(outside(answer)) == ["layers.1.ffn.up.weight"]
