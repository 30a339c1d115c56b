"""Other numbers, the same function."""

from __future__ import annotations

import os
import warnings

from . import _core
from ._group import Element, Symmetry
from ._model import Model, ModelOrPath, Path, opened
from ._progress import Progress


def act(
    model: ModelOrPath,
    element: Element | Path,
    output: Path | None = None,
    *,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model moved by an element or its file: written to `output` and opened there, or else in memory.

    An element of `model.untied_symmetry` unties the head. `dtype` (f32, f16, bf16) is that of
    matrices.
    """
    model = opened(model)
    if not isinstance(element, Element):
        element = model.symmetry.load_element(element)
    return Model(_core.act(model._core, element._core, output, dtype, progress))


def _symmetry(model: Model, untie: bool) -> Symmetry:
    return model.untied_symmetry if untie else model.symmetry


def fold(
    model: ModelOrPath,
    output: Path | None = None,
    *,
    untie: bool = False,
    gains_only: bool = False,
    centre: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Moves the norms' gains and biases into the linear maps that read them."""
    model = opened(model)
    group = _symmetry(model, untie)._core
    element = _core.fold_element(model._core, group, not gains_only, centre, progress)
    return Model(_core.act(model._core, element, output, None, progress))


def canon(
    model: ModelOrPath,
    output: Path | None = None,
    *,
    untie: bool = False,
    progress: Progress | None = None,
) -> Model:
    """The one representative of all equal models: they come out the same, but for rounding.

    Warns where rounding decides, so that another copy may come out otherwise.
    """
    model = opened(model)
    group = _symmetry(model, untie)._core
    element, limits = _core.canon_element(model._core, group, progress)
    for limit in limits:
        warnings.warn(f"another copy may come out otherwise here: {limit}", stacklevel=2)
    return Model(_core.act(model._core, element, output, None, progress))


def convert(
    model: ModelOrPath,
    output: Path | None = None,
    *,
    to: str | None = None,
    family: str | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model in another format (safetensors, gguf, llama2c) or another family's layout.

    `to` is by default what the name of `output` says: model.gguf, model.bin, or a folder. Without
    `output` it stays in memory, as safetensors.
    """
    if to is None:
        suffix = os.path.splitext(output or "")[1]
        to = {".gguf": "gguf", ".bin": "llama2c"}.get(suffix, "safetensors")
    return Model(_core.convert(opened(model)._core, to, family, output, dtype, progress))
