"""Honest copies are never called changed: a seeded part of the pairs of bench/honest_pairs.py."""

import os
import sys

import pytest
from conftest import FIXTURES

sys.path.insert(0, str(FIXTURES.parents[1] / "bench"))

import honest_pairs  # noqa: E402
import stored  # noqa: E402

PAIRS = 48
TINY = ["llama-64", "qwen2-64", "gpt2-64"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    work = tmp_path_factory.mktemp("models")
    made = dict(honest_pairs.fixture_models())
    for name in TINY:
        made[name] = stored.make_tiny(name, work / name, seed=1, trained=True)
    return made


def test_honest_pairs_are_not_called_changed(regauge, tmp_path, models):
    program = stored.Program(os.environ["REGAUGE"])
    records = [honest_pairs.run_pair(program, models, [], 7, i, tmp_path) for i in range(PAIRS)]
    made = [record for record in records if record["said"] != "not made"]
    assert len(made) > 0.8 * PAIRS
    assert [record for record in made if record["said"] in ("changed", "failed")] == []
    decided = [record for record in made if record["said"] not in ("undecided", "not understood")]
    assert len(decided) > 0.7 * len(made)


def test_what_is_wrong_is_still_called_changed(regauge, tmp_path, models):
    """A negative control: with one tensor of another copy the same pairs are not the same."""
    program = stored.Program(os.environ["REGAUGE"])
    moved = tmp_path / "moved"
    program("act", models["llama-64"], "-o", moved, "--random", 1)
    tensors = stored.read_tensors(moved)
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = stored.read_tensors(models["llama-64"])[name]
    wrong = stored.write_tensors(moved, tmp_path / "wrong", tensors)
    assert stored.statement_of(program.diff(models["llama-64"], wrong)) == "changed"



@pytest.mark.parametrize("seed", [2, 4])
def test_tokens_that_are_alike_have_one_error(regauge, data, tmp_path, seed):
    """Half of this model's tokens were never trained, and rounding does one thing to all their rows: without that in the
    copies that `diff` makes, these two were called changed. Rows of 64 and 172 are no whole blocks of Q4_K: Q5_0 and F16."""
    program = stored.Program(os.environ["REGAUGE"])
    program("convert", data / "llama2c-stories260K" / "stories260K.bin", "-o", tmp_path / "a", "--to", "safetensors")
    program("act", tmp_path / "a", "-o", tmp_path / "b", "--random", seed, "--untie", "--dtype", "f32")
    program("convert", tmp_path / "b", "-o", tmp_path / "b.gguf", "--to", "gguf")
    stored.quantise_gguf(tmp_path / "b.gguf", tmp_path / "copy.gguf", "q4_k", mixed=False)
    assert stored.statement_of(program.diff(tmp_path / "a", tmp_path / "copy.gguf")) in ("other-coordinates", "undecided")
