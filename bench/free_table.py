#!/usr/bin/env python3
"""A model of the family `regauge` with sinusoidal positions, written as one with a table that could have been learned.

    free_table.py MODEL OUTPUT

It computes the same, but its stream may turn: the table's numbers turn with it. The line between two models is the same,
too, as long as neither moves. So what aligns better afterwards was held back by the pin (docs/theory.md, section 2).
"""

import json
import pathlib
import sys

import numpy
from safetensors.numpy import load_file, save_file


def sinusoids(positions: int, width: int) -> numpy.ndarray:
    """Columns 2i and 2i+1 of row t are the sine and the cosine of t / 10000^(2i / width)."""
    column = numpy.arange(width)
    angle = numpy.arange(positions)[:, None] / 10000.0 ** ((column - column % 2) / width)
    return numpy.where(column % 2 == 0, numpy.sin(angle), numpy.cos(angle))


def main() -> None:
    model, output = map(pathlib.Path, sys.argv[1:])
    config = json.loads((model / "config.json").read_text())
    if config["positions"] != "sinusoidal":
        sys.exit(f"{model} has {config['positions']} positions, not sinusoidal ones")
    tensors = load_file(model / "model.safetensors")
    tensors["embed.positions"] = sinusoids(config["max_positions"], config["width"]).astype("float32")
    output.mkdir()
    (output / "config.json").write_text(json.dumps(config | {"positions": "learned"}))
    save_file(tensors, output / "model.safetensors")


if __name__ == "__main__":
    main()
