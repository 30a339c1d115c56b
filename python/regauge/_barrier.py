"""The loss on the straight line between two models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy

from . import _core
from ._align import Alignment, Objective, align as align_models
from ._group import Array
from ._model import ModelOrPath, opened
from ._progress import Progress
from ._rewrite import act


@dataclass(frozen=True, repr=False)
class Barrier:
    """Losses on the straight line between two models."""

    places: Array  # from 0, which is A, to 1
    losses: Array  # by place, the mean over the batches
    by_batch: Array = field(default_factory=lambda: numpy.zeros((0, 0)))  # [batches, places]

    @property
    def excess(self) -> Array:
        """By place: how far the loss lies above the straight line between the ends' losses."""
        result: Array = _excess(self.places, self.losses)
        return result

    @property
    def height(self) -> float:
        """The largest excess."""
        return float(self.excess.max())

    @property
    def at(self) -> float:
        """Where the excess is largest."""
        return float(self.places[self.excess.argmax()])

    @property
    def error(self) -> float:
        """The standard error of the height, from the spread over batches; NaN with fewer than two."""
        count = len(self.by_batch)
        if count < 2:
            return float("nan")
        each = _excess(self.places, self.by_batch)[:, self.excess.argmax()]
        return float(each.std(ddof=1) / count**0.5)

    def __repr__(self) -> str:
        error = "" if numpy.isnan(self.error) else f" ± {self.error:.2g}"
        return f"<regauge.Barrier: {self.height:.4g}{error} at t = {self.at:.3g}>"

    def _repr_html_(self) -> str:
        """The curve, as a small picture that needs no plotting library."""
        low, high = float(self.losses.min()), float(self.losses.max())
        scale = 100 / (high - low) if high > low else 0.0
        points = " ".join(
            f"{20 + 260 * t:.1f},{110 - scale * (loss - low):.1f}"
            for t, loss in zip(self.places, self.losses)
        )
        return (
            f"<p>{repr(self)[1:-1]}</p>"
            '<svg width="300" height="130" role="img" aria-label="loss on the line from A to B">'
            f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="2"/>'
            '<text x="14" y="127" fill="currentColor" font-size="11">A</text>'
            '<text x="276" y="127" fill="currentColor" font-size="11">B</text></svg>'
        )


def _excess(places: Array, losses: Array) -> Array:
    result: Array = losses - (1 - places) * losses[..., :1] - places * losses[..., -1:]
    return result


def barrier(
    a: ModelOrPath,
    b: ModelOrPath,
    objective: Objective,
    *,
    points: int = 25,
    batches: int = 1,
    align: Optional[Union[Alignment, str]] = None,
    progress: Progress | None = None,
) -> Barrier:
    """The loss at `points` places of the line from A to B, the mean over `batches`.

    With `align`, B is brought into A's coordinates first: by an Alignment that was found, or by one
    of the methods of `align` ("learned" lowers `objective` itself).
    """
    if points < 2 or batches < 1:
        raise _core.UsageError("[barrier] a line has at least 2 points, and is measured on a batch")
    a, b = opened(a), opened(b)
    if isinstance(align, str):
        learns = {"objective": objective} if align == "learned" else {}
        align = align_models(a, b, method=align, progress=progress, **learns)  # type: ignore[arg-type]
    if align is not None:
        b = act(b, align.a_from_b)
    from_a, from_b = dict(a.parameters), dict(b.parameters)
    if {n: v.shape for n, v in from_a.items()} != {n: v.shape for n, v in from_b.items()}:
        raise _core.UsageError("[barrier] the models have different tensors")
    places = numpy.linspace(0, 1, points)
    losses = numpy.zeros((batches, points))
    for batch in range(batches):
        for i, t in enumerate(places.astype(numpy.float32)):
            between = {name: (1 - t) * from_a[name] + t * from_b[name] for name in from_a}
            losses[batch, i] = _loss(objective, between)
            if progress is not None:
                progress("measuring the line", batch * points + i + 1, batches * points)
        if batch + 1 < batches:
            getattr(objective, "advance")()
    return Barrier(places, losses.mean(axis=0), losses)


def _loss(objective: Any, parameters: Mapping[str, Array]) -> float:
    alone = getattr(objective, "loss", None)
    return float(alone(parameters) if alone is not None else objective(parameters)[0])


def plot(lines: Union[Barrier, Mapping[str, Barrier]], axes: Any = None) -> Any:
    """Draws lines by name, on a matplotlib Axes or on one of its own, and returns the Axes.

    Needs matplotlib: pip install "regauge[plot]".
    """
    if axes is None:
        try:
            import matplotlib.pyplot as pyplot
        except ImportError as missing:
            raise _core.UsageError('[plot] needs matplotlib: pip install "regauge[plot]"') from missing
        axes = pyplot.figure().add_subplot()
    named = {"": lines} if isinstance(lines, Barrier) else lines
    for name, line in named.items():
        (curve,) = axes.plot(line.places, line.losses, label=name or None)
        if len(line.by_batch) > 1:
            error = _excess(line.places, line.by_batch).std(axis=0, ddof=1) / len(line.by_batch) ** 0.5
            axes.fill_between(
                line.places, line.losses - error, line.losses + error, color=curve.get_color(), alpha=0.2
            )
    axes.set_xlabel("from A (0) to B (1)")
    axes.set_ylabel("loss")
    if any(named):
        axes.legend()
    return axes
