#!/usr/bin/env python3
"""How fast is our assignment beside scipy, lap and lapx on the same matrices?

    assignment.py --program build/bench/bench/numerics_bench --lap FOLDER --lapx FOLDER [--sizes 1000 2000 4000]

lap and lapx share a module name, so each sits in a folder of its own: `pip install --no-deps --target FOLDER lap`.
Needs numpy and scipy. Every solver gets the matrix in memory in the type and sign it likes best and runs in a process
of its own, one after the other, `--repeat` times; the fastest run counts. Prints one JSON record; fails if two solvers disagree
on the value.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy

SOLVERS = {"scipy": "scipy", "lap.lapjv": "lap", "lapx.lapjv": "lapx", "lapx.lapjvr": "lapx",
           "lapx.lapjvc": "lapx"}


def make_matrix(kind, n, path):
    """FFN-like: rows are the neurons of A, columns those of B, of width n / 3 with norms that differ."""
    generator = numpy.random.default_rng(1)

    def normal():
        norms = numpy.exp(0.2 * generator.standard_normal((n, 1), dtype=numpy.float32))
        return norms * generator.standard_normal((n, n // 3), dtype=numpy.float32)

    if kind == "uniform":
        generator.random((n, n), dtype=numpy.float32).tofile(path)
        return
    a, b = normal(), normal()
    kinship = {"independent": 0, "faint copy": 0.1, "noisy copy": 2}[kind]
    (a @ (kinship * a[generator.permutation(n)] + b).T).tofile(path)


def solve(name, path, repeat):
    """In a process of its own: seconds, processor seconds and value of the best of `repeat` runs."""
    count = os.path.getsize(path) // 4
    n = round(count**0.5)
    similarity = numpy.fromfile(path, dtype=numpy.float32).reshape(n, n)
    if name == "scipy":
        from scipy.optimize import linear_sum_assignment

        matrix = similarity
        call = lambda: linear_sum_assignment(matrix, maximize=True)[1]
    else:
        import lap

        matrix = -similarity
        function = getattr(lap, name.split(".")[1])
        if name.endswith("lapjv"):
            call = lambda: function(matrix, return_cost=False)[0]
        else:
            call = lambda: function(matrix, return_cost=False)[1]
    runs = []
    for _ in range(repeat):
        begin, processor = time.perf_counter(), time.process_time()
        columns = call()
        runs.append((time.perf_counter() - begin, time.process_time() - processor))
    value = similarity[numpy.arange(n), columns].sum(dtype=numpy.float64)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds, processor = (min(column) for column in zip(*runs))
    print(json.dumps({"seconds": seconds, "processor seconds": processor, "value": value,
                      "peak bytes": peak}))


def run_peer(name, path, options):
    folder = {"lap": options.lap, "lapx": options.lapx}.get(SOLVERS[name])
    environment = os.environ | ({"PYTHONPATH": folder} if folder else {})
    command = [sys.executable, __file__, "--solve", name, path, "--repeat", str(options.repeat)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def run_ours(path, options):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        command = [options.program, "--benchmark_filter=^file", f"--benchmark_out={out}",
                   "--benchmark_out_format=json", f"--benchmark_repetitions={options.repeat}"]
        subprocess.run(command, env=os.environ | {"REGAUGE_BENCH_MATRIX": str(path)},
                       stdout=subprocess.DEVNULL, check=True)
        runs = [run for run in json.loads(out.read_text())["benchmarks"]
                if run["run_type"] == "iteration"]
    record = {}
    for name, mark in {"regauge": "1/gap:0/", "regauge, gap 1e-3": "1/gap:1000/"}.items():
        mine = [run for run in runs if mark in run["name"]]
        record[name] = {
            "seconds": min(run["real_time"] for run in mine) / 1e3,
            "processor seconds": min(run["cpu_time"] for run in mine) / 1e3,
            "value": mine[0]["value"],
            "gap": mine[0]["gap"],
            "violation": mine[0]["violation"],
        }
    return record


def compare(kind, n, path, options):
    make_matrix(kind, n, path)
    record = run_ours(path, options)
    ours = record["regauge"]
    for name in options.peers:
        record[name] = run_peer(name, path, options)
        record[name]["times ours"] = round(record[name]["seconds"] / ours["seconds"], 2)
        record[name]["times ours, processor"] = round(
            record[name]["processor seconds"] / ours["processor seconds"], 2)
        if abs(record[name]["value"] - ours["value"]) > 1e-6 * abs(ours["value"]):
            sys.exit(f"{kind} {n}: {name} has {record[name]['value']}, regauge {ours['value']}")
    return {"kind": kind, "n": n, "load": os.getloadavg()[0], **record}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/bench/bench/numerics_bench")
    parser.add_argument("--lap", help="folder that holds lap")
    parser.add_argument("--lapx", help="folder that holds lapx")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    parser.add_argument("--kinds", nargs="+",
                        default=["independent", "faint copy", "noisy copy", "uniform"])
    parser.add_argument("--peers", nargs="*", default=list(SOLVERS), choices=list(SOLVERS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--solve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.solve:
        solve(*options.solve, options.repeat)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "matrix"
        records = [compare(kind, n, path, options)
                   for n in options.sizes for kind in options.kinds]
    print(json.dumps({"processors": os.cpu_count(), "runs": records}, indent=2))


if __name__ == "__main__":
    main()
