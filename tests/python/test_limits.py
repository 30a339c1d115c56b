"""The detection limits of docs/diff.md, held on a tiny model: in place an edit is told at the first changed bit, moved from
a stated size on, and copies without an edit are the same. (bench/limits.py --small measures this model.)"""

import os
import sys

import pytest
from conftest import FIXTURES

sys.path.insert(0, str(FIXTURES.parents[1] / "bench"))

import edits  # noqa: E402
import limits  # noqa: E402
import stored  # noqa: E402

TRIES = 1
# The smallest edit of a moved copy that is told, as a power of two: twice what bench/limits.py measures.
MOVED = {
    "f32": {
        "all entries of a matrix": -22, "one entry": -19, "one row of the token table": -21,
        "one gain": -21, "rank one, one matrix": -24, "a direction, all writers": -24,
        "LoRA of rank 1": -23, "LoRA of rank 8": -22, "10 AdamW steps": -23,
    },
    "bf16": {
        "all entries of a matrix": -7, "one entry": -3, "one row of the token table": -6, "one gain": -5,
        "rank one, one matrix": -9, "a direction, all writers": -9, "LoRA of rank 1": -8,
        "LoRA of rank 8": -7, "10 AdamW steps": -8,
    },
    "q8_0": {
        "all entries of a matrix": -5, "one entry": -1, "one row of the token table": -4, "one gain": -4,
        "rank one, one matrix": -7, "a direction, all writers": -7, "LoRA of rank 1": -7,
        "LoRA of rank 8": -5, "10 AdamW steps": -6,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    program = stored.Program(os.environ["REGAUGE"])
    work = tmp_path_factory.mktemp("limits")
    folder, _, _ = limits.base_folder("tiny", program, work, None)
    model = edits.Model("tiny", folder, TRIES)

    def made(kind, moved):
        target = work / f"{kind}-{moved}"
        target.mkdir(exist_ok=True)
        return limits.Bench(program, model, kind, moved, target)

    return made


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0"])
def test_in_place_the_first_changed_bit_is_told(regauge, bench, kind):
    placed = bench(kind, moved=False)
    assert placed.try_once("one entry", 0, 0) == ("identical", False)
    for edit in ("one entry", "rank one, one matrix"):
        first = placed.limit(edit, limits.has_changed_bit, 1)
        assert placed.try_once(edit, 2.0**first, 0) == ("changed", True), edit
        assert placed.try_once(edit, 2.0 ** (first - 1), 0) == ("identical", False) or first == limits.SMALLEST, edit


@pytest.mark.parametrize("kind", list(MOVED))
def test_moved_an_edit_is_told_from_a_stated_size_on(regauge, bench, kind):
    moved = bench(kind, moved=True)
    for number in range(TRIES):
        assert moved.try_once("one entry", 0, number)[0] == "other-coordinates"
        for edit, exponent in MOVED[kind].items():
            assert limits.is_detected(*moved.try_once(edit, 2.0**exponent, number)), (edit, number)
