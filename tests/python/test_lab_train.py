"""Training: the recipe is torch's, the bytes are reproducible, an interruption costs nothing."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

import pytest
import safetensors.torch
import torch
from conftest import is_written, stopped

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "bench"))
import training as peer  # noqa: E402

CHARACTERS = {
    "width": 16, "layers": 2, "heads": 2, "kv_heads": 2, "qk_width": 8, "v_width": 8, "ffn_width": 24, "vocabulary": 256,
    "positions": "rotary", "max_positions": 16, "rotary_dims": 8,
    "rotary_frequencies": [10000 ** (-i / 4) for i in range(4)], "norm": "rms", "norm_eps": 1e-5,
    "attention_scale": 8**-0.5, "activation": "silu", "gated": True,
}  # fmt: skip
IMAGES = {**peer.IMAGES, "width": 16, "layers": 2, "heads": 2, "kv_heads": 2, "qk_width": 8, "v_width": 8,
          "ffn_width": 24, "max_positions": 5, "attention_scale": 8**-0.5, "classes": 3}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{n} and {n + 1} are {2 * n + 1}.\n" for n in range(300)))
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Pictures of 8 x 8 in MNIST's format: a bright stripe whose place is the class."""
    folder = tmp_path_factory.mktemp("images")
    generator = torch.Generator().manual_seed(1)
    for name, count in (("train", 200), ("t10k", 50)):
        labels = torch.randint(0, 3, (count,), generator=generator)
        pixels = torch.randint(0, 80, (count, 8, 8), generator=generator)
        for picture, label in zip(pixels, labels):
            picture[3 * label : 3 * label + 2] += 150
        header = struct.pack(">4i", 0x803, count, 8, 8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + bytes(pixels.flatten().tolist()))
        header = struct.pack(">2i", 0x801, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + bytes(labels.tolist()))
    return folder


@pytest.fixture
def config(tmp_path, text):
    """Writes a configuration and returns its path."""

    def write(architecture=CHARACTERS, **settings):
        training = {"data": f"bytes:{text}", "steps": 60, "batch": 4, "warmup": 10, "test_every": 0, **settings}
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"architecture": architecture, "training": training}))
        return path

    return write


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_bytes(lab, tmp_path, config):
    for out, seed in (("one", 5), ("two", 5), ("three", 6)):
        lab("train", config(seed=seed), "-o", tmp_path / out, "--threads", 1)
    assert weights(tmp_path / "one") == weights(tmp_path / "two") != weights(tmp_path / "three")
    notes = [(tmp_path / out / "metrics.jsonl").read_text() for out in ("one", "two")]
    assert notes[0] == notes[1]
    settings = json.loads((tmp_path / "one" / "training.json").read_text())
    assert settings["training"]["seed"] == 5 and settings["architecture"]["width"] == 16


@pytest.mark.parametrize("kind", ["bytes", "tokens", "idx"])
def test_learns(lab, tmp_path, config, text, images, kind):
    if kind == "tokens":
        (tmp_path / "tokens.txt").write_text(" ".join(map(str, text.read_bytes())))
    data = {"bytes": f"bytes:{text}", "tokens": f"tokens:{tmp_path / 'tokens.txt'}", "idx": f"idx:{images}"}[kind]
    architecture = IMAGES if kind == "idx" else CHARACTERS
    settings = {"data": data, "steps": 300, "learning_rate": 5e-3, "test_every": 100}
    out = tmp_path / "out"
    result = json.loads(lab("train", config(architecture, **settings), "-o", out, "--json", "--threads", 1))
    again = json.loads(lab("eval", out, "--data", data, "--split", "test", "--json", "--threads", 1))
    assert result["loss"] == pytest.approx(again["loss"], rel=1e-6)
    notes = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [note["step"] for note in notes if "test_loss" in note] == [100, 200, 300]
    assert notes[0]["step"] == 20 and notes[0]["loss"] > 2 * result["loss"]
    assert result["accuracy"] > (0.9 if kind == "idx" else 0.5)


# The recipe, step by step, against torch.


class Random:
    """base/random.h: xoshiro256** from splitmix64 of the seed and FNV-1a of the name."""

    MASK = 2**64 - 1

    def __init__(self, seed, name):
        hashed = 0xCBF29CE484222325
        for byte in name.encode():
            hashed = (hashed ^ byte) * 0x100000001B3 & self.MASK
        _, first = self.splitmix(seed)
        state = first ^ hashed
        self.words = []
        for _ in range(4):
            state, word = self.splitmix(state)
            self.words.append(word)

    def splitmix(self, state):
        state = (state + 0x9E3779B97F4A7C15) & self.MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & self.MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & self.MASK
        return state, z ^ z >> 31

    def below(self, bound):
        def turn(x, k):
            return (x << k | x >> 64 - k) & self.MASK

        while True:
            a, b, c, d = self.words
            result = turn(b * 5 & self.MASK, 7) * 9 & self.MASK
            c, d = c ^ a, d ^ b
            self.words = [a ^ d, b ^ c, c ^ (b << 17 & self.MASK), turn(d, 45)]
            if result < self.MASK - self.MASK % bound:
                return result % bound


def take_over(model, tensors):
    """The canonical tensors, y = x W, into torch's modules, y = x W^T."""
    for name, value in model.named_parameters():
        tensor = tensors[name]
        tensor = tensor.T if name.endswith("weight") else tensor
        value.data = tensor.reshape(value.shape).clone()


@pytest.mark.parametrize("kind", ["bytes", "idx"])
def test_every_step_is_that_of_torch(lab, tmp_path, config, text, images, kind):
    """The same start, the same batches, torch's own AdamW and clipping: the same weights after 60 steps."""
    settings = {"seed": 3, "batch": 4, "steps": 60, "warmup": 10, "learning_rate": 3e-3, "clip": 0.5}
    if kind == "bytes":
        architecture, settings["data"] = CHARACTERS, f"bytes:{text}"
        data = peer.Text(text, 16)
        count = len(data.train) - 16
    else:
        architecture, settings["data"] = IMAGES, f"idx:{images}"
        count = 200
        pixels = torch.frombuffer(bytearray((images / "train-images-idx3-ubyte").read_bytes()[16:]), dtype=torch.uint8)
        patches = pixels.view(-1, 2, 4, 2, 4).permute(0, 1, 3, 2, 4).reshape(-1, 4, 16)
        patches = (patches / 255 - 0.1307) / 0.3081
        labels = torch.tensor(list((images / "train-labels-idx1-ubyte").read_bytes()[8:]))
    random = Random(3, "batches")

    def next_batch():
        chosen = torch.tensor([random.below(count) for _ in range(4)])
        return data.windows(data.train, chosen) if kind == "bytes" else (patches[chosen], labels[chosen])

    start = {**settings, "steps": 1, "learning_rate": 1e-30}  # which leaves the start as it is
    for out, chosen in (("start", start), ("end", settings)):
        lab("train", config(architecture, **chosen), "-o", tmp_path / out, "--threads", 1)
    start, end = (safetensors.torch.load_file(tmp_path / out / "model.safetensors") for out in ("start", "end"))
    model = peer.Peer(architecture, 0)
    take_over(model, start)
    peer.train_peer(model, {**peer.DEFAULTS, **settings}, next_batch)
    begin, expected = peer.Peer(architecture, 0), peer.Peer(architecture, 0)
    take_over(begin, start)
    take_over(expected, end)
    # A key's bias has no slope but rounding, of which AdamW makes steps of full length.
    kept = [name for name, _ in model.named_parameters() if not name.endswith("attn.k.bias")]

    def flat(module):
        return torch.cat([module.get_parameter(name).detach().flatten() for name in kept])

    ways, errors = flat(expected) - flat(begin), flat(expected) - flat(model)
    print(f"\n{kind}: {(errors.norm() / ways.norm()).item():.1e} of the way")
    assert errors.norm() < 1e-4 * ways.norm()


# Interruptions.


def start_training(config, out):
    command = [os.environ["REGAUGE"], "lab", "train", config, "-o", out, "--threads", "1"]
    return subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)


def stopped_training(config, out, number):
    metrics = out.with_name("out.partial") / "metrics.jsonl"
    return stopped(lambda: start_training(config, out), number, out, lambda: is_written(metrics))


def test_goes_on_after_an_interruption(lab, tmp_path, config):
    steps = config(steps=600)
    lab("train", steps, "-o", tmp_path / "whole", "--threads", 1)
    out, partial = tmp_path / "out", tmp_path / "out.partial"
    status, _, messages = stopped_training(steps, out, signal.SIGINT)
    assert status == 130, messages
    assert not out.exists() and (partial / "state.safetensors").exists()
    # Other settings do not go on from there.
    refused = start_training(config(steps=601), out)
    _, messages = refused.communicate(timeout=600)
    assert refused.returncode == 2 and "with other settings" in messages
    lab("train", config(steps=600), "-o", out, "--threads", 1)
    assert weights(out) == weights(tmp_path / "whole")
    assert (out / "metrics.jsonl").read_text() == (tmp_path / "whole" / "metrics.jsonl").read_text()
    assert not partial.exists()


def test_a_killed_training_starts_again(lab, tmp_path, config):
    """Without a saved state: from the beginning, to the same bytes."""
    steps = config(steps=600)
    lab("train", steps, "-o", tmp_path / "whole", "--threads", 1)
    out = tmp_path / "out"
    stopped_training(steps, out, signal.SIGKILL)
    lab("train", steps, "-o", out, "--threads", 1)
    assert weights(out) == weights(tmp_path / "whole")


# Refusals: (what is wrong, changes of the settings or of the architecture, words of the message).
REFUSALS = {
    "unknown setting": ({"speed": 1}, {}, "'speed' is not a setting"),
    "a word for a number": ({"steps": "many"}, {}, "'steps' must be a whole number"),
    "half a step": ({"steps": 0.5}, {}, "'steps' must be a whole number"),
    "no step": ({"steps": 0}, {}, "'steps' and 'batch' must be positive"),
    "negative rate": ({"learning_rate": -1}, {}, "'learning_rate' and 'clip' must be positive"),
    "beta above 1": ({"beta2": 1.5}, {}, "must be in [0, 1)"),
    "no data": ({"data": ""}, {}, "'data' is missing"),
    "unknown kind of data": ({"data": "poems:x"}, {}, "poems"),
    "no such file": ({"data": "bytes:nowhere.txt"}, {}, "nowhere.txt"),
    "small vocabulary": ({}, {"vocabulary": 20}, "vocabulary must be at least"),
    "unknown field": ({}, {"nose": 1}, "nose"),
    "sees the answer": ({}, {"causal": False}, "causal"),
    "heads that do not divide": ({}, {"heads": 3}, "kv_heads"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal(lab, tmp_path, config, case):
    settings, fields, words = REFUSALS[case]
    process = start_training(config({**CHARACTERS, **fields}, **settings), tmp_path / "out")
    _, messages = process.communicate(timeout=600)
    assert process.returncode == 2, messages
    assert words in messages
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_refuses_what_exists(lab, tmp_path, config):
    (tmp_path / "out").mkdir()
    process = start_training(config(), tmp_path / "out")
    _, messages = process.communicate(timeout=600)
    assert process.returncode == 2 and "choose another output" in messages


def test_refuses_a_file_that_is_no_config(lab, tmp_path):
    (tmp_path / "config.json").write_text('{"architecture": {}}')
    process = start_training(tmp_path / "config.json", tmp_path / "out")
    _, messages = process.communicate(timeout=600)
    assert process.returncode == 2 and '"training"' in messages


def test_set_overrides_the_file(lab, tmp_path, config):
    lab("train", config(), "-o", tmp_path / "out", "--threads", 1, "--set", "steps=20", "seed=9")
    training = json.loads((tmp_path / "out" / "training.json").read_text())["training"]
    assert (training["steps"], training["seed"]) == (20, 9)


def tensors(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def changed(before, after):
    return {name for name in before if not torch.equal(before[name], after[name])}


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("attention:0", lambda name: name.startswith("layers.0.attn.") and ".norm." not in name),
        ("attention", lambda name: ".attn." in name and ".norm." not in name),
        ("block:0", lambda name: name.startswith("layers.0.")),
        ("all", lambda name: True),
    ],
)
def test_a_part_starts_anew_and_nothing_else_moves(lab, tmp_path, config, scope, expected):
    base = tmp_path / "base"
    lab("train", config(), "-o", base, "--threads", 1)
    for seed in (2, 3):
        lab("train", config(), "-o", tmp_path / str(seed), "--from", base, "--reinit", scope, "--set", f"seed={seed}",
            "--threads", 1)  # fmt: skip
    before, two, three = (tensors(tmp_path / name) for name in ("base", "2", "3"))
    assert changed(before, two) == {name for name in before if expected(name)}
    assert changed(two, three) == changed(before, two)
    for name in changed(before, two):  # anew, and not a little moved
        if name.endswith("weight"):
            assert (two[name] - before[name]).norm() > 0.3 * before[name].norm(), name


def test_a_part_starts_anew_and_the_rest_goes_on(lab, tmp_path, config):
    lab("train", config(), "-o", tmp_path / "base", "--threads", 1)
    lab("train", config(), "-o", tmp_path / "on", "--from", tmp_path / "base", "--reinit", "attention:0", "--set",
        "freeze=none", "--set", "learning_rate=1e-5", "--set", "seed=2", "--threads", 1)  # fmt: skip
    before, after = tensors(tmp_path / "base"), tensors(tmp_path / "on")
    assert changed(before, after) == set(before)
    for name in before:
        if name.endswith("weight"):
            anew = name.startswith("layers.0.attn.") and ".norm." not in name
            assert ((after[name] - before[name]).norm() > 0.3 * before[name].norm()) == anew, name


def test_without_reinit_all_of_a_model_goes_on(lab, tmp_path, config):
    lab("train", config(), "-o", tmp_path / "base", "--threads", 1)
    lab("train", config(), "-o", tmp_path / "on", "--from", tmp_path / "base", "--set", "learning_rate=1e-5", "--threads", 1)
    before, after = tensors(tmp_path / "base"), tensors(tmp_path / "on")
    assert changed(before, after) == set(before)
    assert all((after[n] - before[n]).norm() < 0.1 * before[n].norm() for n in before if n.endswith("weight"))


def refusal(*arguments):
    command = [os.environ["REGAUGE"], "lab", "train", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    return result.stderr


def test_what_cannot_be_begun_with_is_refused(lab, tmp_path, config):
    lab("train", config(steps=2), "-o", tmp_path / "base", "--threads", 1)
    out = ("-o", tmp_path / "out")
    assert "'from'" in refusal(config(), *out, "--reinit", "attention")
    assert "attention or block" in refusal(config(), *out, "--from", tmp_path / "base", "--reinit", "heads")
    assert "layers that are not there" in refusal(config(), *out, "--from", tmp_path / "base", "--reinit", "attention:0-9")
    assert "'freeze' must be rest or none" in refusal(config(), *out, "--set", "freeze=some")
    other = config({**CHARACTERS, "norm_eps": 1e-3})
    assert "norm_eps" in refusal(other, *out, "--from", tmp_path / "base")


def test_a_path_may_begin_with_the_environment(lab, tmp_path, config, text, monkeypatch):
    settings = config(data=f"bytes:$TEXTS/{text.name}", steps=2)
    assert "set TEXTS" in refusal(settings, "-o", tmp_path / "out")
    monkeypatch.setenv("TEXTS", str(text.parent))
    lab("train", settings, "-o", tmp_path / "out", "--threads", 1)
    assert "$TEXTS" in (tmp_path / "out" / "training.json").read_text()
