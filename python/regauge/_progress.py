"""How far long work is, told to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Called some ten times a second with what is done, how much of it, and of how much. An exception
#: that it raises ends the work and comes out of the call.
Progress = Callable[[str, int, int], None]


def tqdm_progress(**options: Any) -> Progress:
    """A progress bar for each piece of work; `options` are tqdm's."""
    from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]

    bar: Any = None

    def show(what: str, done: int, total: int) -> None:
        nonlocal bar
        if bar is None or bar.desc.removesuffix(": ") != what or done < bar.n:
            if bar is not None:
                bar.close()
            bar = tqdm(total=total, desc=what, unit_scale=True, **options)
        bar.update(done - bar.n)
        if done >= total:
            bar.close()

    return show
