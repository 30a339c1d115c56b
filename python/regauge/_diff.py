"""Are two models the same function?"""

from __future__ import annotations

import html
import warnings
from concurrent.futures import Executor

from . import _core
from ._core import Cause, Diagnosis, TensorResidual, Verification
from ._group import Element
from ._model import Model, ModelOrPath, Path, opened
from ._parts import diff_in_parts, on_disk
from ._progress import Progress

__all__ = ["Cause", "Diagnosis", "Diff", "TensorResidual", "Verification", "diff", "verify"]


class Diff:
    """What was found about A and B. Printed, it says what `regauge diff` says."""

    def __init__(self, core: _core.Comparison) -> None:
        self._core = core

    @property
    def verdict(self) -> str:
        """same; perturbed (the same model, modified); different; or undecided."""
        return self._core.verdict

    @property
    def statement(self) -> str:
        """identical; same-numbers; other-coordinates; not-the-same; or undecided."""
        return self._core.statement

    @property
    def same(self) -> bool:
        """A and B compute the same function."""
        return self.verdict == "same"

    def __bool__(self) -> bool:
        warnings.warn(
            "a Diff is true where the models are the same, which surprises; use found.same",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.same

    @property
    def reasons(self) -> list[str]:
        return self._core.reasons

    @property
    def declarations(self) -> list[str]:
        """What the files declare differently without a difference of function."""
        return self._core.declarations

    @property
    def not_compared(self) -> list[str]:
        """Files beside the weights that nobody looked at: the tokenizer, the chat template."""
        return self._core.not_compared

    @property
    def movements(self) -> list[tuple[str, str]]:
        """What carries B to A, and where."""
        return self._core.movements

    @property
    def residuals(self) -> list[TensorResidual]:
        """Of every tensor; empty if the architectures differ."""
        return self._core.residuals

    @property
    def diagnosis(self) -> Diagnosis:
        """Why B is not A: the known mistakes that explain it. Empty if they are the same."""
        return self._core.diagnosis

    @property
    def a_from_b(self) -> Element:
        """The best element that was found."""
        return Element(self._core.a_from_b)

    def save_certificate(self, path: Path, *, in_toto: Path | None = None, progress: Progress | None = None) -> None:
        """Writes what `verify` needs; the two must be the same function, and files. Besides, as a statement to sign, `in_toto`."""
        self._core.save_certificate(path, in_toto, progress)

    def repair(self, path: Path, *, progress: Progress | None = None) -> Model:
        """Writes B with the causes of the diagnosis undone, and opens it."""
        return Model(self._core.repair(path, progress))

    def save_page(self, path: Path) -> None:
        """Writes a page for people to this new .html file, as `regauge diff --html` does."""
        self._core.save_page(path)

    def worst(self, count: int = 8) -> list[TensorResidual]:
        return sorted(self.residuals, key=lambda r: -r.excess)[:count]

    def __str__(self) -> str:
        lines = [self._core.sentence, *self.declarations, *self.reasons, self._core.grounds]
        lines += self.not_compared
        lines += [f"{what} ({where})" for what, where in self.movements]
        if not self.same:
            lines += self._core.explanation
        for r in (r for r in self.worst() if not r.agrees):
            size = r.size or 1
            lines.append(
                f"{r.tensor:<34} off by {r.residual / size:.2g}, rounding {r.rounding / size:.2g}"
            )
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<regauge.Diff: {self}>"

    def _repr_html_(self) -> str:
        colour = {"same": "#1a7f37", "undecided": "#9a6700"}.get(self.verdict, "#cf222e")
        head, *rest = str(self).split("\n")
        return (
            f'<p><strong style="color:{colour}">{html.escape(head)}</strong></p>'
            f"<pre>{html.escape(chr(10).join(line.removeprefix('  ') for line in rest))}</pre>"
        )


def diff(
    a: ModelOrPath,
    b: ModelOrPath,
    *,
    progress: Progress | None = None,
    executor: Executor | None = None,
    parts: int | None = None,
    records: Path | None = None,
) -> Diff:
    """Are A and B the same function? A is taken as right where they differ.

    With an `executor` (any of concurrent.futures, or one that looks like it) its workers do the
    work in `parts` (as many as it has workers), each reading its share of both files; the answer
    is the same. `records`, a folder, keeps what they found, so that a run that was broken off goes
    on where it ended.
    """
    if executor is not None:
        return Diff(diff_in_parts(on_disk(a), on_disk(b), executor, parts, records, progress))
    return Diff(_core.diff(opened(a)._core, opened(b)._core, progress))


def verify(
    a: ModelOrPath, b: ModelOrPath, certificate: Path, *, progress: Progress | None = None
) -> Verification:
    """Applies the element of a certificate, or of the one that an in-toto statement names, to B and compares with A; true if it holds."""
    return _core.verify(opened(a)._core, opened(b)._core, certificate, progress)
