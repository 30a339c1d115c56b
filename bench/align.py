#!/usr/bin/env python3
"""How fast is `regauge align --method weights`? Processor seconds in one run on one thread, files warm.

    align.py --build build/bench [--folder F] [--billion] [--skip-plain]

Two llamas of D 1024, 8 layers, 16 heads, 8 kv heads, m 2816, V 8192, or of a 1B shape (16 layers, D 2048, 32 heads, 8 kv heads, m 8192,
V 32000); three passes from one start. Beside it: the bare products of that work by numpy's BLAS, and the same coordinate ascent
written plainly in numpy and in torch, both with scipy's assignment. These count plain distance, where regauge also follows
tokens through both models to weigh it, and they hold the models in memory. Prints one JSON record.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from streaming import make_checkpoint, run_measured

SMALL = {"layers": 8, "width": 1024, "ffn": 2816, "vocabulary": 8192, "heads": 16, "kv_heads": 8}
BILLION = {"layers": 16, "width": 2048, "ffn": 8192, "vocabulary": 32000, "heads": 32, "kv_heads": 8}
PASSES = 3

# Each product of the work, once, as many times as it is needed: by shape.
PRODUCTS = """
import json, sys, time, numpy
shape, passes = json.loads(sys.argv[1]), int(sys.argv[2])
d, m, v, n, tokens = shape["width"], shape["ffn"], shape["vocabulary"], shape["layers"], 1024
kv = d * shape["kv_heads"] // shape["heads"]
maps = [d, kv, kv, d, m, m, m]  # of a layer: the other side
counts = {}
def count(times, *shape):
    counts[shape] = counts.get(shape, 0) + times
for other in maps:
    count(n * passes, other, d, d)      # moved to where the stream stands
    count(n * passes, d, other, d)      # correlated in the stream
    count(2 * n, tokens, d, other)      # tokens through both models
for side in (d, kv, kv, d):
    count(n * passes, side, d, side)    # heads against heads
count(3 * n * passes, m, d, m)          # neurons against neurons
count(2 * passes, v, d, d)
count(2 * passes, d, v, d)
for other in (d, kv, kv, m, m):
    count(2 * n, other, d, d)           # readers as the models use them
count(4 * n, d, tokens, d)              # covariances
count(2, tokens, d, v)
total = 0.0
for (rows, inner, cols), times in counts.items():
    a, b = numpy.ones((rows, inner), numpy.float32), numpy.ones((inner, cols), numpy.float32)
    a @ b
    begin = time.process_time()
    a @ b
    total += times * (time.process_time() - begin)
print(total)
"""

# Coordinate ascent on <A, g B>: heads, neurons, stream. `xp` is numpy or torch.
PLAIN = """
import json, sys, time
import numpy, scipy.optimize
backend, a_path, b_path, shape, passes = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]), int(sys.argv[5])
import torch
torch.set_num_threads(1)
from safetensors.torch import load_file
import glob
def load(path):
    return {k: (v.float() if backend == "torch" else v.float().numpy()) for k, v in load_file(glob.glob(path + "/*.safetensors")[0]).items()}
xp = torch if backend == "torch" else numpy
svd = torch.linalg.svd if backend == "torch" else numpy.linalg.svd
host = (lambda x: x.numpy()) if backend == "torch" else (lambda x: x)
as_index = (lambda x: torch.as_tensor(x)) if backend == "torch" else (lambda x: x)
A, B = load(a_path), load(b_path)
heads, kv_heads, layers = shape["heads"], shape["kv_heads"], shape["layers"]
begin = time.process_time()
READ = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"]
WRITE = ["self_attn.o_proj", "mlp.down_proj"]
def fold(W):
    for l in range(layers):
        p = f"model.layers.{l}."
        for r in READ:
            W[p + r + ".weight"] = W[p + r + ".weight"] * W[p + ("input_layernorm" if "attn" in r else "post_attention_layernorm") + ".weight"][None, :]
        up, down = W[p + "mlp.up_proj.weight"], W[p + "mlp.down_proj.weight"]  # balance
        s = ((down ** 2).sum(0) ** 0.5 / (up ** 2).sum(1) ** 0.5) ** 0.5
        W[p + "mlp.up_proj.weight"], W[p + "mlp.down_proj.weight"] = up * s[:, None], down / s[None, :]
    W["lm_head.weight"] = W["lm_head.weight"] * W["model.norm.weight"][None, :]
fold(A); fold(B)
d = A["model.embed_tokens.weight"].shape[1]
R = torch.eye(d) if backend == "torch" else numpy.eye(d, dtype=numpy.float32)
def assign(similarity):
    return scipy.optimize.linear_sum_assignment(host(similarity), maximize=True)[1]
for _ in range(passes):
    cross = A["model.embed_tokens.weight"].T @ B["model.embed_tokens.weight"] + A["lm_head.weight"].T @ B["lm_head.weight"]
    for l in range(layers):
        p = f"model.layers.{l}."
        W = {r: B[p + r + ".weight"] @ R.T for r in READ} | {w: R @ B[p + w + ".weight"] for w in WRITE}
        T = {k: A[p + k + ".weight"] for k in READ + WRITE}
        # Neurons.
        similarity = T["mlp.gate_proj"] @ W["mlp.gate_proj"].T + abs(T["mlp.up_proj"] @ W["mlp.up_proj"].T + T["mlp.down_proj"].T @ W["mlp.down_proj"])
        place = as_index(assign(similarity))
        up = (T["mlp.up_proj"] * W["mlp.up_proj"][place]).sum(1)
        sign = xp.sign(up)
        order = {"mlp.gate_proj": W["mlp.gate_proj"][place], "mlp.up_proj": W["mlp.up_proj"][place] * sign[:, None],
                 "mlp.down_proj": W["mlp.down_proj"][:, place] * sign[None, :]}
        # Heads: phases of q and k by rotary pair, one orthogonal matrix for v and o; nested.
        width, group = d // heads, heads // kv_heads
        q = host(T["self_attn.q_proj"] @ W["self_attn.q_proj"].T).reshape(heads, width, heads, width)
        k = host(T["self_attn.k_proj"] @ W["self_attn.k_proj"].T).reshape(kv_heads, width, kv_heads, width)
        v = host(T["self_attn.v_proj"] @ W["self_attn.v_proj"].T).reshape(kv_heads, width, kv_heads, width)
        o = host(T["self_attn.o_proj"].T @ W["self_attn.o_proj"]).reshape(heads, width, heads, width)
        h = width // 2
        turn = lambda x, i, j: (x[i, :h, j, :h].diagonal() + x[i, h:, j, h:].diagonal()) + 1j * (x[i, h:, j, :h].diagonal() - x[i, :h, j, h:].diagonal())
        outer, inner = numpy.zeros((kv_heads, kv_heads)), {}
        for i in range(kv_heads):
            for j in range(kv_heads):
                costs = numpy.zeros((group, group))
                for s in range(group):
                    for t in range(group):
                        costs[s, t] = abs(turn(q, i * group + s, j * group + t) + turn(k, i, j) / group).sum()
                        costs[s, t] += numpy.linalg.svd(o[i * group + s, :, j * group + t] + v[i, :, j] / group, compute_uv=False).sum()
                inside = scipy.optimize.linear_sum_assignment(costs, maximize=True)[1]
                inner[i, j] = inside
                outer[i, j] = costs[numpy.arange(group), inside].sum()
        match = scipy.optimize.linear_sum_assignment(outer, maximize=True)[1]
        for i, j in enumerate(match):
            members = [(i * group + s, j * group + inner[i, j][s]) for s in range(group)]
            phase = sum(turn(q, s, t) for s, t in members) + turn(k, i, j)
            phase = phase / numpy.maximum(abs(phase), 1e-30)
            c, s_ = numpy.real(phase).astype(numpy.float32), numpy.imag(phase).astype(numpy.float32)
            G = numpy.block([[numpy.diag(c), -numpy.diag(s_)], [numpy.diag(s_), numpy.diag(c)]])
            u, _, vt = numpy.linalg.svd(sum(o[s, :, t] for s, t in members) + v[i, :, j])
            O = u @ vt
            if backend == "torch":
                G, O = torch.as_tensor(G), torch.as_tensor(O)
            rows = lambda x, at: x[at * width : (at + 1) * width]
            cross_head = rows(T["self_attn.k_proj"], i).T @ (G @ rows(W["self_attn.k_proj"], j)) + rows(T["self_attn.v_proj"], i).T @ (O @ rows(W["self_attn.v_proj"], j))
            for s, t in members:
                cross_head = cross_head + rows(T["self_attn.q_proj"], s).T @ (G @ rows(W["self_attn.q_proj"], t)) + rows(T["self_attn.o_proj"].T, s).T @ (O @ rows(W["self_attn.o_proj"].T, t))
            cross = cross + cross_head @ R
        for name, value in order.items():
            cross = cross + ((T[name].T @ value) if name in READ else (T[name] @ value.T)) @ R
    u, _, vt = svd(cross)
    R = u @ vt
print(time.process_time() - begin)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="of the preset `bench`")
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--billion", action="store_true", help="the 1B shape")
    parser.add_argument("--skip-plain", action="store_true", help="not the plain versions")
    options = parser.parse_args()
    shape = BILLION if options.billion else SMALL
    record = {"load before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        a, b = work / "a", work / "b"
        for seed, path in enumerate((a, b)):
            make_checkpoint(path, 1, seed=seed, **shape)
        command = [options.build / "regauge", "align", a, b, "-o", work / "c"]
        run = run_measured([*command, "--iterations", str(PASSES), "--starts", "1"])
        record["align"] = {"seconds": run[1], "memory": run[2]}

        def seconds(code, *arguments):
            done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True)
            return float(done.stdout)

        record["bare products"] = seconds(PRODUCTS, json.dumps(shape), str(PASSES))
        if not options.skip_plain:
            for backend in ("numpy", "torch"):
                record[backend] = seconds(PLAIN, backend, str(a), str(b), json.dumps(shape), str(PASSES))
    for key in ("bare products", "numpy", "torch"):
        if key in record:
            record[f"align / {key}"] = record["align"]["seconds"] / record[key]
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
