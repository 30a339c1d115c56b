#!/usr/bin/env python3
"""How much memory does a layer of many experts take?

    experts.py [--program regauge] [--width 1024] [--ffn 512] [--experts 64] [--layers 1]

Makes a Qwen3-MoE (a tensor for each map of each expert) and a gpt-oss (stacks) of random BF16 numbers in a temporary
folder, whose experts are most of the model, and runs `act`, `diff`, `canon`, `fold` and `convert` on them. Prints one JSON record for each:
the bytes of a layer's experts and of one map of one expert in double, and of each verb the anonymous memory at its peak and the
processor time. Needs numpy, four times the checkpoint's size on disk, and Linux (/proc).
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import tempfile

import many_tensors
import numpy
import streaming


def configs(width, ffn, experts, layers, vocabulary=4096):
    sizes = {
        "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 16, "num_key_value_heads": 4,
        "head_dim": width // 16, "num_experts_per_tok": 4, "vocab_size": vocabulary, "tie_word_embeddings": False,
    }  # fmt: skip
    return {
        "qwen3_moe": {"model_type": "qwen3_moe", "moe_intermediate_size": ffn, "num_experts": experts,
                      "norm_topk_prob": True} | sizes,
        "gpt_oss": {"model_type": "gpt_oss", "intermediate_size": ffn, "num_local_experts": experts,
                    "rope_scaling": many_tensors.MODELS["gpt-oss-120b"]["rope_scaling"]} | sizes,
    }  # fmt: skip


def make_checkpoint(folder, config, seed=0):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    generator = numpy.random.default_rng(seed)
    streaming.write_safetensors(folder / "model.safetensors", many_tensors.tensor_shapes(config), generator)


def expert_bytes(config):
    """Of a layer's experts as they are stored."""
    shapes = many_tensors.tensor_shapes(config | {"num_hidden_layers": 1})
    return sum(2 * math.prod(shape) for name, shape in shapes.items() if ".experts." in name)


def verbs(work, source, to_gguf):
    """Arguments, and what they write."""
    moved, out = work / "moved", work / "out"
    yield "act", ["act", source, "-o", moved, "--random", "1"], None
    yield "diff", ["diff", source, moved], None
    yield "canon", ["canon", source, "-o", out], out
    yield "fold", ["fold", source, "-o", out], out
    if to_gguf:
        yield "convert", ["convert", source, "--to", "gguf", "-o", work / "out.gguf"], work / "out.gguf"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--only", nargs="*", help="verbs")
    for name, value in {"width": 1024, "ffn": 512, "experts": 64, "layers": 1}.items():
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    for family, config in configs(options.width, options.ffn, options.experts, options.layers).items():
        with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
            work = pathlib.Path(temporary)
            make_checkpoint(work / "source", config)
            record = {"family": family, "a layer's experts": expert_bytes(config), "a slice in double": 8 * options.width * options.ffn}
            for verb, arguments, written in verbs(work, work / "source", family == "qwen3_moe"):
                if options.only and verb not in options.only:
                    continue
                _, processor, _, anonymous = streaming.run_measured([options.program, *arguments])
                record[verb] = {"peak bytes": anonymous, "processor seconds": round(processor, 1)}
                if written:
                    shutil.rmtree(written) if written.is_dir() else written.unlink()
        print(json.dumps(record, indent=2), flush=True)


if __name__ == "__main__":
    main()
