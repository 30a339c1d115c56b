#!/usr/bin/env python3
"""What does it cost to read a local file by requests instead of mapped?

    reading.py [--program regauge] [--layers 10] [--width 2048] [--rounds 5]

Makes a llama checkpoint of random BF16 numbers (1 GB unless told otherwise) and a copy of it in a temporary folder, reads both once, so that they are
in the page cache, and then times `diff` of the two and `fold` with --io mmap and --io read in turn. Prints one JSON
record: seconds on the clock and of the processor, the least of all rounds, and the ratios. Needs numpy.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time

from streaming import make_checkpoint


def timed(command):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": time.monotonic() - begin, "processor": cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the temporary folder is made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        width = options.width
        size = make_checkpoint(folder / "a", 1, options.layers, width, 11 * width // 4, 8000, 16, 4)
        shutil.copytree(folder / "a", folder / "b")
        commands = {
            "diff": ["diff", folder / "a", folder / "b"],
            "fold": ["fold", folder / "a", "-o", folder / "out"],
        }
        record = {"bytes": size, "rounds": options.rounds}
        for verb, command in commands.items():
            least = {}
            for _ in range(options.rounds):
                for way in ("mmap", "read"):
                    found = timed([options.program, "--io", way, *map(str, command)])
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    for key, value in found.items():
                        least[f"{way} {key}"] = min(value, least.get(f"{way} {key}", value))
            least["ratio"] = least["read seconds"] / least["mmap seconds"]
            least["processor ratio"] = least["read processor"] / least["mmap processor"]
            record[verb] = {key: round(value, 3) for key, value in least.items()}
        print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
