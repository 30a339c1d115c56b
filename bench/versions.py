#!/usr/bin/env python3
"""Is a program slower than an older one? Processor seconds of both, taken in turn on one thread with warm files.

    versions.py --before OLD/regauge --now build/release/regauge [--folder F] [--rounds 3] [--small]

`inspect`, `act`, `diff` of identical files and `diff` of a moved copy, on Llamas of random BF16 numbers, D 1024 and 8 layers (--small: D 256 and 2
layers, as for `align`, which takes minutes on the others). The bare reading of two files, `cmp`, stands beside them. Prints one JSON record.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from diff import SMALL as SHAPE
from streaming import make_checkpoint, run_measured

SMALL = {"layers": 2, "width": 256, "ffn": 704, "vocabulary": 2048, "heads": 8, "kv_heads": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--now", type=pathlib.Path, required=True)
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    programs = {"before": options.before.resolve(), "now": options.now.resolve()}
    record = {"load before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        a, copy, moved, out = (work / name for name in ("a", "copy", "moved", "out"))
        record["bytes of a model"] = make_checkpoint(a, 1, **(SMALL if options.small else SHAPE))
        shutil.copytree(a, copy)
        small, small_moved, other = (work / name for name in ("small", "small-moved", "other"))
        make_checkpoint(small, 1, **SMALL)
        make_checkpoint(other, 1, **SMALL, seed=1)
        for source, target in ((a, moved), (small, small_moved)):
            subprocess.run([programs["before"], "act", source, "--random", "1", "-o", target], check=True, stdout=subprocess.DEVNULL)
        tasks = {
            "inspect": ["inspect", a],
            "act": ["act", a, "--random", "1", "-o", out],
            "diff, identical": ["diff", a, copy],
            "diff, moved": ["diff", a, moved],
            "align, moved": ["align", small, small_moved, "--method", "weights", "-o", out],
            "align, another": ["align", small, other, "--method", "weights", "-o", out],
        }
        files = [next(path.glob("*.safetensors")) for path in (a, copy)]
        record["cmp"] = min(run_measured(["cmp", *files])[1] for _ in range(options.rounds))
        for task, words in tasks.items():
            seconds, memory = {name: [] for name in programs}, {}
            for _ in range(options.rounds):
                for name, program in programs.items():
                    _, used, memory[name], _ = run_measured([program, *words])
                    seconds[name].append(used)
                    shutil.rmtree(out, ignore_errors=True)
            least = {name: min(times) for name, times in seconds.items()}
            record[task] = least | {"ratio": least["now"] / least["before"], "peak bytes": memory}
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
