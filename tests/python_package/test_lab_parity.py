"""Learning by a torch module is what the lab does by its own forward pass."""

import os
import pathlib
import shutil
import subprocess

import numpy
import pytest
from conftest import FIXTURES

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import regauge  # noqa: E402
import regauge.torch  # noqa: E402

MASK = 2**64 - 1
SEED, STEPS, BATCH, LENGTH = 3, 12, 4, 12


@pytest.fixture
def program():
    found = shutil.which(os.environ.get("REGAUGE", ""))
    if not found or not (pathlib.Path(found).resolve().parent / "regauge-lab").exists():
        pytest.skip("set REGAUGE to a program that was built with the lab")
    return found


class Random:
    """regauge/base/random.h: the numbers depend on seed and name alone."""

    def __init__(self, seed, name):
        digest = 0xCBF29CE484222325
        for byte in name.encode():
            digest = (digest ^ byte) * 0x100000001B3 & MASK
        self.mixed = seed
        self.mixed = self.splitmix() ^ digest
        self.state = [self.splitmix() for _ in range(4)]

    def splitmix(self):
        self.mixed = z = (self.mixed + 0x9E3779B97F4A7C15) & MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        rotate = lambda x, k: (x << k | x >> (64 - k)) & MASK  # noqa: E731
        a, b, c, d = self.state
        drawn = rotate(b * 5 & MASK, 7) * 9 & MASK
        c, d = c ^ a, d ^ b
        self.state = [a ^ d, b ^ c, c ^ (b << 17 & MASK), rotate(d, 45)]
        limit = MASK - MASK % bound
        return drawn % bound if drawn < limit else self.below(bound)


def batches(tokens):
    """The windows that the lab draws, and what follows each token."""
    random = Random(SEED, "batches")
    while True:
        begins = [random.below(len(tokens) - LENGTH) for _ in range(BATCH)]
        yield torch.tensor(numpy.array([tokens[i : i + LENGTH + 1] for i in begins]), dtype=torch.int64)


def next_token_loss(module, windows):
    logits = module(input_ids=windows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def test_learned_alignment_is_the_labs(program, tmp_path):
    a = regauge.open(FIXTURES / "llama")
    random = numpy.random.default_rng(1)
    noisy = {
        name: tensor + 0.5 * tensor.std() * random.standard_normal(tensor.shape, numpy.float32)
        for name, tensor in a.state_dict().items()
    }
    b = regauge.convert(regauge.from_state_dict(noisy, a.config), tmp_path / "b")
    tokens = random.integers(0, a.architecture["vocabulary"], 400).astype(numpy.uint16)
    tokens.tofile(tmp_path / "tokens.bin")

    command = [
        program, "align", a.path, b.path, "-o", tmp_path / "out", "--method", "learned",
        "--start", "weights", "--loss", "task", "--data", f"tokens:{tmp_path / 'tokens.bin'}",
        "--length", LENGTH, "--batch", BATCH, "--seed", SEED, "--set", f"steps={STEPS}",
        "--save-element", tmp_path / "lab.safetensors",
    ]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    theirs = a.symmetry.load_element(tmp_path / "lab.safetensors")

    module = transformers.AutoModelForCausalLM.from_pretrained(a.path, dtype=torch.float32)
    objective = regauge.torch.Objective(module, batches(tokens), next_token_loss)
    start = regauge.align(a, b, seed=SEED).a_from_b
    ours = regauge.align(
        a, b, method="learned", objective=objective, start=start, seed=SEED, learning={"steps": STEPS}
    )
    moved = start.distance(theirs)
    assert moved > 1e-2  # there was something to learn
    assert ours.a_from_b.distance(theirs) < 1e-2 * moved

    # The same with other batches is not the same.
    again = regauge.torch.Objective(module, batches(tokens[::-1]), next_token_loss)
    other = regauge.align(
        a, b, method="learned", objective=again, start=start, seed=SEED, learning={"steps": STEPS}
    )
    assert other.a_from_b.distance(theirs) > 0.1 * moved
