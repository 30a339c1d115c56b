#!/usr/bin/env python3
"""How often does `regauge diff` call equal models changed? Thousands of honest pairs, counted by what it says.

    honest_pairs.py --regauge build/release/regauge -o pairs.jsonl [--pairs 10000] [--jobs 2] [--data FOLDER]
    honest_pairs.py --table pairs.jsonl [--write docs/diff.md]
    honest_pairs.py --regauge build/release/regauge --only 4711 --keep FOLDER      one pair again, with its files

A pair is a model and a copy of it that somebody may honestly have made: stored in another type, quantised by llama.cpp's
quantiser, moved by a mild or an extreme element of the group, folded, canonical, untied, or converted by llama.cpp. Pair i is
drawn from the seed and i alone. A record per pair is appended to the output; a run that was stopped goes on where it was.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import threading

import gguf
import numpy
import safetensors

import stored
from stored import FIXTURES, FLOATS, QUANTISED, Failed, Program, remove, statement_of

# "not understood": undecided for a key or a tensor that nothing is known of; "undecided": for any other reason; "another function":
# called changed where rounding has changed the outputs by more than OTHER_OUTPUTS of their size; "changed": where it has not.
STATEMENTS = ["identical", "same-numbers", "other-coordinates", "not understood", "undecided", "another function", "changed"]
OTHER_OUTPUTS = 0.1
GGUF_FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gpt2")
FACTORS = ["residual", "scales", "norms", "heads", "qk", "vo", "ffn", "shifts"]
# Ways to make a pair, and how often each is taken.
WAYS = {"stored": 0.12, "quantised": 0.15, "moved": 0.2, "extreme": 0.15, "exact": 0.05, "moved and quantised": 0.13,
        "rewritten": 0.15, "converted": 0.05}  # fmt: skip
SPREADS = [10, 100, 1e3, 1e4]
VERBS = ["fold", "centred", "gains", "canon", "untied", "untied canon"]


def fixture_models():
    for folder in sorted(FIXTURES.iterdir()):
        if (folder / "model.gguf").exists():
            yield folder.name, folder / "model.gguf"
        elif (folder / "config.json").exists():
            yield folder.name, folder


def real_models(data):
    for name in ("addformer", "subformer", "mulformer", "divformer"):
        yield f"mathformer-{name}", stored.package("mathformer", "2.0.0") / name
    if data:
        yield "stories260K", data / "llama2c-stories260K" / "stories260K.bin"
        for name in ("tok105", "tok361"):
            yield f"babyllama-{name}", data / "llama2c-babyllama-pair" / f"babyllama_{name}.bin"


def all_models(work, data):
    """name -> path. Tiny models are made in `work`, once; real ones come as safetensors."""
    regular = dict(fixture_models())
    for name in stored.TINY:
        for trained in (False, True):
            title = name + ("-trained" if trained else "")
            if not (work / title).exists():
                partial = work / (title + ".partial")
                remove(partial)
                stored.make_tiny(name, partial, seed=len(regular), trained=trained)
                partial.rename(work / title)
            regular[title] = work / title
    return regular | dict(real_models(data))


def converted_models(work):
    """Folders of transformers' with the files of llama.cpp's converter: [(folder, file, type)]."""
    jobs = []
    for name in ("llama", "mistral", "qwen2", "gemma"):
        folder = work / f"llama.cpp-{name}"
        if not folder.exists():
            import test_real_tools

            partial = work / f"llama.cpp-{name}.partial"
            remove(partial)
            partial.mkdir()
            test_real_tools.make(name, partial)
            partial.rename(folder)
        jobs += [(folder, folder / f"{kind}.gguf", kind) for kind in ("f32", "f16", "bf16", "q8_0")]
    missing = [job for job in jobs if not job[1].exists()]
    if missing:
        stored.llama_cpp.convert(missing)
    return jobs


class Maker:
    """Makes the files of one pair in a folder of its own."""

    def __init__(self, program, folder, draw):
        self.program, self.folder, self.draw, self.count = program, folder, draw, 0

    def path(self, suffix=""):
        self.count += 1
        return self.folder / f"{self.count}{suffix}"

    def suffix(self, model):
        return model.suffix if model.is_file() else ""

    def choose(self, options, weights=None):
        return options[self.draw.choice(len(options), p=weights)]

    def rewritten(self, model, verb, *options):
        out = self.path(self.suffix(model))
        self.program(verb, model, "-o", out, *options)
        return out

    def as_gguf(self, model):
        if model.suffix == ".gguf":
            return model
        out = self.path(".gguf")
        try:
            self.program("convert", model, "-o", out, "--to", "gguf")
        except Failed:  # a Mistral is a Llama in GGUF
            self.program("convert", model, "-o", out, "--to", "gguf", "--family", "llama")
        return out

    def stored(self, model, kind):
        """The model in this type: floats by regauge, quantised types by llama.cpp's quantiser."""
        if kind in QUANTISED:
            return stored.quantise_gguf(self.as_gguf(model), self.path(".gguf"), kind)
        to = {"": "safetensors", ".gguf": "gguf", ".bin": "llama2c"}[self.suffix(model)]
        if to == "llama2c":
            model, to = self.as_gguf(model), "gguf"
        out = self.path(".gguf" if to == "gguf" else "")
        self.program("convert", model, "-o", out, "--to", to, "--dtype", kind)
        return out

    def moved(self, model, dtype, spread=1, exact=False, only=()):
        """By a random element; `spread`: the range of its singular values; `exact`: scales are powers of two."""
        seed = int(self.draw.integers(1 << 31))
        factors = [word for factor in only for word in ("--only", factor)]
        dtype = ["--dtype", dtype] if model.suffix != ".bin" else []
        if spread == 1 and not exact:
            return self.rewritten(model, "act", "--random", seed, *factors, *dtype)
        element = self.path(".safetensors")
        remove(self.rewritten(model, "act", "--random", seed, *factors, "--save-element", element))
        if exact:
            stored.exact_element(element)
        else:
            stored.spread_element(element, spread, self.draw)
        out = self.rewritten(model, "act", "--element", element, *dtype)
        if not is_finite(out):
            raise Failed("the element is too large for the type")
        return out


def is_finite(model):
    """Whether all numbers are; BF16 has the range of F32."""
    if model.suffix == ".gguf":
        return all(numpy.isfinite(tensor.data).all() for tensor in gguf.GGUFReader(model).tensors)
    if model.is_file():
        return True
    for path in model.glob("*.safetensors"):
        with safetensors.safe_open(path, "numpy") as file:
            names = [name for name in file.keys() if file.get_slice(name).get_dtype() in ("F16", "F32")]
            if not all(numpy.isfinite(file.get_tensor(name)).all() for name in names):
                return False
    return True


def takes_gguf(name):
    return name.startswith(GGUF_FAMILIES + ("mathformer", "stories", "babyllama")) and "hidden" not in name


def make_pair(maker, models, converted, fixtures=0):
    """(A, B, what was done); `fixtures`: the share of pairs for which only these are drawn from."""
    draw, choose = maker.draw, maker.choose
    way = choose(list(WAYS), list(WAYS.values()))
    if way == "converted" and converted:
        folder, file, kind = choose(converted)
        what = [folder.name, way, kind]
        if draw.random() < 0.5:
            only = [] if draw.random() < 0.5 else [choose(FACTORS[:-1])]
            dtype = choose(FLOATS)
            what += ["moved", *only, dtype]
            folder = maker.moved(folder, dtype, only=only)
        return folder, file, what
    only_fixtures = fixtures > 0 and draw.random() < fixtures and way != "quantised"
    names = [name for name in models if models[name].is_relative_to(FIXTURES) or not only_fixtures]
    names = [name for name in names if "quantised" not in way or takes_gguf(name)]
    if way == "quantised":  # of rows that are whole blocks
        names = [name for name in names if "64" in name or "256" in name or "stories" in name or "baby" in name]
    name = choose(names)
    a = b = models[name]
    what = [name, way if way != "converted" else "rewritten"]
    if way == "stored":
        first, second = choose(FLOATS), choose(FLOATS)
        what += [first, second]
        a, b = maker.stored(a, first), maker.stored(b, second)
    elif way == "quantised":
        kind = choose(QUANTISED)
        other = choose(["as it is", *FLOATS[1:], *QUANTISED], [0.5, 0.1, 0.1, *[0.3 / len(QUANTISED)] * len(QUANTISED)])
        what += [kind, other]
        b = maker.stored(b, kind)
        if other != "as it is":
            a = maker.stored(a, other)
    elif way in ("moved", "extreme", "exact"):
        dtype, other = choose(FLOATS), choose(["as it is", *FLOATS], [0.7, 0.1, 0.1, 0.1])
        only = [choose(FACTORS[:-1])] if draw.random() < 0.4 else []
        if way == "exact":
            only = ["ffn", "heads"]
        spread = choose(SPREADS) if way == "extreme" else 1
        what += [*only, f"spread {spread:g}", dtype, other]
        b = maker.moved(b, dtype, spread, way == "exact", only)
        if other != "as it is":
            a = maker.stored(a, other)
    elif way == "moved and quantised":
        kind = choose(QUANTISED[:5] if draw.random() < 0.6 else QUANTISED)
        only = [choose(FACTORS[:-1])] if draw.random() < 0.5 else []
        if draw.random() < 0.5:
            what += [*only, kind, "after"]
            b = maker.stored(maker.moved(b, "f32", only=only), kind)
        else:  # a moved copy of a quantised file
            dtype = choose(FLOATS)
            what += [*only, kind, "before", dtype]
            a = maker.stored(a, kind)
            b = maker.moved(a, dtype, only=only)
    else:
        dtype = choose(FLOATS)
        verbs = {"fold": ["fold"], "centred": ["fold", "--centre"], "gains": ["fold", "--gains-only"],
                 "canon": ["canon"], "untied": ["act", "--untie", "--random", int(draw.integers(1 << 31))],
                 "untied canon": ["canon", "--untie"]}  # fmt: skip
        first = choose(list(verbs))
        steps = [first] if draw.random() < 0.6 else [first, choose(["fold", "canon"])]
        what += [*steps, dtype]
        for step in steps:
            b = maker.rewritten(b, *verbs[step], *([] if b.suffix == ".bin" else ["--dtype", dtype if step == steps[-1] else "f32"]))
    if draw.random() < 0.5:
        a, b, what = b, a, [*what, "B is the original"]
    return a, b, what


def run_pair(program, models, converted, seed, index, work, fixtures=0):
    """The record of one pair."""
    draw = numpy.random.default_rng([seed, index])
    with tempfile.TemporaryDirectory(dir=work) as folder:
        return judge(Maker(program, pathlib.Path(folder), draw), models, converted, index, fixtures)


def judge(maker, models, converted, index, fixtures=0):
    record = {"pair": index}
    try:
        a, b, record["what"] = make_pair(maker, models, converted, fixtures)
    except Failed as failure:  # an element of too small a group, a factor that the model has not, F16 that overflows
        return record | {"said": "not made", "message": str(failure)[-200:]}
    try:
        answer = maker.program.diff(a, b)
    except Failed as failure:
        return record | {"said": "failed", "message": str(failure)}
    said = statement_of(answer)
    if said == "undecided" and any("no part in what" in r or "not understood" in r for r in answer["reasons"]):
        said = "not understood"
    record["said"] = said
    if said == "changed":
        off = record["outputs off by"] = change_of_outputs(a, b)
        if off is not None and off > OTHER_OUTPUTS:
            record["said"] = "another function"
    if said in ("changed", "undecided"):
        worst = max(answer["tensors"], key=lambda tensor: tensor["excess"] or 0, default=None)
        record |= {"verdict": answer["verdict"], "reasons": answer["reasons"][:3]}
        if worst:
            record["worst"] = {key: worst[key] for key in ("tensor", "excess", "residual", "rounding", "size", "relation", "stands_out")}
            record["off"] = sum(not tensor["agrees"] for tensor in answer["tensors"])
    return record


ONE_AT_A_TIME = threading.Lock()  # transformers is not made for threads


def outputs_of(folder):
    """By transformers in double, of the same tokens for every model; nothing where it makes up tensors."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0])
    net, loaded = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    if loaded["missing_keys"]:
        return None
    net = net.double().eval()
    tokens = torch.randint(3, config.vocab_size, (8, 10), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        output = net(input_ids=tokens)
    return output.logits if "logits" in output else output.last_hidden_state


def change_of_outputs(a, b):
    """Of two folders, relative to the outputs; nothing of other files."""
    if not (a.is_dir() and b.is_dir()):
        return None
    with ONE_AT_A_TIME:
        before, after = outputs_of(a), outputs_of(b)
    return None if before is None or after is None else float((before - after).norm() / before.norm())


def way_of(what):
    """A copy that two verbs wrote was rounded twice."""
    twice = what[1] == "rewritten" and len([word for word in what if word in VERBS]) > 1
    return "rewritten twice" if twice else what[1]


def table(records):
    """Ways of making a pair against statements, as Markdown."""
    ways = collections.defaultdict(collections.Counter)
    for record in records:
        if record["said"] != "not made":
            ways[way_of(record["what"])][record["said"]] += 1
    lines = ["| honest pairs | n | " + " | ".join(STATEMENTS) + " |", "|---" * (len(STATEMENTS) + 2) + "|"]
    total = sum(ways.values(), collections.Counter())
    for way, count in [*sorted(ways.items()), ("all", total)]:
        lines.append(f"| {way} | {sum(count.values()):,} | " + " | ".join(f"{count[said]:,}" for said in STATEMENTS) + " |")
    return lines


def read_records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regauge", help="the program")
    parser.add_argument("--verdicts", help="of the preset `bench`: judges in place of `regauge diff`, which also looks for causes")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="JSON lines; pairs that it has are not made again")
    parser.add_argument("--pairs", type=int, default=10000, help="number of pairs (default 10000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="pairs at once (default 2)")
    parser.add_argument("--work", type=pathlib.Path, help="where models are made and kept (default: a new temporary folder)")
    parser.add_argument("--data", type=pathlib.Path, default=os.environ.get("REGAUGE_DATA"), help="the data sets of docs/lab.md")
    parser.add_argument("--fixtures", type=float, default=0, help="share of pairs that are made of the tests' fixtures alone, which are small")
    parser.add_argument("--only", type=int, help="make this pair alone, and print it")
    parser.add_argument("--keep", type=pathlib.Path, help="with --only: a new folder for its files")
    parser.add_argument("--table", type=pathlib.Path, help="print the table of these records and end")
    parser.add_argument("--write", type=pathlib.Path, help="with --table: put it in the place of this page's table")
    options = parser.parse_args()
    if options.table:
        made = table(read_records(options.table))
        if options.write:
            stored.write_table(options.write, made)
        print("\n".join(made))
        return
    work = options.work or pathlib.Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    program = Program(options.regauge, verdicts=options.verdicts)
    models, converted = all_models(work, options.data), converted_models(work)
    if options.only is not None:
        folder = options.keep or pathlib.Path(tempfile.mkdtemp(dir=work))
        folder.mkdir(exist_ok=True)
        draw = numpy.random.default_rng([options.seed, options.only])
        print(json.dumps(judge(Maker(program, folder, draw), models, converted, options.only, options.fixtures)))
        return
    done = {record["pair"] for record in read_records(options.output)}
    wanted = [i for i in range(options.pairs) if i not in done]
    with options.output.open("a") as output, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        tasks = [pool.submit(run_pair, program, models, converted, options.seed, i, work, options.fixtures) for i in wanted]
        for task in concurrent.futures.as_completed(tasks):
            record = task.result()
            print(json.dumps(record), file=output, flush=True)
            if record["said"] in ("changed", "failed"):
                print(json.dumps(record), file=sys.stderr, flush=True)
    print("\n".join(table(read_records(options.output))))


if __name__ == "__main__":
    main()
