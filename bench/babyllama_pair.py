#!/usr/bin/env python3
"""The two babyllamas with one vocabulary: writes the second with the token rows of the first.

    babyllama_pair.py FOLDER OUT.bin

FOLDER holds babyllama_tok361.bin (and babyllama_tok105.bin, which needs no change). Its tokens are
three specials, 256 bytes that the text never uses, and the 102 characters that the first model has as
tokens 3 to 104. Both are llama2.c files of version 0 with tied embeddings: seven int32, the token
table, all else.
"""

import pathlib
import struct
import sys

SPECIALS, BYTES = 3, 256


def main(folder: str, out: str) -> None:
    data = (pathlib.Path(folder) / "babyllama_tok361.bin").read_bytes()
    header = list(struct.unpack_from("<7i", data))
    dim, vocabulary = header[0], header[5]
    if vocabulary <= SPECIALS + BYTES:
        sys.exit(f"{folder}: a vocabulary of {vocabulary} is not three specials, 256 bytes and characters")
    row, begin = 4 * dim, 28
    rows = [data[begin + i * row : begin + (i + 1) * row] for i in range(vocabulary)]
    kept = rows[:SPECIALS] + rows[SPECIALS + BYTES :]
    header[5] = len(kept)
    rest = data[begin + vocabulary * row :]
    pathlib.Path(out).write_bytes(struct.pack("<7i", *header) + b"".join(kept) + rest)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
