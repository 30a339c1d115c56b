"""The loss on a line between models, and the records of such measurements."""

import json
import math
import pathlib

import numpy
import pytest

import regauge

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results"


class Quadratic:
    """The squared distance of one tensor to a target, another one for each batch."""

    def __init__(self, name, targets, alone=False):
        self.name, self.targets, self.batch, self.calls = name, targets, 0, 0
        if alone:
            self.loss = lambda parameters: self(parameters)[0]

    def __call__(self, parameters):
        self.calls += 1
        difference = parameters[self.name] - self.targets[self.batch]
        return float((difference**2).sum()), {self.name: 2 * difference}

    def advance(self):
        self.batch += 1


NAME = "layers.0.attn.v.weight"


def line(llama, seed=1):
    moved = regauge.act(llama, llama.symmetry.random_element(seed))
    tensor = llama.parameters[NAME]
    return moved, Quadratic(NAME, [tensor, 1.5 * tensor, moved.parameters[NAME]])


def test_height_is_that_of_a_parabola(llama):
    """|x - T|^2 on a line is convex: its excess is -t (1 - t) |A - B|^2, whatever T is."""
    moved, objective = line(llama)
    found = regauge.barrier(llama, moved, objective, points=9, batches=3)
    square = ((llama.parameters[NAME] - moved.parameters[NAME]) ** 2).sum()
    numpy.testing.assert_allclose(found.excess, -found.places * (1 - found.places) * square, rtol=1e-3, atol=1e-4)
    assert found.height == pytest.approx(0, abs=1e-4) and found.by_batch.shape == (3, 9)
    assert found.error < 1e-3 and objective.calls == 27
    assert math.isnan(regauge.barrier(llama, moved, line(llama)[1], points=3).error)


def test_with_an_alignment(llama):
    moved, objective = line(llama)
    seen = []
    before = regauge.barrier(llama, moved, objective, points=5)
    after = regauge.barrier(
        llama, moved, line(llama)[1], points=5, align="weights", progress=lambda *told: seen.append(told)
    )
    assert after.losses.max() < 1e-3 * before.losses.max()
    assert ("measuring the line", 5, 5) in seen
    found = regauge.align(llama, moved)
    assert regauge.barrier(llama, moved, line(llama)[1], points=5, align=found).losses.max() < 1e-3 * before.losses.max()


def test_the_loss_alone_is_asked_for(llama):
    moved, _ = line(llama)
    alone = Quadratic(NAME, [llama.parameters[NAME]], alone=True)
    assert regauge.barrier(llama, moved, alone, points=3).losses[0] == 0


def test_what_is_refused(llama):
    moved, objective = line(llama)
    with pytest.raises(regauge.UsageError, match="at least 2 points"):
        regauge.barrier(llama, moved, objective, points=1)
    with pytest.raises(regauge.UsageError, match="magic"):
        regauge.barrier(llama, moved, objective, align="magic")


def test_in_a_notebook(llama):
    moved, objective = line(llama)
    measured = regauge.barrier(llama, moved, objective, points=3)
    assert "<svg" in measured._repr_html_() and "Barrier" in repr(measured)
    found = regauge.align(llama, moved)
    assert "weights" in repr(found) and "<li>residual: " in found._repr_html_()
    identity = regauge.align(llama, llama, scope="ffn:0")
    assert identity.a_from_b.is_identity or identity.moved()
    assert "#1a7f37" in regauge.diff(llama, moved)._repr_html_()
    assert "<table>" in llama.symmetry._repr_html_()


def test_plot(llama):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    moved, objective = line(llama)
    naive = regauge.barrier(llama, moved, objective, points=5, batches=2)
    axes = regauge.plot({"naive": naive, "again": naive})
    assert [curve.get_label() for curve in axes.lines] == ["naive", "again"]
    numpy.testing.assert_array_equal(axes.lines[0].get_ydata(), naive.losses)
    assert regauge.plot(naive).get_legend() is None


def test_records():
    """Every line of the study in docs/results is a row, and nothing of it is lost."""
    rows = regauge.records(RESULTS)
    lines = [json.loads(line) for file in RESULTS.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert len(rows) == len(lines) > 1000
    assert sum(row["barrier"] for row in rows) == pytest.approx(sum(line["barrier"] for line in lines))
    width = [row for row in rows if row["experiment"] == "width"]
    assert {"cell.width", "architecture.width", "seed_a", "seed_b", "method", "points"} <= set(width[0])
    assert {row["architecture.width"] for row in width} == {int(row["cell.width"]) for row in width}


def test_records_that_are_none(tmp_path):
    with pytest.raises(regauge.FileError, match="no records"):
        regauge.records(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"barrier": 1}\n{"loss": 2}\n')
    with pytest.raises(regauge.CorruptFile, match="a.jsonl:2"):
        regauge.records(tmp_path)


def test_the_truth_of_a_diff_is_deprecated(llama):
    found = regauge.diff(llama, llama)
    with pytest.warns(DeprecationWarning, match="found.same"):
        assert found
    assert found.same and found.statement == "identical" and found.verdict == "same"
