#!/usr/bin/env python3
"""Fits students to a teacher of the same architecture and asks `regauge diff` whether they are the teacher in other coordinates.

    students.py [-o OUTPUT.jsonl] [--architectures NAME,...] [--chains N] [--rounds N] [--teachers N] [--regauge PROGRAM] [--folder DIR]

A student that computes exactly what the teacher computes must be the teacher moved by an element of the symmetry group,
or the group is incomplete (docs/theory.md, "Completeness beyond the neighbourhood"). Teachers have random weights. A student
starts at random, independently of the teacher, and is fitted in double precision to the teacher's outputs by Levenberg and
Marquardt's method. Where that ends in a local minimum, one part of the student (a head, a neuron, an embedding row) is drawn
anew at random and the fit goes on from there, for a number of rounds.

A student is exact if its mean squared error on all sequences of the teacher's length is below 1e-20 of the variance of the
teacher's outputs. Exact students and teachers are stored in 32 bits. One line of JSON is written for each student.
"""

import argparse
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import save_file
from torch.func import jacrev, vmap

EXACT = 1e-20
STALLED = 1e-10

# An eps this large keeps the norms smooth: with eps 0 fits run into inputs of length 0, where a norm has no derivative.
COMMON = {
    "width": 4, "layers": 1, "heads": 2, "kv_heads": 2, "qk_width": 2, "v_width": 2, "ffn_width": 2,
    "input": "tokens", "vocabulary": 5, "positions": "none", "max_positions": 3, "norm": "rms", "norm_eps": 4.0,
    "causal": True, "attention_scale": 2**-0.5, "activation": "gelu", "gated": False, "output": "tokens",
}  # fmt: skip
ROTARY = {"positions": "rotary", "rotary_dims": 2, "rotary_frequencies": [1.0]}
ARCHITECTURES = {
    "none": {},
    "sinusoidal": {"positions": "sinusoidal"},
    "sinusoidal, all pinned": {"positions": "sinusoidal", "max_positions": 5},
    "learned": {"positions": "learned"},
    "rotary": ROTARY,
    "rotary, two pairs": {**ROTARY, "qk_width": 4, "rotary_dims": 4, "rotary_frequencies": [1.0, 0.3]},
    "grouped queries": {**ROTARY, "kv_heads": 1},
    "QK-norm": {**ROTARY, "qk_norm": True},
    "layer norm": {"norm": "layer", "norm_bias": True, "biases": ["q", "k", "v", "o", "up", "down"]},
    "gated": {"activation": "silu", "gated": True},
}
# Fits end in fewer local minima with one neuron. The norms of queries and keys, too, have the common eps. With one head and
# five tokens they would be degenerate: any turn of the queries' table of 5 x 2 numbers is made by the 8 + 2 of map and gain.
ARCHITECTURES |= {name + ", one neuron": {**ARCHITECTURES[name], "ffn_width": 1}
                  for name in ("none", "sinusoidal", "learned", "rotary", "grouped queries", "layer norm")}  # fmt: skip
ARCHITECTURES["QK-norm, one head"] = {**ROTARY, "qk_norm": True, "heads": 1, "kv_heads": 1, "ffn_width": 1, "norm_eps": 1.0,
                                      "vocabulary": 6}  # fmt: skip


def shapes(a):
    """The canonical tensors of the family `regauge` by name; the head comes last."""
    result = {"embed.tokens": (a["vocabulary"], a["width"])}
    if a["positions"] == "learned":
        result["embed.positions"] = (a["max_positions"], a["width"])

    def norm(name):
        result[name + ".gain"] = (1, a["width"])
        if a.get("norm_bias"):
            result[name + ".bias"] = (1, a["width"])

    def linear(name, rows, columns):
        result[name + ".weight"] = (rows, columns)
        if name.split(".")[-1] in a.get("biases", []):
            result[name + ".bias"] = (1, columns)

    for layer in range(a["layers"]):
        attention, ffn = f"layers.{layer}.attn.", f"layers.{layer}.ffn."
        norm(attention + "norm")
        linear(attention + "q", a["width"], a["heads"] * a["qk_width"])
        linear(attention + "k", a["width"], a["kv_heads"] * a["qk_width"])
        linear(attention + "v", a["width"], a["kv_heads"] * a["v_width"])
        linear(attention + "o", a["heads"] * a["v_width"], a["width"])
        if a.get("qk_norm"):
            result[attention + "q_norm.gain"] = result[attention + "k_norm.gain"] = (1, a["qk_width"])
        norm(ffn + "norm")
        for name in ["gate", "up"] if a["gated"] else ["up"]:
            linear(ffn + name, a["width"], a["ffn_width"])
        linear(ffn + "down", a["ffn_width"], a["width"])
    norm("head.norm")
    result["head.weight"] = (a["width"], a["vocabulary"])
    return result


def tensors(a, x):
    """The tensors whose numbers stand one after another in x; x may lack the head."""
    result, at = {}, 0
    for name, (rows, columns) in shapes(a).items():
        if at == len(x):
            break
        result[name] = x[at : at + rows * columns].view(rows, columns)
        at += rows * columns
    return result


def hidden(a, p, tokens):
    """What the output head reads, [sequences, positions, width]."""
    length, width = tokens.shape[1], a["width"]
    x = (tokens[..., None] == torch.arange(a["vocabulary"])).double() @ p["embed.tokens"]
    if a["positions"] == "learned":
        x = x + p["embed.positions"][:length]
    if a["positions"] == "sinusoidal":
        column = torch.arange(width)
        angle = torch.arange(length)[:, None] / 10000.0 ** ((column - column % 2) / width)
        x = x + torch.where(column % 2 == 0, angle.sin(), angle.cos())

    def rms(x, gain):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + a["norm_eps"]) * gain

    def norm(name, x):
        if a["norm"] == "layer":
            x = x - x.mean(-1, keepdim=True)
        x = rms(x, p[name + ".gain"])
        return x + p[name + ".bias"] if a.get("norm_bias") else x

    def linear(name, x):
        y = x @ p[name + ".weight"]
        return y + p[name + ".bias"] if name + ".bias" in p else y

    def rotated(x):
        angle = torch.arange(length)[:, None] * torch.tensor(a["rotary_frequencies"])
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(pairs, -1).flatten(-2)

    activation = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}[a["activation"]]
    later = torch.full((length, length), -math.inf).triu(1)
    group = a["heads"] // a["kv_heads"]
    for layer in range(a["layers"]):
        attention, ffn = f"layers.{layer}.attn.", f"layers.{layer}.ffn."
        y = norm(attention + "norm", x)
        q, k, v = (
            linear(attention + name, y).unflatten(2, (-1, a[size])).transpose(1, 2)
            for name, size in (("q", "qk_width"), ("k", "qk_width"), ("v", "v_width"))
        )
        if a.get("qk_norm"):
            q, k = rms(q, p[attention + "q_norm.gain"]), rms(k, p[attention + "k_norm.gain"])
        if a["positions"] == "rotary":
            q, k = rotated(q), rotated(k)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        weights = torch.softmax(q @ k.transpose(2, 3) * a["attention_scale"] + later, -1)
        x = x + linear(attention + "o", (weights @ v).transpose(1, 2).flatten(2))
        y = norm(ffn + "norm", x)
        units = activation(linear(ffn + ("gate" if a["gated"] else "up"), y))
        x = x + linear(ffn + "down", units * linear(ffn + "up", y) if a["gated"] else units)
    return norm("head.norm", x)


def outputs(a, x, tokens):
    p = tensors(a, x)
    return hidden(a, p, tokens) @ p["head.weight"]


def draw(a, random, scale=1.0):
    """Random parameters: gains near 1, biases near 0, matrices of standard deviation scale / sqrt(inputs)."""
    parts = []
    for name, (rows, columns) in shapes(a).items():
        z = torch.randn((rows, columns), generator=random)
        if name.endswith("gain"):
            z = 1 + 0.2 * z
        elif name.endswith("bias"):
            z = 0.3 * z
        elif not name.startswith("embed"):
            z = scale * z / rows**0.5
        parts.append(z.flatten())
    return torch.cat(parts)


def parts(a):
    """Masks of the parameters of one part each: a query head, a group, a neuron, an embedding row."""
    total = sum(rows * columns for rows, columns in shapes(a).values())

    def mask(columns, rows=None):
        p = tensors(a, x := torch.zeros(total, dtype=torch.bool))
        for name, which in columns.items():
            for tensor in (name + ".weight", name + ".bias"):
                if tensor in p:
                    p[tensor][:, which] = True
        for name, which in (rows or {}).items():
            p[name][which] = True
        return x

    result = [mask({}, {"embed.tokens": slice(t, t + 1)}) for t in range(a["vocabulary"])]
    for layer in range(a["layers"]):
        attention, ffn = f"layers.{layer}.attn.", f"layers.{layer}.ffn."
        group = a["heads"] // a["kv_heads"]

        def span(index, size):
            return slice(index * size, (index + 1) * size)

        for head in range(a["kv_heads"]):
            queries = {attention + "q": span(head, group * a["qk_width"])}
            values = {attention + "v": span(head, a["v_width"])}
            keys = {attention + "k": span(head, a["qk_width"])}
            written = {attention + "o.weight": span(head, group * a["v_width"])}
            result += [mask({**queries, **keys}), mask(values, written), mask({**queries, **keys, **values}, written)]
        for neuron in range(a["ffn_width"]):
            read = {ffn + name: slice(neuron, neuron + 1) for name in ("gate", "up")}
            result.append(mask(read, {ffn + "down.weight": slice(neuron, neuron + 1)}))
    return result


class Fit:
    """Levenberg and Marquardt's method for many students at once."""

    def __init__(self, a, tokens, target):
        self.a, self.tokens, self.target = a, tokens, target
        self.head = a["width"] * a["vocabulary"]

        def value(parameters, sequence):
            y = hidden(a, parameters, sequence[None])[0]
            return y, y

        self.jacobian_of_hidden = vmap(vmap(jacrev(value, has_aux=True), (None, 0)), (0, None))
        self.split = vmap(lambda x: tensors(a, x))
        self.residuals = vmap(lambda x: (outputs(a, x, tokens) - target).flatten())

    def jacobian(self, x):
        """[students, outputs, parameters]; the head's part is known in closed form."""
        width, columns = self.a["width"], self.a["vocabulary"]
        body, y = self.jacobian_of_hidden(self.split(x[:, : -self.head]), self.tokens)
        body, y = torch.cat([part.flatten(4) for part in body.values()], -1).flatten(1, 2), y.flatten(1, 2)
        body = torch.einsum("sndp,sdv->snvp", body, x[:, -self.head :].view(-1, width, columns))
        head = torch.einsum("snd,vw->snvdw", y, torch.eye(columns)).flatten(3)
        return torch.cat([body, head], -1).flatten(1, 2)

    def loss(self, x):
        return torch.nan_to_num(self.residuals(x).square().mean(1), nan=math.inf)

    def steps(self, x):
        """A function of damping and residuals: the damped Gauss-Newton step. By singular values, as J^T J has the square of J's condition."""
        q, upper = torch.linalg.qr(self.jacobian(x))
        u, s, v = torch.linalg.svd(upper)
        scale = s.square().mean(1, keepdim=True)
        seen = s > 1e-14 * s[:, :1]

        def step(damping, residuals):
            along = (u.mT @ (q.mT @ residuals[..., None]))[..., 0]
            return -(v.mT @ torch.where(seen, along * s / (s.square() + damping[:, None] * scale), 0.0)[..., None])[..., 0]

        return step

    def curved(self, x, r, step, damping):
        """A step with its geodesic acceleration (Transtrum and Sethna 2012), where that is smaller than the step itself."""
        straight = step(damping, r)
        ahead, behind = self.residuals(x + 0.1 * straight), self.residuals(x - 0.1 * straight)
        bend = step(damping, torch.nan_to_num((ahead - 2 * r + behind) / 0.01)) / 2
        return straight + torch.where((bend.norm(dim=1) < 0.4 * straight.norm(dim=1))[:, None], bend, 0.0)

    def run(self, x, steps, patience, goal=1e-30):
        """Ends a student when it is exact to the last digit, or its loss has not fallen by a fifth in `patience` steps."""
        x, loss = x.clone(), self.loss(x)
        damping = torch.full((len(x),), 1e-1)
        history = [loss.clone()]
        active = torch.arange(len(x))
        for _ in range(steps):
            y = x[active]
            r, step = self.residuals(y), self.steps(y)
            best, at, kept = loss[active], y, damping[active] * 10
            for factor in (0.1, 1.0, 10.0):
                tried = damping[active] * factor
                there = y + self.curved(y, r, step, tried)
                now = self.loss(there)
                better = now < best
                best, kept = torch.where(better, now, best), torch.where(better, tried, kept)
                at = torch.where(better[:, None], there, at)
            x[active], loss[active], damping[active] = at, best, kept.clamp(1e-30, 1e9)
            history.append(loss.clone())
            over = (loss < goal) | (damping > 1e8)
            if len(history) > patience:
                over |= (history[-patience] < 1.25 * loss) & ((loss > STALLED) | (loss < EXACT))
            active = active[~over[active]]
            if len(active) == 0:
                break
        return x, loss


def config(a):
    return {**a, "model_type": "regauge"}


def save(a, x, folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(a)))
    save_file({name: t.float().contiguous() for name, t in tensors(a, x).items()}, folder / "model.safetensors")
    return folder


def answer(program, *arguments):
    result = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        sys.exit(f"{program} {' '.join(map(str, arguments))}: {result.stderr}")
    return json.loads(result.stdout)


def statement(program, a, b):
    return answer(program, "diff", a, b)["statement"]


def nullity(a, x, tokens):
    """Of the Jacobian of all outputs: the dimension of the group, unless these tokens are too few to tell parameters apart."""
    values = torch.linalg.svdvals(Fit(a, tokens, torch.zeros(())).jacobian(x[None])[0])
    return int((values < 1e-13 * values[0]).sum())


def study(name, seed, options, folder):
    """Yields a record for every student of one teacher."""
    a = {**COMMON, **ARCHITECTURES[name]}
    random = torch.Generator().manual_seed(seed)
    everything = torch.tensor(list(itertools.product(range(a["vocabulary"]), repeat=a["max_positions"])))
    teacher = draw(a, random, options.scale)
    teacher[-a["width"] * a["vocabulary"] :] /= outputs(a, teacher, everything).std()
    some = everything[torch.randperm(len(everything), generator=random)[: options.sequences]]
    home = folder / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    if options.regauge:
        dimension = answer(options.regauge, "inspect", save(a, teacher, home / "teacher"))["redundant"]
        if (found := nullity(a, teacher, everything)) != dimension:
            sys.exit(f"{name}: the Jacobian's nullity is {found}, the group's dimension {dimension}: no test of the group")
    fit = Fit(a, some, outputs(a, teacher, some))
    whole = Fit(a, everything, outputs(a, teacher, everything))
    masks = parts(a)
    began = time.process_time()

    x, loss = fit.run(torch.stack([draw(a, random) for _ in range(options.chains)]), 150, 20)
    rounds = torch.zeros(options.chains, dtype=torch.int64)
    for number in range(1, options.rounds + 1):
        worse = (loss > EXACT).nonzero()[:, 0]
        if options.chains - len(worse) >= (options.enough or options.chains):
            break
        fresh = torch.stack([draw(a, random) for _ in worse])
        chosen = torch.stack([masks[torch.randint(len(masks), (), generator=random)] for _ in worse])
        tried, now = fit.run(torch.where(chosen, fresh, x[worse]), 25, 10)
        promising = (now < 5 * loss[worse]).nonzero()[:, 0]
        if len(promising) > 0:
            tried[promising], now[promising] = fit.run(tried[promising], 100, 15)
        better = now < loss[worse]
        x[worse] = torch.where(better[:, None], tried, x[worse])
        loss[worse] = torch.where(better, now, loss[worse])
        rounds[worse[now < EXACT]] = number
        print(f"{name} {seed}, round {number}: {time.process_time() - began:.0f} s,",
              " ".join(f"{v:.0e}" for v in sorted(loss.tolist())), file=sys.stderr)  # fmt: skip

    for student in range(options.chains):
        final, error = x[student : student + 1], whole.loss(x[student : student + 1])
        if error < 1e-12:
            final, error = whole.run(final, 30, 8)
        record = {
            "architecture": name, "parameters": len(teacher), "teacher": seed, "student": student,
            "rounds": int(rounds[student]), "error": float(f"{error.item():.3g}"), "exact": error.item() < EXACT,
        }  # fmt: skip
        if options.regauge:
            made = save(a, final[0], home / f"student-{student}")
            record["statement"] = statement(options.regauge, home / "teacher", made)
        yield record


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="JSON lines (default: standard output)")
    parser.add_argument("--architectures", default=";".join(ARCHITECTURES), help="names, separated by ; (default: all)")
    parser.add_argument("--teachers", type=int, default=1, help="number of teachers of each architecture (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the first teacher (default 1)")
    parser.add_argument("--chains", type=int, default=8, help="number of students of each teacher (default 8)")
    parser.add_argument("--rounds", type=int, default=20, help="number of times a part is drawn anew (default 20)")
    parser.add_argument("--enough", type=int, help="end the rounds of a teacher when this many students are exact (default: all)")
    parser.add_argument("--sequences", type=int, default=20, help="number of sequences to fit to (default 20)")
    parser.add_argument("--scale", type=float, default=1.5, help="of the teacher's matrices (default 1.5)")
    parser.add_argument("--regauge", default="regauge", help="program to ask; empty: none (default regauge)")
    parser.add_argument("--folder", type=pathlib.Path, help="where models are kept (default: they are not)")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        lines = options.output.open("w") if options.output else sys.stdout
        for name in options.architectures.split(";"):
            for seed in range(options.seed, options.seed + options.teachers):
                for record in study(name, seed, options, folder):
                    print(json.dumps(record), file=lines, flush=True)


if __name__ == "__main__":
    main()
