#!/usr/bin/env python3
"""Is `regauge lab train` as fast as the same loop in Python torch, and does it arrive at the same losses?

    training.py --text FILE --images DIR [--program regauge] [--rounds 4] [--steps 1000] [--image-steps 500]
                [--threads N]

Times a character model (D 128, 4 layers, 0.8 M parameters) on both sides in turns, by the clock and by the processor
(the one to compare on a busy machine, with one thread), then trains it and a small
ViT (FILE: any text; DIR: MNIST's files) from three seeds on both sides, and prints one JSON record.
Needs torch and Linux (/proc); `regauge` must have the lab.
"""

import argparse
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

NOTED = 20  # steps between two lines of metrics.jsonl
CHARACTERS = {
    "width": 128, "layers": 4, "heads": 4, "kv_heads": 4, "qk_width": 32, "v_width": 32, "ffn_width": 344,
    "vocabulary": 256, "positions": "rotary", "max_positions": 64, "rotary_dims": 32,
    "rotary_frequencies": [10000 ** (-i / 16) for i in range(16)], "norm": "rms", "norm_eps": 1e-5,
    "attention_scale": 32**-0.5, "activation": "silu", "gated": True,
}  # fmt: skip
IMAGES = {
    "width": 64, "layers": 4, "heads": 4, "kv_heads": 4, "qk_width": 16, "v_width": 16, "ffn_width": 128,
    "input": "vectors", "input_width": 16, "input_bias": True, "class_token": True, "positions": "learned",
    "max_positions": 50, "norm": "layer", "norm_bias": True, "norm_eps": 1e-5, "causal": False,
    "attention_scale": 16**-0.5, "activation": "gelu", "biases": ["q", "k", "v", "o", "up", "down", "head"],
    "output": "classes", "classes": 10,
}  # fmt: skip
DEFAULTS = {
    "steps": 2000, "batch": 32, "warmup": 100, "learning_rate": 1e-3, "final_fraction": 0.1, "weight_decay": 0.1,
    "beta1": 0.9, "beta2": 0.95, "clip": 1.0,
}  # fmt: skip


class Norm(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.rms, self.eps = a["norm"] == "rms", a["norm_eps"]
        self.gain = nn.Parameter(torch.ones(a["width"]))
        self.bias = nn.Parameter(torch.zeros(a["width"])) if a.get("norm_bias") else None

    def forward(self, x):
        if self.rms:
            return functional.rms_norm(x, self.gain.shape, self.gain, self.eps)
        return functional.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a, biases = a, a.get("biases", [])
        self.norm = Norm(a)
        keys, values = a["heads"] * a["qk_width"], a["heads"] * a["v_width"]
        self.q = nn.Linear(a["width"], keys, "q" in biases)
        self.k = nn.Linear(a["width"], keys, "k" in biases)
        self.v = nn.Linear(a["width"], values, "v" in biases)
        self.o = nn.Linear(values, a["width"], "o" in biases)

    def forward(self, x, turns):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(2, (self.a["heads"], -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if turns is not None:
            q, k = (
                torch.view_as_real(torch.view_as_complex(z.unflatten(3, (-1, 2)).contiguous()) * turns).flatten(3)
                for z in (q, k)
            )
        y = functional.scaled_dot_product_attention(
            q, k, v, is_causal=self.a.get("causal", True), scale=self.a["attention_scale"]
        )
        return x + self.o(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, a):
        super().__init__()
        biases = a.get("biases", [])
        self.norm = Norm(a)
        self.gate = nn.Linear(a["width"], a["ffn_width"], "gate" in biases) if a.get("gated") else None
        self.up = nn.Linear(a["width"], a["ffn_width"], "up" in biases)
        self.down = nn.Linear(a["ffn_width"], a["width"], "down" in biases)
        self.activation = {"silu": functional.silu, "gelu": functional.gelu}[a["activation"]]

    def forward(self, x):
        y = self.norm(x)
        hidden = self.activation(self.up(y)) if self.gate is None else self.activation(self.gate(y)) * self.up(y)
        return x + self.down(hidden)


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn, self.ffn = Attention(a), FeedForward(a)

    def forward(self, x, turns):
        return self.ffn(self.attn(x, turns))


class Embedding(nn.Module):
    def __init__(self, a):
        super().__init__()
        width, tokens = a["width"], a.get("input", "tokens") == "tokens"
        self.tokens = nn.Parameter(torch.empty(a["vocabulary"], width)) if tokens else None
        self.input = None if tokens else nn.Linear(a["input_width"], width, a.get("input_bias", False))
        self.class_token = nn.Parameter(torch.empty(1, width)) if a.get("class_token") else None
        learned = a["positions"] == "learned"
        self.positions = nn.Parameter(torch.empty(a["max_positions"], width)) if learned else None

    def forward(self, inputs):
        x = self.input(inputs) if self.tokens is None else functional.embedding(inputs, self.tokens)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], 1)
        return x if self.positions is None else x + self.positions[: x.shape[1]]


class Peer(nn.Module):
    """What `regauge lab` computes for such an architecture, written with torch's own modules."""

    def __init__(self, a, seed):
        super().__init__()
        self.a = a
        self.embed = Embedding(a)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a["layers"]))
        outputs = a["classes"] if a.get("output") == "classes" else a["vocabulary"]
        self.head = nn.Linear(a["width"], outputs, "head" in a.get("biases", []))
        self.head.norm = Norm(a)
        self.turns = None
        if a["positions"] == "rotary":
            angles = torch.outer(torch.arange(a["max_positions"]).double(), torch.tensor(a["rotary_frequencies"]).double())
            self.turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        generator = torch.Generator().manual_seed(seed)
        for name, value in self.named_parameters():
            if name.endswith(("gain", "bias")):
                continue
            deviation = value.shape[1] ** -0.5 if name.endswith("weight") else 0.02
            if name.endswith(("attn.o.weight", "ffn.down.weight")):
                deviation /= math.sqrt(2 * a["layers"])
            value.data.normal_(0, deviation, generator=generator)

    def forward(self, inputs):
        x = self.embed(inputs)
        turns = None if self.turns is None else self.turns[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, turns)
        if self.a.get("output") == "classes":
            x = x[:, 0]
        return self.head(self.head.norm(x))

    def groups(self, weight_decay):
        """Matrices and tables decay, vectors do not."""
        matrices = [p for p in self.parameters() if p.dim() > 1 and len(p) > 1]
        vectors = [p for p in self.parameters() if p.dim() == 1 or len(p) == 1]
        return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def learning_rate(t, step):
    if step < t["warmup"]:
        return t["learning_rate"] * (step + 1) / t["warmup"]
    done = (step - t["warmup"]) / max(1, t["steps"] - t["warmup"])
    cosine = (1 + math.cos(math.pi * done)) / 2
    return t["learning_rate"] * (t["final_fraction"] + (1 - t["final_fraction"]) * cosine)


def per_step(seen):
    return [tuple((b - a) / NOTED for a, b in zip(*pair)) for pair in zip(seen, seen[1:])]


def train_peer(model, t, next_batch):
    """Trains the model; returns (seconds, processor seconds) per step, a pair for every NOTED steps."""
    groups = model.groups(t["weight_decay"])
    optimizer = torch.optim.AdamW(groups, betas=(t["beta1"], t["beta2"]), eps=1e-8, fused=True)
    total, seen = 0.0, [(time.perf_counter(), time.process_time())]
    for step in range(t["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(t, step)
        inputs, targets = next_batch()
        loss = functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), t["clip"])
        optimizer.step()
        total += loss.item()
        if (step + 1) % NOTED == 0:
            seen.append((time.perf_counter(), time.process_time()))
    assert math.isfinite(total)
    return per_step(seen)


@torch.no_grad()
def score_peer(model, batches):
    """Mean loss and accuracy."""
    loss = right = count = 0
    for inputs, targets in batches:
        logits, targets = model(inputs).flatten(0, -2), targets.flatten()
        loss += functional.cross_entropy(logits, targets, reduction="sum").item()
        right += (logits.argmax(1) == targets).sum().item()
        count += len(targets)
    return loss / count, right / count


class Text:
    """A file's bytes: nine tenths to train on, the rest to test."""

    def __init__(self, path, length):
        self.kind = f"bytes:{path}"
        stream = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).long()
        border = len(stream) * 9 // 10
        self.train, self.test, self.places = stream[:border], stream[border:], torch.arange(length + 1)

    def windows(self, stream, starts):
        windows = stream[starts[:, None] + self.places]
        return windows[:, :-1], windows[:, 1:]

    def sampler(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        last = len(self.train) - len(self.places) + 1
        return lambda: self.windows(self.train, torch.randint(0, last, (size,), generator=generator))

    def tests(self):
        length = len(self.places) - 1
        for starts in torch.arange(0, len(self.test) - length, length).split(64):
            yield self.windows(self.test, starts)


class Images:
    """MNIST's files as patches of 4 x 4."""

    def __init__(self, folder):
        self.kind = f"idx:{folder}"
        self.train, self.test = (self.read(pathlib.Path(folder), name) for name in ("train", "t10k"))

    @staticmethod
    def read(folder, name):
        def numbers(file, header):
            plain, packed = folder / file, folder / (file + ".gz")
            data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
            return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)

        pixels = numbers(f"{name}-images-idx3-ubyte", 16).view(-1, 7, 4, 7, 4)
        patches = (pixels.permute(0, 1, 3, 2, 4).reshape(-1, 49, 16) / 255 - 0.1307) / 0.3081
        return patches, numbers(f"{name}-labels-idx1-ubyte", 8).long()

    def sampler(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        images, labels = self.train

        def draw():
            chosen = torch.randint(0, len(labels), (size,), generator=generator)
            return images[chosen], labels[chosen]

        return draw

    def tests(self):
        return zip(*(tensor.split(500) for tensor in self.test))


def processor_time(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def train_regauge(program, folder, architecture, training):
    """The same by the program: its times per step after the first NOTED, and its own score."""
    config, out = folder / "config.json", folder / "model"
    config.write_text(json.dumps({"architecture": architecture, "training": training}))
    notes = pathlib.Path(f"{out}.partial") / "metrics.jsonl"
    command = [program, "lab", "train", config, "-o", out, "--json", "--threads", torch.get_num_threads()]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    seen = []  # the time of each line, and the processor time
    while process.poll() is None:
        try:
            lines = notes.read_bytes().count(b"\n")
        except FileNotFoundError:
            lines = 0
        if lines > len(seen):
            seen += [(time.perf_counter(), processor_time(process.pid))] * (lines - len(seen))
        time.sleep(0.002)
    if process.returncode != 0:
        sys.exit(f"{program} lab train failed")
    result = json.loads(process.stdout.read())
    times = per_step(seen[: training["steps"] // NOTED])
    for path in sorted(out.iterdir()):
        path.unlink()
    out.rmdir()
    return times, (result["loss"], result["accuracy"])


def median(rounds, which):
    return statistics.median(pair[which] for times in rounds for pair in times)


def compare_times(arguments, folder):
    """In turns, each turn a fresh training of 120 steps; the first 20 of each are not counted."""
    data = Text(arguments.text, 64)
    small = folder / "test.txt"
    small.write_bytes(bytes(1000))
    times = {"regauge": [], "torch": []}
    for seed in range(1, arguments.rounds + 1):
        training = {**DEFAULTS, "steps": 120, "data": data.kind, "test_data": f"bytes:{small}", "seed": seed}
        times["regauge"].append(train_regauge(arguments.program, folder, CHARACTERS, {**training, "test_every": 0})[0])
        times["torch"].append(train_peer(Peer(CHARACTERS, seed), training, data.sampler(training["batch"], seed))[1:])
        print(*(f"{side} {[round(1e3 * median(rounds[-1:], i), 1) for i in (0, 1)]} ms" for side, rounds in times.items()),
              file=sys.stderr)  # fmt: skip
    result = {}
    for i, kind in enumerate(["clock", "processor"]):
        sides = {side: median(rounds, i) for side, rounds in times.items()}
        by_round = [median([a], i) / median([b], i) for a, b in zip(times["regauge"], times["torch"])]
        result[kind] = {"seconds_per_step": sides, "ratio": sides["regauge"] / sides["torch"], "by_round": by_round}
    return result


def compare_losses(arguments, folder, architecture, data, settings):
    losses, accuracies = {"regauge": [], "torch": []}, {"regauge": [], "torch": []}
    for seed in range(1, arguments.seeds + 1):
        training = {**DEFAULTS, **settings, "data": data.kind, "seed": seed, "test_every": 0}
        model = Peer(architecture, seed)
        scores = {"regauge": train_regauge(arguments.program, folder, architecture, training)[1]}
        train_peer(model, training, data.sampler(training["batch"], seed))
        scores["torch"] = score_peer(model, data.tests())
        for side, (loss, accuracy) in scores.items():
            losses[side].append(loss)
            accuracies[side].append(accuracy)
        print(seed, scores, file=sys.stderr)
    return {
        "steps": training["steps"],
        "batch": training["batch"],
        "test_loss": losses,
        "test_accuracy": accuracies,
        "mean": {side: statistics.mean(values) for side, values in losses.items()},
        "deviation": {side: statistics.stdev(values) for side, values in losses.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--text", required=True)
    parser.add_argument("--images")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--image-steps", type=int, default=500)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both sides")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    record = {"torch": torch.__version__, "threads": torch.get_num_threads(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if arguments.rounds > 0:
            record["time"] = compare_times(arguments, folder)
        if arguments.steps > 0:
            settings = {"steps": arguments.steps}
            record["characters"] = compare_losses(arguments, folder, CHARACTERS, Text(arguments.text, 64), settings)
        if arguments.images and arguments.image_steps > 0:
            settings = {"steps": arguments.image_steps, "batch": 64}
            record["images"] = compare_losses(arguments, folder, IMAGES, Images(arguments.images), settings)
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
