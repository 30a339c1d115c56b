#!/usr/bin/env python3
"""What do models of 70 B parameters and more cost, on a disk that cannot hold them?

    rehearsal.py FOLDER [--program regauge] [--model Llama-3-70B] [--layers N] [--jobs 1 2] [--parts 4] [--moved]

FOLDER is on a file system whose files can share blocks (btrfs, xfs). A checkpoint is made there with the names, shapes
and shards of the model, a shard for each layer; the numbers of all layers are those of one layer, of all experts those
of one expert, and all shards share their blocks, so that 141 GB take 6. The copy B is A moved by an element that is the
same in every layer: that of a model of one layer, by `regauge act`. Prints one JSON record: of every verb seconds,
processor seconds, the largest anonymous memory, and the bytes that the process read from disk; with --layers less than the
model has, also what a layer costs (with N and with N / 2 layers), and with it the whole model.

--layers N   only so many layers, and half as many
--moved      also `diff` and `verify` of the copy in other coordinates, with every number of --jobs, and in --parts parts

Needs numpy and Linux (/proc).
"""

import argparse
import fcntl
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time

import many_tensors
import numpy
import streaming

BLOCK = 4096
FICLONERANGE = 0x4020940D  # linux/fs.h
LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False, "vocab_size": 128256}
MODELS = {
    "Llama-3-70B": {**LLAMA, "num_hidden_layers": 80, "hidden_size": 8192, "intermediate_size": 28672,
                    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128},
    "Llama-3.1-405B": {**LLAMA, "num_hidden_layers": 126, "hidden_size": 16384, "intermediate_size": 53248,
                       "num_attention_heads": 128, "num_key_value_heads": 8, "head_dim": 128},
    "DeepSeek-V3": many_tensors.MODELS["DeepSeek-V3"],
}  # fmt: skip
ENDS = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")


def tensor_shapes(config):
    if config["model_type"] != "llama":
        return many_tensors.tensor_shapes(config)
    return streaming.tensor_shapes(config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"],
                                   config["vocab_size"], config["num_attention_heads"], config["num_key_value_heads"])  # fmt: skip


def kind(name):
    """What tensors share their numbers: all layers, and all experts. The first layers of DeepSeek are dense."""
    parts = name.split(".")
    for before in ("layers", "experts"):
        if before in parts:
            parts[parts.index(before) + 1] = "*"
    return ".".join(parts)


def blocks(size):
    return -(-size // BLOCK) * BLOCK


def write_numbers(path, values):
    with open(path, "wb") as file:
        file.write(values)
        file.truncate(blocks(file.tell()))


def draw(store, shapes):
    """A file for each kind of tensor, of random BF16 numbers."""
    store.mkdir()
    for name, shape in shapes.items():
        path = store / kind(name)
        if path.exists():
            continue
        random = numpy.random.default_rng(len(list(store.iterdir())))
        with open(path, "wb") as file:
            rows = max(1, 2**24 // shape[-1])
            for first in range(0, math.prod(shape[:-1]) or 1, rows):
                count = (min(rows, math.prod(shape[:-1]) - first), shape[-1]) if len(shape) > 1 else shape
                values = random.standard_normal(count, dtype=numpy.float32)
                values = 1 + 0.1 * values if "norm" in name else values / math.sqrt(shape[-1])
                file.write((values.view(numpy.uint32) >> 16).astype(numpy.uint16))
            file.truncate(blocks(file.tell()))


def write_shard(path, shapes, store):
    """Whole blocks are shared with the store; what is smaller than one comes last, and is copied."""
    names = sorted(shapes, key=lambda name: 2 * math.prod(shapes[name]) % BLOCK != 0)
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        begin, end = end, end + 2 * math.prod(shapes[name])
        header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (blocks(8 + len(text)) - 8 - len(text))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
        for name in names:
            begin, stop = (8 + len(text) + at for at in header[name]["data_offsets"])
            with open(store / kind(name), "rb") as source:
                if (stop - begin) % BLOCK == 0 and begin % BLOCK == 0:
                    fcntl.ioctl(file, FICLONERANGE, struct.pack("=qQQQ", source.fileno(), 0, stop - begin, begin))
                else:
                    file.seek(begin)
                    file.write(source.read(stop - begin))


def make_checkpoint(folder, config, store):
    """Returns the bytes of its tensors."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    shards, shapes = {}, tensor_shapes(config)
    for name, shape in shapes.items():
        shards.setdefault(name.split(".")[2] if "layers" in name else "ends", {})[name] = shape
    places = {}
    for i, tensors in enumerate(shards.values(), 1):
        file = f"model-{i:05}-of-{len(shards):05}.safetensors"
        write_shard(folder / file, tensors, store)
        places |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return sum(2 * math.prod(shape) for shape in shapes.values())


def keep_numbers(folder, store):
    """The tensors of a checkpoint as a store."""
    store.mkdir()
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            for name, entry in json.loads(file.read(length)).items():
                if name == "__metadata__" or (store / kind(name)).exists():
                    continue
                begin, end = entry["data_offsets"]
                file.seek(8 + length + begin)
                write_numbers(store / kind(name), file.read(end - begin))


def bytes_read(pid):
    """From disk, so far."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["read_bytes"])
    except (OSError, KeyError):
        return 0


def measured(program, *arguments, ends=(0,)):
    """The costs, and what it printed."""
    before = streaming.processor_seconds()
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([program, *map(str, arguments)], stdout=said, stderr=subprocess.DEVNULL)
        anonymous = read = 0
        while process.poll() is None:
            anonymous = max(anonymous, streaming.status(process.pid).get("RssAnon", 0))
            read = max(read, bytes_read(process.pid))
            time.sleep(0.01)
        said.seek(0)
        answer = said.read()
    if process.returncode not in ends:
        raise SystemExit(f"{arguments[0]} ended with {process.returncode}: {answer}")
    costs = {
        "seconds": round(time.monotonic() - begin, 2),
        "processor seconds": round(streaming.processor_seconds() - before, 2),
        "peak MB": round(anonymous / 1e3),
        "read GB": round(read / 1e9, 2),
    }
    return costs, answer


def in_parts(program, count, work, *arguments):
    """Of the parts of all rounds the sums of seconds, and the most memory; then of the join."""
    rounds, total = [], []
    for _ in range(3):
        folder = work / f"parts-{len(rounds)}"
        folder.mkdir()
        after = ["--after", *rounds] if rounds else []
        for k in range(1, count + 1):
            costs, _ = measured(program, *arguments, "--part", f"{k}/{count}", "-o", folder / str(k), *after)
            total.append(costs)
        rounds.append(folder)
    joined, said = measured(program, arguments[0], "--join", *rounds, "--json")
    for folder in rounds:
        shutil.rmtree(folder)
    return {
        "most processor seconds of a part, over the rounds": round(
            sum(max(c["processor seconds"] for c in total[i : i + count]) for i in range(0, len(total), count)), 2
        ),
        "processor seconds of all": round(sum(c["processor seconds"] for c in total), 2),
        "peak MB": max(c["peak MB"] for c in total),
        "join": joined,
    }, json.loads(said)["statement"]


def rehearse(options, config, work, stores):
    a, b, copy = work / "a", work / "b", work / "copy"
    record = {"layers": config["num_hidden_layers"], "bytes": make_checkpoint(a, config, stores["a"])}
    make_checkpoint(copy, config, stores["a"])
    program = options.program
    record["inspect"], _ = measured(program, "inspect", a)
    record["plan of fold"], _ = measured(program, "fold", a, "--dry-run", "--json")
    record["plan of act"], _ = measured(program, "act", a, "--random", 1, "--dry-run", "--json")
    for jobs in options.jobs:
        costs, said = measured(program, "diff", a, copy, "--jobs", jobs, "--json")
        record[f"diff in place, {jobs} jobs"] = {**costs, "statement": json.loads(said)["statement"]}
    if options.write:
        for verb in (["fold"], ["act", "--random", 1]):
            for jobs in options.jobs:
                record[f"{verb[0]}, {jobs} jobs"], _ = measured(program, *verb, a, "-o", work / "out", "--jobs", jobs)
                shutil.rmtree(work / "out")
    if options.moved:
        make_checkpoint(b, config, stores["b"])
        proof = work / "proof.safetensors"
        for jobs in options.jobs:
            costs, said = measured(program, "diff", a, b, "--jobs", jobs, "--json", ends=(0, 1))
            record[f"diff of the moved copy, {jobs} jobs"] = {**costs, "statement": json.loads(said)["statement"]}
        if json.loads(said)["statement"] == "other-coordinates":
            record["the same, with a certificate"], _ = measured(program, "diff", a, b, "--certificate", proof)
            record["verify"], _ = measured(program, "verify", a, b, proof)
            proof.unlink()
        if options.parts > 1:
            costs, statement = in_parts(program, options.parts, work, "diff", a, b, "--jobs", 1)
            record[f"diff of the moved copy in {options.parts} parts"] = {**costs, "statement": statement}
    for folder in (a, b, copy):
        shutil.rmtree(folder, ignore_errors=True)
    return record


def whole(few, many, layers):
    """Processor seconds of a model with so many layers, and those of a layer."""
    result = {}
    for verb, costs in many.items():
        if isinstance(costs, dict) and "processor seconds" in costs:
            for_one = (costs["processor seconds"] - few[verb]["processor seconds"]) / (many["layers"] - few["layers"])
            rest = costs["processor seconds"] + for_one * (layers - many["layers"])
            result[verb] = {"a layer": round(for_one, 3), "whole": round(rest, 1)}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--model", default="Llama-3-70B", choices=MODELS)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--moved", action="store_true")
    parser.add_argument("--write", action="store_true", help="also `fold` and `act`, whose results need disk")
    parser.add_argument("--config", type=json.loads, default={}, help="other sizes, as JSON, for a trial")
    options = parser.parse_args()
    config = {**MODELS[options.model], **options.config}
    dense = config.get("first_k_dense_replace", 0)
    if dense and options.moved:
        parser.error("--moved takes a model whose layers are alike")
    work = options.folder / "rehearsal"
    work.mkdir()
    try:
        stores = {"a": work / "store-a", "b": work / "store-b"}
        first = {**config, "num_hidden_layers": dense + 1}  # a layer of each kind
        draw(stores["a"], tensor_shapes(first))
        record = {"model": options.model, "processors": os.cpu_count(), "load": os.getloadavg()[0]}
        if options.moved:
            one, moved = work / "one", work / "one-moved"
            make_checkpoint(one, first, stores["a"])
            record["act of one layer"], _ = measured(options.program, "act", one, "--random", 1, "-o", moved)
            keep_numbers(moved, stores["b"])
            shutil.rmtree(one)
            shutil.rmtree(moved)
        if options.layers is None:
            record |= rehearse(options, config, work, stores)
        else:
            half = {**config, "num_hidden_layers": options.layers // 2}
            few = rehearse(options, half, work, stores)
            many = rehearse(options, {**config, "num_hidden_layers": options.layers}, work, stores)
            record["measured"] = [few, many]
            record["computed"] = whole(few, many, config["num_hidden_layers"])
        record["disk GB"] = round(sum(p.stat().st_size for s in stores.values() for p in s.glob("*")) / 1e9, 1)
        print(json.dumps(record, indent=2))
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
