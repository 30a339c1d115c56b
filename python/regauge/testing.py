"""For test suites: `assert_same_function(converted, original)`."""

from __future__ import annotations

from ._diff import Diff, diff
from ._model import ModelOrPath, opened


def assert_same_function(converted: ModelOrPath, original: ModelOrPath) -> Diff:
    """Raises AssertionError with the diagnosis unless the two compute the same."""
    a, b = opened(original), opened(converted)
    found = diff(a, b)
    if not found.same:
        raise AssertionError(f"{b!r} against {a!r}:\n{found}")
    return found
