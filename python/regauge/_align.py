"""B in A's coordinates, and the line between two models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy

from . import _core
from ._group import Array, Element
from ._model import ModelOrPath, Path, opened
from ._progress import Progress

#: Parameters by canonical name to the loss and its gradients by the same names. An object that has
#: a method advance() is told by it to go on to the next batch, one that has place(t) where on the
#: line the next parameters lie. regauge.torch.Objective makes one from a module.
Objective = Callable[[Mapping[str, Array]], tuple[float, Mapping[str, Array]]]


@dataclass(frozen=True)
class Alignment:
    """`act(b, a_from_b)` computes what B computes and stands near to A."""

    a_from_b: Element
    report: Any  # of the method: objective by iteration, what was tried


def align(
    a: ModelOrPath,
    b: ModelOrPath,
    *,
    method: str = "weights",
    scope: str = "all",
    seed: int = 0,
    iterations: int = 40,
    starts: int = 4,
    objective: Objective | None = None,
    start: Element | None = None,
    learning: Mapping[str, Union[int, float, bool]] = {},
    checkpoint: Path = "",
    progress: Progress | None = None,
) -> Alignment:
    """The element that brings B closest to A.

    `method` is weights (the whole group), two_stage (heads one layer at a time, our
    reconstruction of a published baseline), or learned: from `start` (by default what weights finds) the loss `objective` is
    lowered on the line between the models. `learning` are its settings: steps, rate, ...; the work
    goes on from the file `checkpoint` if that exists. `scope` says what may move: all, attention,
    block, or categories as in `Symmetry.random_element`; :0 or :0-3 for some layers only.
    """
    a, b = opened(a), opened(b)
    if method == "learned":
        if objective is None:
            raise _core.UsageError("[align] learned needs an objective; regauge.torch makes one")
        if start is None:
            start = align(
                a, b, scope=scope, seed=seed, iterations=iterations, starts=starts, progress=progress
            ).a_from_b
        settings = json.dumps({"seed": seed, **learning})
        element, report = _core.learn(
            a._core, b._core, start._core, objective, settings, scope, checkpoint, progress
        )
    else:
        element, report = _core.align(
            a._core, b._core, method, scope, seed, iterations, starts, progress
        )
    return Alignment(Element(element), json.loads(report))


@dataclass(frozen=True)
class Barrier:
    """Losses on the straight line between two models."""

    places: Array  # from 0, which is A, to 1
    losses: Array

    @property
    def height(self) -> float:
        """The most by which the loss lies above the straight line between the ends' losses."""
        straight = (1 - self.places) * self.losses[0] + self.places * self.losses[-1]
        return float((self.losses - straight).max())


def barrier(
    a: ModelOrPath, b: ModelOrPath, objective: Objective, *, points: int = 25, batches: int = 1
) -> Barrier:
    """The loss at `points` places of the line from A to B, the mean over `batches`."""
    from_a, from_b = dict(opened(a).parameters), dict(opened(b).parameters)
    if {n: v.shape for n, v in from_a.items()} != {n: v.shape for n, v in from_b.items()}:
        raise _core.UsageError("[barrier] the models have different tensors")
    places = numpy.linspace(0, 1, points)
    losses = numpy.zeros(points)
    for batch in range(batches):
        for i, t in enumerate(places.astype(numpy.float32)):
            between = {name: (1 - t) * from_a[name] + t * from_b[name] for name in from_a}
            losses[i] += objective(between)[0] / batches
        if batch + 1 < batches:
            getattr(objective, "advance")()
    return Barrier(places, losses)
