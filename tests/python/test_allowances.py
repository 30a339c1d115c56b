"""Whoever makes B does not choose what rounding explains: no scale, no coarse matrix, no step of a block and no aimed
change widens what is accepted of the other numbers. Each attack stands beside the honest file that it imitates.
(attack: inflated_rounding, inflated_f32, coarsest, coarsest_gguf, gguf_blocks, q4_noise, known_signs)"""

import gguf
import numpy as np
import pytest
import torch
from doctored import added, doctored, doctored_gguf, llama, logits, noisy, other_tokens, said
from gguf import GGMLQuantizationType as Type

LAYERS = 2
UP, DOWN = ([f"model.layers.{layer}.mlp.{part}_proj.weight" for layer in range(LAYERS)] for part in ("up", "down"))
K = "model.layers.1.self_attn.k_proj.weight"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The model in F32 and in BF16, and the first as a GGUF file of F32."""
    folder = tmp_path_factory.mktemp("made")
    shape = dict(hidden_size=64, intermediate_size=128)
    return {
        torch.float32: llama(folder / "f32", **shape),
        torch.bfloat16: llama(folder / "bf16", dtype=torch.bfloat16, **shape),
        "folder": folder,
    }


@pytest.fixture(scope="module")
def as_gguf(regauge, made):
    regauge("convert", made[torch.float32], "--to", "gguf", "-o", made["folder"] / "a.gguf")
    return made["folder"] / "a.gguf"


def moved(regauge, source, *more):
    target = source.with_name(source.name + "-moved")
    regauge("act", source, "-o", target, "--random", 5, *more)
    return target


# Scales that drown their neighbours, though a float keeps its own digits.


def scaled_half(factor, change=lambda tensors: None):
    """Every second neuron `factor` times as large in `up` and as small in `down`: the same function."""

    def edit(tensors):
        change(tensors)
        for up, down in zip(UP, DOWN):
            tensors[up][::2] *= factor
            tensors[down][:, ::2] /= factor

    return edit


def small_neurons(share):
    def change(tensors):
        for up in UP:
            tensors[up] = added(tensors[up], share, 3, slice(1, None, 2))

    return change


def across(share):
    """In the neurons that stay small, and across the direction of each, so that its scale is still found."""

    def change(tensors):
        for number, up in enumerate(UP):
            matrix = tensors[up].double()
            delta = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
            delta -= (delta * matrix).sum(1, keepdim=True) / matrix.square().sum(1, keepdim=True) * matrix
            delta[::2] = 0
            tensors[up] = (matrix + delta * (share * matrix.norm() / delta.norm())).to(tensors[up].dtype)

    return change


INFLATED = [
    (torch.bfloat16, 100.0, 0.3),
    (torch.bfloat16, 100.0, 0.05),
    (torch.float32, 3e5, 0.2),
    (torch.float32, 3e5, 1e-4),
]


@pytest.mark.parametrize(("dtype", "factor", "share"), INFLATED)
@pytest.mark.parametrize("change", [small_neurons, across], ids=["plain", "across"])
def test_a_scale_does_not_hide_the_neurons_beside_it(regauge, made, tmp_path, dtype, factor, share, change):
    changed = doctored(made[dtype], tmp_path / "b", scaled_half(factor, change(share)))
    answer = said(made[dtype], moved(regauge, changed, "--only", "residual"))
    assert answer["statement"] == "not-the-same"
    off = [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]]
    assert {f"layers.{layer}.ffn.up.weight" for layer in range(LAYERS)} <= set(off)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [
        (torch.bfloat16, 100.0),
        (torch.float32, 1e3),
        (torch.float32, 3e5),
        (torch.float32, 4e6),
    ],
)
def test_neurons_that_are_only_scaled(regauge, made, tmp_path, dtype, factor):
    honest = moved(regauge, doctored(made[dtype], tmp_path / "b", scaled_half(factor)), "--only", "residual")
    assert said(made[dtype], honest)["statement"] == "other-coordinates"


# One coarse matrix.


@pytest.mark.parametrize("share", [0, 3e-4, 5e-3])
@pytest.mark.parametrize("coarse", [torch.float16, torch.bfloat16])
def test_a_coarse_matrix_does_not_count_for_the_others(regauge, made, tmp_path, coarse, share):
    base = made[torch.float32]
    changed = doctored(base, tmp_path / "b", noisy(share) if share else None)
    with_one = doctored(
        moved(regauge, changed), tmp_path / "c", lambda tensors: tensors.update({K: tensors[K].to(coarse)})
    )
    assert said(base, with_one)["statement"] == ("not-the-same" if share else "other-coordinates")


def q8_with_a_step(values, share):
    """Q8_0 whose first block has codes of zero and a step that makes `rounding` this share of the tensor."""
    data = gguf.quants.quantize(values, Type.Q8_0)
    blocks = data.reshape(-1, 34).copy()
    blocks[0, 2:] = 0
    size = np.square(gguf.quants.dequantize(blocks.reshape(data.shape), Type.Q8_0).astype(np.float64)).sum()
    step = min(6e4, (share * share * 12 * size / 32) ** 0.5)
    blocks[0, :2] = np.frombuffer(np.float16(step).tobytes(), np.uint8)
    return blocks.reshape(data.shape)


@pytest.mark.parametrize(
    ("step", "share"),
    [(None, 0), (0.01, 0.05), (0.06, 0.2)],
    ids=["honest", "a twentieth", "a fifth"],
)
def test_a_crafted_step_does_not_count_for_the_others(regauge, made, tmp_path, step, share):
    base = made[torch.float32]
    changed = moved(regauge, doctored(base, tmp_path / "b", noisy(share, "mlp") if share else None))
    regauge("convert", changed, "--to", "gguf", "-o", tmp_path / "plain.gguf")

    def one(name, values):
        if name != "blk.1.attn_k.weight":
            return None
        return (q8_with_a_step(values, step) if step else gguf.quants.quantize(values, Type.Q8_0)), Type.Q8_0

    answer = said(base, doctored_gguf(tmp_path / "plain.gguf", tmp_path / "c.gguf", one))
    if step is None:
        assert answer["statement"] == "other-coordinates"
    else:
        assert answer["statement"] == "not-the-same"
        assert any("ffn" in tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"])


# Steps of blocks, in place.


def quantised(kind, share=0.0, make=gguf.quants.quantize):
    """Every matrix in this type, changed by this share of its size before."""
    random = np.random.default_rng(1)

    def change(name, values):
        if values.ndim < 2:
            return None
        delta = random.standard_normal(values.shape)
        values = values + delta * (share * np.linalg.norm(values) / np.linalg.norm(delta))
        return make(values.astype(np.float32), kind), kind

    return change


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0], ids=lambda kind: kind.name)
def test_the_answer_never_softens_as_noise_grows(as_gguf, tmp_path, kind):
    """Two honest files of one type: equal or different, however coarse the type."""
    a = doctored_gguf(as_gguf, tmp_path / "a.gguf", quantised(kind))
    assert said(a, doctored_gguf(a, tmp_path / "again.gguf"))["statement"] == "identical"
    for share in (0.005, 0.02, 0.1, 0.3):
        b = doctored_gguf(a, tmp_path / f"{share}.gguf", quantised(kind, share))
        assert said(a, b)["verdict"] in ("perturbed", "different"), share


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0], ids=lambda kind: kind.name)
def test_noise_within_the_steps_is_not_the_nearest_code(as_gguf, tmp_path, kind):
    """The F32 file against its quantised copy, and against that of a noisy one."""
    honest = doctored_gguf(as_gguf, tmp_path / "honest.gguf", quantised(kind))
    assert said(as_gguf, honest)["statement"] == "same-numbers"
    for share in (0.02, 0.1):
        b = doctored_gguf(as_gguf, tmp_path / f"{share}.gguf", quantised(kind, share))
        assert said(as_gguf, b)["verdict"] in ("perturbed", "different"), share


def zeroed_block(values, kind):
    return q8_with_a_step(values, 0.095)


def coarse_steps(times):
    """Q8_0 with steps this many times too large: each number is within half a step of its own."""

    def make(values, kind):
        blocks = values.reshape(-1, 32)
        step = np.float16(np.abs(blocks).max(1, keepdims=True) * times / 127)
        codes = np.clip(np.rint(blocks / step.astype(np.float32)), -127, 127).astype(np.int8)
        data = np.concatenate([step.view(np.uint8), codes.view(np.uint8)], 1)
        return data.reshape(*values.shape[:-1], -1)

    return make


CRAFTED = {"a block of zeros": zeroed_block} | {f"{n} times the step": coarse_steps(n) for n in (4, 16, 120)}


@pytest.mark.parametrize("make", CRAFTED.values(), ids=CRAFTED)
def test_a_crafted_step_does_not_excuse_its_own_block(as_gguf, tmp_path, make):
    b = doctored_gguf(as_gguf, tmp_path / "b.gguf", quantised(Type.Q8_0, make=make))
    assert said(as_gguf, b)["verdict"] != "same"
    honest = doctored_gguf(as_gguf, tmp_path / "c.gguf", quantised(Type.Q8_0, make=coarse_steps(1)))
    assert said(as_gguf, honest)["statement"] == "same-numbers"


# Changes that are aimed.

WORD = (1 << 64) - 1


def once_fixed_signs(name, rows, columns=16):
    """The directions through which an earlier version saw this tensor, in every run."""

    def mixed(state):
        state[0] = (state[0] + 0x9E3779B97F4A7C15) & WORD
        z = state[0]
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    digest = 0xCBF29CE484222325
    for byte in b"signs/" + name.encode():
        digest = ((digest ^ byte) * 0x100000001B3) & WORD
    state = [mixed([0]) ^ digest]
    s = [mixed(state) for _ in range(4)]

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & WORD

    def sign():
        result = (rotated((s[1] * 5) & WORD, 7) * 9) & WORD
        t = (s[1] << 17) & WORD
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
        return 1.0 if result >> 63 else -1.0

    return torch.tensor([[sign() for _ in range(columns)] for _ in range(rows)], dtype=torch.float64)


def aimed(share):
    def change(tensors):
        for layer in range(LAYERS):
            name = f"model.layers.{layer}.mlp.gate_proj.weight"
            matrix = tensors[name].double()
            seen, _ = torch.linalg.qr(once_fixed_signs(f"layers.{layer}.ffn.gate.weight", matrix.shape[0]))
            delta = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
            delta -= seen @ (seen.T @ delta)
            tensors[name] = (matrix + delta * (share * matrix.norm() / delta.norm())).float()

    return change


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_a_change_cannot_be_aimed_past_the_random_directions(regauge, made, tmp_path, share):
    base = made[torch.float32]
    changed = doctored(base, tmp_path / "b", aimed(share))
    if share > 0.1:
        assert other_tokens(base, changed) > 0.1
    answer = said(base, moved(regauge, changed))
    assert answer["statement"] == "not-the-same"
    off = [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]]
    assert {f"layers.{layer}.ffn.gate.weight" for layer in range(LAYERS)} <= set(off)


# A basis so bad that its rounding is another function.


def value_basis(condition):
    def change(tensors):
        for layer in range(LAYERS):
            at = f"model.layers.{layer}.self_attn."
            v, o = tensors[at + "v_proj.weight"].double(), tensors[at + "o_proj.weight"].double()
            width = v.shape[0] // 2
            drawn = torch.Generator().manual_seed(layer)
            for group in range(2):
                left, right = (
                    torch.linalg.qr(torch.randn(width, width, generator=drawn, dtype=torch.float64))[0] for _ in "ab"
                )
                sizes = torch.logspace(-0.5, 0.5, width, base=condition, dtype=torch.float64)
                basis = left @ torch.diag(sizes) @ right
                rows = slice(group * width, (group + 1) * width)
                v[rows] = basis @ v[rows]
                for head in (2 * group, 2 * group + 1):
                    columns = slice(head * width, (head + 1) * width)
                    o[:, columns] = o[:, columns] @ torch.linalg.inv(basis)
            for name, matrix in (("v_proj", v), ("o_proj", o)):
                tensors[f"{at}{name}.weight"] = matrix.to(tensors[f"{at}{name}.weight"].dtype)

    return change


@pytest.mark.parametrize(
    ("dtype", "condition"),
    [
        (torch.float32, 300),
        (torch.float32, 3000),
        (torch.bfloat16, 3),
        (torch.bfloat16, 300),
        (torch.bfloat16, 3000),
    ],
)
def test_a_badly_conditioned_value_basis(made, tmp_path, dtype, condition):
    b = doctored(made[dtype], tmp_path / "b", value_basis(condition))
    before, after = logits(made[dtype]), logits(b)
    change = ((after - before).norm() / before.norm()).item()
    answer = said(made[dtype], b)
    if dtype == torch.float32:
        assert change < 1e-3 and answer["statement"] == "other-coordinates"
    elif condition == 3:
        assert answer["statement"] == "other-coordinates"
    else:
        assert change > 0.1
        assert answer["verdict"] != "same"
