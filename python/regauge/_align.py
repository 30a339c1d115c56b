"""B in A's coordinates."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import _core
from ._group import Array, Element
from ._model import ModelOrPath, Path, opened
from ._progress import Progress

#: Parameters by canonical name to the loss and its gradients by the same names. An object that has
#: a method advance() is told by it to go on to the next batch, one that has place(t) where on the
#: line the next parameters lie, and one that has loss(parameters) gives the loss alone by it, which
#: is what `barrier` asks for. regauge.torch.Objective makes one from a module.
Objective = Callable[[Mapping[str, Array]], tuple[float, Mapping[str, Array]]]


@dataclass(frozen=True)
class Alignment:
    """`act(b, a_from_b)` computes what B computes and stands near to A."""

    a_from_b: Element
    report: Any  # of the method: objective by iteration, what was tried

    def moved(self) -> list[str]:
        """The spaces whose basis changes, each with what changes: blocks, their order, or both."""
        lines = []
        for name, (order, blocks) in self.a_from_b.maps.items():
            what = []
            if any(place != i for i, place in enumerate(order)):
                what.append(f"{sum(p != i for i, p in enumerate(order))} of {len(order)} change places")
            if blocks.size:
                what.append("another basis")
            if what:
                lines.append(f"{name}: {', '.join(what)}")
        return lines

    def __repr__(self) -> str:
        method = self.report.get("method", "") if isinstance(self.report, dict) else ""
        return f"<regauge.Alignment by {method or 'learning'}: {self.a_from_b!r}>"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in self.moved())
        return f"<p>{html.escape(repr(self)[1:-1])}</p><ul>{items}</ul>"


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
