#!/usr/bin/env python3
"""How long does it take to open, inspect and plan a checkpoint of tens of thousands of tensors, and in how much memory?

    many_tensors.py [--program regauge] [MODEL ...]

Writes checkpoints with the names, shapes and shards of large sparse models. Their data is a hole in the file, but for
the norms' gains, so that DeepSeek-V3's 1.3 TB take some megabytes of disk. Prints one JSON record per model: processor
seconds (the least of three runs) and peak bytes of each verb. Needs Linux (/proc) and a file system with sparse files.
"""

import argparse
import json
import math
import os
import pathlib
import tempfile

import streaming

ONE = b"\x80\x3f"  # in BF16


def feed_forward(at, width, ffn):
    return {at + f"{name}_proj.weight": (width, ffn) if name == "down" else (ffn, width) for name in ("gate", "up", "down")}


def experts(at, config, width, ffn, stacked):
    """A tensor per expert and map, or per map: in gpt-oss's way, gate and up as one."""
    count = config["num_local_experts"] if stacked else config.get("n_routed_experts") or config["num_experts"]
    if not stacked:
        return {name: shape for e in range(count) for name, shape in feed_forward(at + f"experts.{e}.", width, ffn).items()}
    return {
        at + "experts.gate_up_proj": (count, width, 2 * ffn),
        at + "experts.gate_up_proj_bias": (count, 2 * ffn),
        at + "experts.down_proj": (count, ffn, width),
        at + "experts.down_proj_bias": (count, width),
    }


def attention(at, config):
    width, heads = config["hidden_size"], config["num_attention_heads"]
    if "kv_lora_rank" in config:
        plain, rotary, values = (config[key] for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        q, kv = config["q_lora_rank"], config["kv_lora_rank"]
        return {
            at + "q_a_proj.weight": (q, width),
            at + "q_a_layernorm.weight": (q,),
            at + "q_b_proj.weight": (heads * (plain + rotary), q),
            at + "kv_a_proj_with_mqa.weight": (kv + rotary, width),
            at + "kv_a_layernorm.weight": (kv,),
            at + "kv_b_proj.weight": (heads * (plain + values), kv),
            at + "o_proj.weight": (width, heads * values),
        }
    head, kv_heads = config["head_dim"], config["num_key_value_heads"]
    rows = {"q": heads * head, "k": kv_heads * head, "v": kv_heads * head, "o": width}
    shapes = {at + f"{name}_proj.weight": (size, heads * head if name == "o" else width) for name, size in rows.items()}
    if config["model_type"] == "gpt_oss":
        return shapes | {at + f"{name}_proj.bias": (size,) for name, size in rows.items()} | {at + "sinks": (heads,)}
    return shapes | {at + f"{name}_norm.weight": (head,) for name in "qk"}


def tensor_shapes(config):
    width, vocabulary = config["hidden_size"], config["vocab_size"]
    shapes = {"model.embed_tokens.weight": (vocabulary, width)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {at + f"{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        shapes |= attention(at + "self_attn.", config)
        if layer < config.get("first_k_dense_replace", 0):
            shapes |= feed_forward(at + "mlp.", width, config["intermediate_size"])
            continue
        stacked = "num_local_experts" in config
        ffn = config["intermediate_size" if stacked else "moe_intermediate_size"]
        count = config.get("n_routed_experts") or config.get("num_experts") or config["num_local_experts"]
        router = at + ("mlp.router" if stacked else "mlp.gate")
        shapes[router + ".weight"] = (count, width)
        if stacked:
            shapes[router + ".bias"] = (count,)
        if "n_routed_experts" in config:
            shapes[router + ".e_score_correction_bias"] = (count,)
            shapes |= feed_forward(at + "mlp.shared_experts.", width, ffn)
        shapes |= experts(at + "mlp.", config, width, ffn, stacked)
    return shapes | {"model.norm.weight": (width,), "lm_head.weight": (vocabulary, width)}


def write_sparse(path, shapes):
    """A safetensors file of zeros, and ones for gains."""
    header, end, gains = {"__metadata__": {"format": "pt"}}, 0, []
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
        if "norm" in name:
            gains.append((begin, math.prod(shape)))
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for begin, count in gains:
            file.seek(8 + len(text) + begin)
            file.write(count * ONE)
        file.truncate(8 + len(text) + end)


def make_checkpoint(folder, config, shard_bytes=4_300_000_000):
    """Returns the number of tensors."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    parts, filled = [{}], 0
    for name, shape in (shapes := tensor_shapes(config)).items():
        if filled > shard_bytes:
            parts.append({})
            filled = 0
        parts[-1][name] = shape
        filled += 2 * math.prod(shape)
    places = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{len(parts):06}.safetensors"
        write_sparse(folder / file, part)
        places |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return len(shapes)


MODELS = {
    "DeepSeek-V3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "num_hidden_layers": 61, "first_k_dense_replace": 3, "num_attention_heads": 128, "num_key_value_heads": 128,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
        "tie_word_embeddings": False,
    },
    "Qwen3-235B-A22B": {
        "model_type": "qwen3_moe", "hidden_size": 4096, "moe_intermediate_size": 1536, "num_hidden_layers": 94,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "norm_topk_prob": True, "vocab_size": 151936, "tie_word_embeddings": False,
    },
    "gpt-oss-120b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 128,
        "num_experts_per_tok": 4, "vocab_size": 201088, "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
                         "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
    },
}  # fmt: skip
VERBS = {
    "inspect": [],
    "fold": ["--dry-run", "--json"],
    "act": ["--dry-run", "--json", "--random", "1"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL", help=", ".join(MODELS))
    options = parser.parse_args()
    for model in options.models:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / model
            record = {"model": model, "tensors": make_checkpoint(folder, MODELS[model])}
            record["files"] = len(list(folder.glob("*.safetensors")))
            for verb, arguments in VERBS.items():
                runs = [streaming.run_measured([options.program, verb, folder, *arguments]) for _ in range(3)]
                record[verb] = {
                    "processor seconds": round(min(run[1] for run in runs), 2),
                    "peak bytes": max(run[2] for run in runs),
                }
        print(json.dumps(record, indent=2), flush=True)


if __name__ == "__main__":
    main()
