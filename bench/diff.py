#!/usr/bin/env python3
"""How fast is `regauge diff`? Ratios of processor seconds, measured in one run on one thread with warm files.

    diff.py --build build/bench [--folder F] [--skip-1b] [--rounds 3]

- identity: two bf16 checkpoints of >= 2 GB that hold the same numbers, against the bound (two_maps: a vectorised loop over both
  maps) and against safetensors.safe_open + torch.dot in float32;
- recovery: a random element of the whole group on a llama with D 1024, against loading both into transformers, comparing, and
  one forward pass; and on a 1B shape, by phase.

Makes its models in a temporary folder (10 GB, 5 of them without the 1B shape) and prints one JSON record.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from streaming import make_checkpoint, run_measured

IDENTITY = {"layers": 22, "width": 2048, "ffn": 5632, "vocabulary": 32000, "heads": 16, "kv_heads": 4}
SMALL = {"layers": 8, "width": 1024, "ffn": 2816, "vocabulary": 8192, "heads": 16, "kv_heads": 8}
ONE_BILLION = {"layers": 16, "width": 2048, "ffn": 8192, "vocabulary": 32000, "heads": 32, "kv_heads": 8}

BY_TORCH = """
import sys, torch
from safetensors import safe_open
torch.set_num_threads(1)
worst = 0.0
with safe_open(sys.argv[1], "pt") as a, safe_open(sys.argv[2], "pt") as b:
    for name in a.keys():
        x, y = (f.get_tensor(name).flatten().to(torch.float32) for f in (a, b))
        xx, xy, yy = torch.dot(x, x), torch.dot(x, y), torch.dot(y, y)
        worst = max(worst, float(1 - xy / torch.sqrt(xx * yy)))
print(worst)
"""

BY_TRANSFORMERS = """
import sys, torch
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
a, b = (AutoModelForCausalLM.from_pretrained(p, dtype=torch.bfloat16) for p in sys.argv[1:])
same = all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values()))
tokens = torch.arange(64)[None]
with torch.no_grad():
    print(same, float((a(tokens).logits - b(tokens).logits).abs().max()))
"""


def least(rounds, command):
    """The smallest processor seconds of some runs, and the largest memory."""
    runs = [run_measured(command) for _ in range(rounds)]
    return min(run[1] for run in runs), max(run[2] for run in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True, help="of the preset `bench`")
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-1b", action="store_true")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    regauge = options.build / "regauge"
    two_maps, phases = (options.build / "bench" / name for name in ("two_maps", "diff_phases"))
    rounds = options.rounds
    record = {"load before": os.getloadavg()[0]}

    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        a, b = work / "a", work / "b"
        size = make_checkpoint(a, 1, **IDENTITY)
        shutil.copytree(a, b)
        files = [next(path.glob("*.safetensors")) for path in (a, b)]
        bound, _ = least(rounds, [two_maps, *files])
        plain, memory = least(rounds, [regauge, "diff", a, b])
        torch, _ = least(1, [sys.executable, "-c", BY_TORCH, *files])
        record["identity"] = {
            "bytes of each": size,
            "bound": bound,
            "regauge diff": plain,
            "safe_open + torch.dot": torch,
            "times the bound": plain / bound,
            "torch over regauge": torch / plain,
            "peak bytes": memory,
        }
        for path in (a, b):
            shutil.rmtree(path)

        shapes = {"recovery": SMALL} | ({} if options.skip_1b else {"recovery, 1B": ONE_BILLION})
        for name, shape in shapes.items():
            make_checkpoint(a, 1, **shape)
            subprocess.run([regauge, "act", a, "--random", "1", "-o", b], check=True, stdout=subprocess.DEVNULL)
            seconds, memory = least(rounds if name == "recovery" else 1, [regauge, "diff", a, b])
            record[name] = {"regauge diff": seconds, "peak bytes": memory}
            output = subprocess.run([phases, a, b], check=True, capture_output=True).stdout
            record[name]["phases"] = json.loads(output)
            if name == "recovery":
                by_hand, _ = least(1, [sys.executable, "-c", BY_TRANSFORMERS, a, b])
                record[name]["transformers, load, compare and one pass"] = by_hand
            for path in (a, b):
                shutil.rmtree(path)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
