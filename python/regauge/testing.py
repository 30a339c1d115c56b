"""For test suites: `assert_same_function(converted, original)`.

With pytest, the fixture `regauge` has the same function (the package pytest_regauge).
"""

from __future__ import annotations

from ._diff import Diff, diff
from ._model import Model, ModelOrPath, opened


def failure_message(a: Model, b: Model, found: Diff) -> str:
    """What to print where B should be A and is not."""
    return f"{b!r} against {a!r}:\n{found}"


def assert_same_function(converted: ModelOrPath, original: ModelOrPath) -> Diff:
    """Raises AssertionError with the diagnosis unless the two compute the same function."""
    a, b = opened(original), opened(converted)
    found = diff(a, b)
    if not found.same:
        raise AssertionError(failure_message(a, b, found))
    return found
