#!/usr/bin/env python3
"""Is a program slower than an older one? Processor seconds of both, taken in turn on one thread with warm files.

    versions.py --before OLD/regauge --now build/release/regauge [--folder F] [--rounds 3] [--small]

`inspect`, `act`, `diff` of identical files, `diff` of a moved copy and `align` of two models, on Llamas of random BF16 numbers: D 1024, 8
layers (--small: D 256, 2 layers). `identity` is also taken beside the bare reading of both files, `cmp`. Prints one JSON record.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from streaming import make_checkpoint, run_measured

SHAPE = {"layers": 8, "width": 1024, "ffn": 2816, "vocabulary": 8192, "heads": 16, "kv_heads": 8}
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
    shape = SMALL if options.small else SHAPE
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        a, copy, moved, other, out = (work / name for name in ("a", "copy", "moved", "other", "out"))
        size = make_checkpoint(a, 1, **shape)
        make_checkpoint(other, 1, **shape, seed=1)
        shutil.copytree(a, copy)
        subprocess.run([programs["before"], "act", a, "--random", "1", "-o", moved], check=True, stdout=subprocess.DEVNULL)
        tasks = {
            "inspect": ["inspect", a],
            "act": ["act", a, "--random", "1", "-o", out],
            "diff, identical": ["diff", a, copy],
            "diff, moved": ["diff", a, moved],
            "align, moved": ["align", a, moved, "--method", "weights", "-o", out],
            "align, another": ["align", a, other, "--method", "weights", "-o", out],
        }
        files = [next(path.glob("*.safetensors")) for path in (a, copy)]
        record = {"load before": os.getloadavg()[0], "bytes of a model": size}
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
