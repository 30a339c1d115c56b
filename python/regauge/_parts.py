"""Work in parts, which any concurrent.futures.Executor may do."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, as_completed
from typing import Any

from . import _core
from ._model import Model, ModelOrPath, Path

#: How often a part is given to the executor before it is done in this process.
TRIES = 3


def on_disk(model: ModelOrPath) -> str:
    """Where the workers find a model."""
    if isinstance(model, Model):
        if not model.path or not pathlib.Path(model.path).exists():
            raise _core.UsageError(
                "a model in memory is not where workers could read it: regauge.convert(model, path)"
            )
        return model.path
    return os.fspath(model)


def make_part(a: str, b: str, part: int, of: int, made: list[str]) -> str:
    """The record of one part of a diff; runs wherever the executor likes."""
    return _core.diff_part(a, b, part, of, made)


def number_of_workers(executor: Executor) -> int:
    for name in ("num_workers", "_max_workers"):  # mpi4py's, and those of concurrent.futures
        if number := getattr(executor, name, None):
            return int(number)
    return os.cpu_count() or 1


def diff_in_parts(
    a: str, b: str, executor: Executor, parts: int | None, records: Path | None, progress: Any
) -> _core.Comparison:
    """Rounds of parts until nothing is left for them, then the join in this process."""
    of = parts or number_of_workers(executor)
    made: list[str] = []
    number = 0
    while True:
        found = _core.diff_joined(a, b, made, progress)
        if found is not None:
            return found
        number += 1
        before = list(made)

        def make(part: int, before: list[str] = before) -> Any:
            return make_part, a, b, part, of, before

        made += _round(executor, of, make, _Kept(records, number, of))


class _Kept:
    """Records of a round in a folder, so that whoever begins again need not make them again."""

    def __init__(self, folder: Path | None, number: int, of: int) -> None:
        self._folder = None if folder is None else pathlib.Path(folder)
        self._number, self._of = number, of
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def _path(self, part: int) -> pathlib.Path:
        assert self._folder is not None
        return self._folder / f"round-{self._number}-part-{part}-of-{self._of}.json"

    def find(self, part: int) -> str | None:
        if self._folder is None or not self._path(part).exists():
            return None
        return self._path(part).read_text()

    def keep(self, part: int, text: str) -> None:
        if self._folder is None:
            return
        path = self._path(part)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_text(text)
        partial.replace(path)


def _round(executor: Executor, of: int, make: Callable[[int], Any], kept: _Kept) -> list[str]:
    """The records of all parts. A part whose worker died is made again: by the executor, or here
    where that is broken."""
    texts: dict[int, str] = {}
    waiting = []
    for part in range(1, of + 1):
        text = kept.find(part)
        if text is None:
            waiting.append(part)
        else:
            texts[part] = text
    last: Exception | None = None
    for _ in range(TRIES):
        lost, futures = [], {}
        for part in waiting:
            try:
                futures[executor.submit(*make(part))] = part
            except RuntimeError as error:  # of a pool that broke, or was shut down
                lost.append(part)
                last = error
        for future in as_completed(futures):
            part = futures[future]
            try:
                texts[part] = future.result()
                kept.keep(part, texts[part])
            except (_core.Error, KeyboardInterrupt):
                for other in futures:
                    other.cancel()
                raise
            except Exception as error:  # a worker died; each executor says so in its own way
                lost.append(part)
                last = error
        waiting = lost
        if not waiting:
            break
    if waiting:
        warnings.warn(
            f"{len(waiting)} of {of} parts are made in this process, since the executor lost them: "
            f"{last!r}",
            RuntimeWarning,
            stacklevel=4,
        )
    for part in waiting:
        function, *arguments = make(part)
        texts[part] = function(*arguments)
        kept.keep(part, texts[part])
    return [texts[part] for part in range(1, of + 1)]

