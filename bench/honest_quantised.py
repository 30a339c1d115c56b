#!/usr/bin/env python3
"""Is a quantised file a faithful quantisation of its original? Files by the tools themselves, counted by what `diff` says.

    honest_quantised.py --regauge build/release/regauge -o quantised.jsonl [--files 210]
    honest_quantised.py --table quantised.jsonl

File i is drawn from i alone: a tiny Llama with weights of one of several distributions, and all of its matrices between the tables
quantised. It is compared with its original, and so is a copy in which one block of one matrix is another matrix's. A record per file.
"""

import argparse
import collections
import json
import pathlib
import shutil
import subprocess
import tempfile

import safetensors.torch
import torch
import transformers
from quantisers import QUANTISERS, installed

WIDTH, INNER = 128, 256
SPOILED = "model.layers.0.self_attn.q_proj.weight"
BLOCKS = [(8, 16), (16, 32), (32, 32), (64, 64)]
WEIGHTS = {
    "normal": lambda shape, random: torch.randn(shape, generator=random),
    "heavy tails": lambda shape, random: torch.randn(shape, generator=random) / torch.rand(shape, generator=random).clamp(min=0.02),
    "rows of other sizes": lambda shape, random: torch.randn(shape, generator=random) * torch.exp(torch.randn(shape[0], 1, generator=random)),
    "outlier columns": lambda shape, random: torch.randn(shape, generator=random) * torch.where(torch.rand(shape[1], generator=random) < 0.02, 30.0, 1.0),
    "above zero": lambda shape, random: torch.rand(shape, generator=random) + 0.1,
    "rows of zeros": lambda shape, random: torch.randn(shape, generator=random) * (torch.rand(shape[0], 1, generator=random) < 0.9),
}  # fmt: skip


def original(folder, kind, seed, dtype):
    config = transformers.LlamaConfig(hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
                                      vocab_size=96, max_position_embeddings=64, tie_word_embeddings=False)  # fmt: skip
    random = torch.Generator().manual_seed(seed)
    model = transformers.LlamaForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("proj.weight"):
            parameter.data = 0.05 * WEIGHTS[kind](tuple(parameter.shape), random)
    model.to(dtype).save_pretrained(folder)
    return folder


def quantised(folder, out, packer, change=lambda name, weights: weights):
    """The folder with every matrix between the tables packed; `change` is made before."""
    shutil.copytree(folder, out)
    pack, settings = packer
    tensors = {}
    for name, weights in safetensors.torch.load_file(folder / "model.safetensors").items():
        if not name.endswith("proj.weight"):
            tensors[name] = weights
            continue
        for part, value in pack(change(name, weights)).items():
            tensors[name.removesuffix("weight") + part] = value.contiguous()
    safetensors.torch.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | settings))
    return out


def with_a_block_from_elsewhere(folder, seed):
    """A change: one block of SPOILED is that of another matrix, where it is another number everywhere."""
    random = torch.Generator().manual_seed(seed)
    rows, cols = BLOCKS[seed % len(BLOCKS)]
    other = safetensors.torch.load_file(folder / "model.safetensors")["model.layers.0.self_attn.o_proj.weight"]
    row = int(torch.randint(0, WIDTH - rows + 1, (1,), generator=random))
    col = int(torch.randint(0, WIDTH - cols + 1, (1,), generator=random))

    def change(name, weights):
        if name != SPOILED:
            return weights
        changed = weights.clone()
        changed[row : row + rows, col : col + cols] = other[row : row + rows, col : col + cols]
        return changed

    return change, (rows, cols)


def said(regauge, a, b):
    answer = subprocess.run([regauge, "diff", a, b, "--json"], capture_output=True, text=True)
    if answer.returncode not in (0, 1):
        return "refused: " + answer.stderr.strip(), []
    found = json.loads(answer.stdout)
    return found["statement"], [t["tensor"] for t in found["tensors"] if t["relation"] in ("differs", "hidden")]


def run_file(regauge, i, work):
    names = installed()
    name = names[i % len(names)]
    weights = list(WEIGHTS)[i // len(names) % len(WEIGHTS)]
    dtype = torch.float16 if name in ("FP4", "INT8 of bitsandbytes") else torch.bfloat16
    packer = QUANTISERS[name][1]()
    folder = original(work / "original", weights, i, dtype)
    statement, differ = said(regauge, folder, quantised(folder, work / "quantised", packer))
    change, block = with_a_block_from_elsewhere(folder, i)
    spoiled, where = said(regauge, folder, quantised(folder, work / "spoiled", packer, change))
    return {"file": i, "quantiser": name, "weights": weights, "said": statement, "differ": differ, "block": block, "spoiled": spoiled, "where": where}


def table(records):
    rows = ["| quantiser | files | the same numbers | could not decide | not the same | a block from elsewhere: told |", "|---|---|---|---|---|---|"]
    by = collections.defaultdict(list)
    for record in records:
        by[record["quantiser"]].append(record)
    for name, some in [*sorted(by.items()), ("all", records)]:
        counts = collections.Counter(record["said"] for record in some)
        same = counts["same-numbers"] + counts["identical"]
        told = sum(record["spoiled"] == "not-the-same" for record in some)
        rows.append(f"| {name} | {len(some)} | {same} | {counts['undecided']} | {len(some) - same - counts['undecided']} | {told} |")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regauge")
    parser.add_argument("--files", type=int, default=210)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.table:
        print(table([json.loads(line) for line in options.table.read_text().splitlines()]))
        return
    done = len(options.output.read_text().splitlines()) if options.output.exists() else 0
    with options.output.open("a") as output:
        for i in range(done, options.files):
            with tempfile.TemporaryDirectory() as work:
                record = run_file(options.regauge, i, pathlib.Path(work))
            output.write(json.dumps(record) + "\n")
            output.flush()


if __name__ == "__main__":
    main()
