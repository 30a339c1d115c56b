"""The records of a study as a table."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from . import _core
from ._model import Path


def records(folder: Path) -> list[dict[str, Any]]:
    """One dict for each measurement of a study, ready for `pandas.DataFrame(regauge.records(folder))`.

    Reads `folder/records/*.jsonl`, or `folder/*.jsonl`. What is nested in a record stands under its
    path (`cell.data`, `architecture.width`); the two seeds are `seed_a` and `seed_b`; curves and
    planes (`points`, `plane`, `residuals`) stay lists and dicts.
    """
    root = pathlib.Path(folder)
    files = sorted((root / "records").glob("*.jsonl")) or sorted(root.glob("*.jsonl"))
    if not files:
        raise _core.FileError(f"[records] {root} has no records/*.jsonl and no *.jsonl")
    rows = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = json.loads(line)
                rows.append(_row(record))
            except (ValueError, AttributeError, KeyError, TypeError) as error:
                raise _core.CorruptFile(f"{file}:{number}: not a record of a study") from error
    return rows


_WHOLE = ("points", "plane", "residuals", "heads", "imbalance")


def _row(record: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in record.items():
        if key == "seeds":
            row["seed_a"], row["seed_b"] = value
        elif isinstance(value, dict) and key not in _WHOLE:
            row |= {f"{key}.{name}": part for name, part in value.items()}
        else:
            row[key] = value
    row["barrier"]  # what makes it a measurement
    return row
