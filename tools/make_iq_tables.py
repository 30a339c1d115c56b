#!/usr/bin/env python3
"""Writes src/io/iq_tables.h: the codebooks of GGUF's IQ types, as the gguf package (0.19.0) has them.

A codeword of 8 numbers is packed with 2 bits each, one of 4 numbers with 3 bits each, the first number lowest. What a
digit stands for is in src/io/quants_iq.cpp."""

import pathlib

import gguf
import numpy

GRIDS = [("kIq1", "IQ1_S", 2), ("kIq2Xxs", "IQ2_XXS", 2), ("kIq2Xs", "IQ2_XS", 2), ("kIq2S", "IQ2_S", 2),
         ("kIq3Xxs", "IQ3_XXS", 3), ("kIq3S", "IQ3_S", 3)]  # fmt: skip


def packed(kind, bits):
    quant = getattr(gguf.quants, kind)
    quant.init_grid()
    words = quant.grid.reshape(quant.grid_shape)
    digits = numpy.searchsorted(quant.grid_map, words)
    assert (numpy.array(quant.grid_map)[digits] == words).all()
    return (digits << bits * numpy.arange(words.shape[1])).sum(axis=1)


def main():
    lines = [
        "#pragma once", "", "#include <array>", "#include <cstdint>", "", "namespace regauge::io {", "",
        "// The codebooks of GGUF's IQ types, made by tools/make_iq_tables.py: 8 digits of 2 bits (kIq1, kIq2*) or",
        "// 4 digits of 3 bits (kIq3*) in each word, the first one lowest.",
        "// clang-format off",
    ]  # fmt: skip
    for name, kind, bits in GRIDS:
        words = [f"0x{word:x}," for word in packed(kind, bits)]
        lines.append(f"inline constexpr std::array<std::uint16_t, {len(words)}> {name} = {{")
        line = ""
        for word in words:
            if len(line) + len(word) > 98:
                lines.append(line)
                line = ""
            line += word
        lines += [line.rstrip(","), "};"]
    lines += ["// clang-format on", "", "}  // namespace regauge::io", ""]
    path = pathlib.Path(__file__).resolve().parent.parent / "src" / "io" / "iq_tables.h"
    path.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
