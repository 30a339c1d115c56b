"""The pytest plugin of regauge, found by pytest itself once the package is installed.

    def test_the_conversion(regauge):
        regauge.assert_same_function("converted", "original")

`pytest --regauge-report DIR` keeps a page about every comparison, named after its test. A package of its
own, so that a test suite without models does not load regauge.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from regauge import Diff
    from regauge._model import ModelOrPath


class Checker:
    """The fixture `regauge`."""

    def __init__(self, test: str, folder: pathlib.Path | None) -> None:
        self._test = test
        self._folder = folder
        self._pages = 0

    def assert_same_function(self, converted: ModelOrPath, original: ModelOrPath) -> Diff:
        """Fails with the diagnosis unless the two compute the same function."""
        __tracebackhide__ = True
        from regauge import Model, diff, open
        from regauge.testing import failure_message

        a, b = (m if isinstance(m, Model) else open(m) for m in (original, converted))
        found = diff(a, b)
        if self._folder is not None:
            found.save_page(self._new_page(self._folder))
        if not found.same:
            pytest.fail(failure_message(a, b, found), pytrace=False)
        return found

    def _new_page(self, folder: pathlib.Path) -> pathlib.Path:
        folder.mkdir(parents=True, exist_ok=True)
        self._pages += 1
        name = re.sub(r"[^\w.-]+", "-", self._test).strip("-")
        page = folder / f"{name}-{self._pages}.html"
        page.unlink(missing_ok=True)  # of an earlier run
        return page


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("regauge").addoption(
        "--regauge-report",
        metavar="DIR",
        type=pathlib.Path,
        help="keep a page about every comparison of models in this folder",
    )


@pytest.fixture
def regauge(request: pytest.FixtureRequest) -> Iterator[Checker]:
    """assert_same_function(converted, original): the diagnosis is the message of the failure."""
    yield Checker(request.node.nodeid, request.config.getoption("--regauge-report"))
