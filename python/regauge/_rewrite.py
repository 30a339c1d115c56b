"""Other numbers, the same function."""

from __future__ import annotations

import os
import warnings
from typing import Union

from . import _core
from ._group import Element, Symmetry
from ._model import Model
from ._progress import Progress

Path = Union[str, "os.PathLike[str]"]


def act(
    model: Model,
    element: Element,
    output: Path | None = None,
    *,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model moved by an element: written to `output` and opened there, or else in memory.

    An element of `model.untied_symmetry` unties the head. `dtype` (f32, f16, bf16) is that of
    matrices.
    """
    return Model(_core.act(model._core, element._core, output, dtype, progress))


def _symmetry(model: Model, untie: bool) -> Symmetry:
    return model.untied_symmetry if untie else model.symmetry


def fold(
    model: Model,
    output: Path | None = None,
    *,
    untie: bool = False,
    gains_only: bool = False,
    centre: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Moves the norms' gains and biases into the linear maps that read them."""
    group = _symmetry(model, untie)._core
    element = _core.fold_element(model._core, group, not gains_only, centre, progress)
    return Model(_core.act(model._core, element, output, None, progress))


def canon(
    model: Model,
    output: Path | None = None,
    *,
    untie: bool = False,
    progress: Progress | None = None,
) -> Model:
    """The one representative of all equal models: they come out the same, but for rounding.

    Warns where rounding decides, so that another copy may come out otherwise.
    """
    group = _symmetry(model, untie)._core
    element, limits = _core.canon_element(model._core, group, progress)
    for limit in limits:
        warnings.warn(f"another copy may come out otherwise here: {limit}", stacklevel=2)
    return Model(_core.act(model._core, element, output, None, progress))


def convert(
    model: Model,
    output: Path | None = None,
    *,
    to: str = "safetensors",
    family: str | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model in another format (safetensors, gguf, llama2c) or another family's layout.

    Without `output` it stays in memory, as safetensors.
    """
    return Model(_core.convert(model._core, to, family, output, dtype, progress))
