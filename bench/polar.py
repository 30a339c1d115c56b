#!/usr/bin/env python3
"""How fast are the polar factor and the rotary fit beside LAPACK's SVD and scipy's Brent?

    polar.py --program build/bench/bench/numerics_bench

Needs numpy and scipy; one thread. Prints one line for each size: processor seconds of both, and their ratio.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import subprocess
import time

import numpy
import scipy.linalg
import scipy.optimize


def ours(program):
    """Processor seconds by benchmark."""
    done = subprocess.run(
        [program, "--benchmark_filter=^(polar|rotary_pairs)", "--benchmark_format=json"], stdout=subprocess.PIPE, check=True
    )
    return {run["name"]: run["cpu_time"] / 1e3 for run in json.loads(done.stdout)["benchmarks"]}


def seconds(call, repeat=3):
    best = float("inf")
    for _ in range(repeat):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def by_svd(matrix):
    left, _, right = scipy.linalg.svd(matrix, lapack_driver="gesdd")
    return left @ right


def brent(pairs):
    """As two_stage does: log r in [-3, 3], the best angle for each."""
    for a, b, s, t in pairs:
        scipy.optimize.minimize_scalar(
            lambda x: a * numpy.exp(2 * x) + b * numpy.exp(-2 * x) - 2 * abs(s * numpy.exp(x) + t * numpy.exp(-x)),
            bounds=(-3, 3), method="bounded",
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    times = ours(parser.parse_args().program)
    generator = numpy.random.default_rng(1)
    for name in [name for name in times if name.startswith("polar/")]:
        n = int(name.split("/")[1])
        matrix = generator.standard_normal((n, n))
        peer = seconds(lambda matrix=matrix: by_svd(matrix))
        print(f"polar factor {n:5}: {times[name]:.4f} s, LAPACK's gesdd {peer:.4f} s, {peer / times[name]:.2f} times")
    count = 500
    pairs = [(1 + generator.random(), 1 + generator.random(), *(generator.standard_normal((2, 2)) @ [1, 1j])) for _ in range(count)]
    peer = seconds(lambda: brent(pairs), 1) / count
    own = times["rotary_pairs"] / 10000
    print(f"rotary pair: {own * 1e6:.2f} us, scipy's bounded Brent {peer * 1e6:.1f} us, {peer / own:.0f} times")


if __name__ == "__main__":
    main()
