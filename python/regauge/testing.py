"""For test suites: `assert_same_function(converted, original)`."""

from __future__ import annotations

import os
from typing import Union

from ._diff import Diff, diff
from ._model import Model, open

ModelOrPath = Union[Model, str, "os.PathLike[str]"]


def assert_same_function(converted: ModelOrPath, original: ModelOrPath) -> Diff:
    """Raises AssertionError with the diagnosis unless the two compute the same."""
    a, b = (m if isinstance(m, Model) else open(m) for m in (original, converted))
    found = diff(a, b)
    if not found.same:
        raise AssertionError(f"{b!r} against {a!r}:\n{found}")
    return found
