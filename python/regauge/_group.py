"""Groups and their elements."""

from __future__ import annotations

import fnmatch
import html
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy

from . import _core
from ._core import Factor, Space, UsageError

Array = numpy.ndarray[Any, numpy.dtype[Any]]


class Element:
    """A member of a symmetry group; `second * first` acts as first, then second.

    The element that carries B into A's coordinates is named a_from_b, so that
    a_from_c = a_from_b * b_from_c reads itself.
    """

    def __init__(self, core: _core.Element) -> None:
        self._core = core

    @property
    def symmetry(self) -> Symmetry:
        return Symmetry(self._core.symmetry)

    @property
    def is_identity(self) -> bool:
        return self._core.is_identity

    @property
    def maps(self) -> dict[str, tuple[list[int], Array]]:
        """By space: where each block goes (empty: it stays), and the blocks, stacked (empty:
        identities)."""
        return self._core.maps

    @property
    def shifts(self) -> dict[str, Array]:
        return self._core.shifts

    def inverse(self) -> Element:
        return Element(self._core.inverse())

    def __mul__(self, first: Element) -> Element:
        return Element(self._core * first._core)

    def distance(self, other: Element) -> float:
        """The largest difference of any number of the two."""
        return self._core.distance(other._core)

    def save(self, path: str | os.PathLike[str]) -> None:
        """A safetensors file that `regauge act --element` applies."""
        self._core.save(path)

    def __repr__(self) -> str:
        if self.is_identity:
            return "<regauge.Element: identity>"
        return f"<regauge.Element: {len(self.maps)} basis changes, {len(self.shifts)} shifts>"


class Symmetry:
    """The group of parameter changes that leave the function of an architecture alone."""

    def __init__(self, core: _core.Symmetry) -> None:
        self._core = core

    @property
    def dimension(self) -> int:
        return self._core.dimension

    @property
    def log2_components(self) -> float:
        return self._core.log2_components

    @property
    def factors(self) -> list[Factor]:
        """Those that recur in every layer as one."""
        return self._core.factors

    def identity(self) -> Element:
        return Element(self._core.identity())

    def random_element(self, seed: int, only: Iterable[str] | None = None) -> Element:
        """A generic member; `only` names categories: residual, scales, norms, heads, latents,
        qk, vo, ffn, shifts."""
        return Element(self._core.random_element(seed, None if only is None else list(only)))

    @property
    def spaces(self) -> list[Space]:
        """What an element can move, by name: `count` blocks of `width` coordinates each."""
        return self._core.spaces

    def element(self, maps: Mapping[str, Any], shifts: Mapping[str, Any] | None = None) -> Element:
        """The member with these maps, one for each space by name; a `*` stands for every layer.

        A space of `count` blocks of `width` coordinates takes one matrix [width, width] for all
        blocks or [count, width, width]; where the width is 1, numbers [count]; integers [count] are
        a permutation (block i goes to place permutation[i]), and a pair of both is both. Vectors
        are rows, x becomes x M: the matrix W of a linear layer that reads x becomes W M^-T, and of
        one that writes x, M^T W. `shifts` are vectors by name. What is not a member is refused,
        with the reason.
        """
        chosen: dict[str, tuple[list[int], Array]] = {}
        for pattern, value in maps.items():
            found = [space for space in self.spaces if fnmatch.fnmatchcase(space.name, pattern)]
            if not found:
                names = ", ".join(space.name for space in self.spaces[:8])
                raise UsageError(f"[element] the group has no space {pattern}; its spaces are {names}, ...")
            for space in found:
                chosen[space.name] = _block_map(space, value)
        vectors = {name: numpy.asarray(value, float).ravel().tolist() for name, value in (shifts or {}).items()}
        return Element(self._core.element(chosen, vectors))

    def load_element(self, path: str | os.PathLike[str]) -> Element:
        return Element(self._core.load_element(path))

    def __repr__(self) -> str:
        head = ("factor", "group", "times", "dimension")
        rows = [head, *((f.name, f.group, f.times, f.dimension) for f in self.factors)]
        lines = [f"{name:<30} {group:<26} {times:>6} {size:>12}" for name, group, times, size in rows]
        return "\n".join([*lines, self._total()])

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(f.name)}</td><td>{html.escape(f.group)}</td>"
            f"<td>{f.times}</td><td>{f.dimension}</td></tr>"
            for f in self.factors
        )
        return (
            "<table><thead><tr><th>factor</th><th>group</th><th>times</th><th>dimension</th></tr>"
            f"</thead><tbody>{cells}</tbody></table><p>{self._total()}</p>"
        )

    def _total(self) -> str:
        return f"dimension {self.dimension}, 2^{self.log2_components:.0f} components"


def _block_map(space: Space, value: Any) -> tuple[list[int], Array]:
    """A permutation (empty: none) and stacked blocks [count * width, width] (no rows: none)."""
    places, blocks = value if isinstance(value, tuple) else (None, value)
    if blocks is not None:
        blocks = numpy.asarray(blocks.detach().cpu() if hasattr(blocks, "detach") else blocks)
        if places is None and blocks.ndim == 1 and numpy.issubdtype(blocks.dtype, numpy.integer):
            places, blocks = blocks, None
    permutation = [] if places is None else [int(place) for place in places]
    if places is not None and sorted(permutation) != list(range(space.count)):
        raise UsageError(f"[element] {space.name}: not a permutation of its {space.count} blocks, from 0 on")
    if blocks is None:
        return permutation, numpy.zeros((0, space.width))
    stacked = (space.count, space.width, space.width)
    if blocks.shape == stacked[1:]:
        blocks = numpy.broadcast_to(blocks, stacked)
    elif space.width == 1 and blocks.shape == stacked[:1]:
        blocks = blocks.reshape(stacked)
    elif blocks.shape not in (stacked, (space.count * space.width, space.width)):
        raise UsageError(
            f"[element] {space.name} has {space.count} blocks of {space.width} coordinates, and takes "
            f"[{space.width}, {space.width}] or [{space.count}, {space.width}, {space.width}], not {list(blocks.shape)}"
        )
    return permutation, numpy.ascontiguousarray(blocks.reshape(-1, space.width), numpy.float64)


def symmetry_of(architecture: Mapping[str, Any]) -> Symmetry:
    """The group of an architecture, given by the fields of regauge/arch/architecture.h."""
    core = _core.Architecture.from_json(json.dumps(dict(architecture)))
    return Symmetry(_core.symmetry_of(core))
