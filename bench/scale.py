#!/usr/bin/env python3
"""How much faster is work on several layers at a time, and what does depth cost?

    scale.py [--program regauge] [--jobs 2] [--width 512] [--layers 12] [--runs 3] [--depths 24 48 96]

Makes a Llama of random BF16 numbers, its copy moved by a random element, and runs
every verb that takes --jobs with 1 and with N, in turn; then `diff`, `canon` and `align` of narrow models of layer norms
at three depths. Prints one JSON record: of each verb the least seconds and processor seconds of all runs, their ratios,
and the largest peak of anonymous memory. Says how busy the machine was. Needs numpy, five times the checkpoint's size
on disk, and Linux (/proc).
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import numpy
import streaming


def layer_norm_model(folder, layers, width=16):
    """A GPT-NeoX in double, so that nothing is in doubt."""
    folder.mkdir()
    config = {
        "model_type": "gpt_neox", "hidden_size": width, "intermediate_size": width, "num_hidden_layers": layers,
        "num_attention_heads": 2, "vocab_size": 64, "max_position_embeddings": 64, "rotary_pct": 0.25,
        "use_parallel_residual": True, "hidden_act": "gelu", "layer_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes = {"gpt_neox.embed_in.weight": (64, width), "embed_out.weight": (64, width)}
    maps = {"attention.query_key_value": (3 * width, width), "attention.dense": (width, width),
            "mlp.dense_h_to_4h": (width, width), "mlp.dense_4h_to_h": (width, width),
            "input_layernorm": (width,), "post_attention_layernorm": (width,)}  # fmt: skip
    for layer in range(layers):
        for name, shape in maps.items():
            shapes[f"gpt_neox.layers.{layer}.{name}.weight"] = shape
            shapes[f"gpt_neox.layers.{layer}.{name}.bias"] = shape[:1]
    shapes |= {f"gpt_neox.final_layer_norm.{name}": (width,) for name in ("weight", "bias")}
    generator, header, at, numbers = numpy.random.default_rng(0), {}, 0, []
    for name, shape in shapes.items():
        values = generator.normal(1 if "norm" in name else 0, 0.3, shape)
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
        numbers.append(values.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(numbers))


def longest_path(command, jobs):
    """The seconds that the work would take on free cores: the processor time of the main thread, and of each spread
    loop that of the thread that worked longest. Each loop has `jobs` threads of its own, made one after the other; the
    BLAS has none here. What a thread does in its last milliseconds is missed."""
    process = subprocess.Popen(
        [*map(str, command), "--jobs", str(jobs)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    used = {}
    while process.poll() is None:
        for task in pathlib.Path(f"/proc/{process.pid}/task").glob("*"):
            try:
                used[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
            except (OSError, IndexError):
                continue
        time.sleep(0.002)
    main = used.pop(process.pid, 0)
    workers = [used[thread] for thread in sorted(used)]
    loops = [workers[i : i + jobs] for i in range(0, len(workers), jobs)] if jobs > 1 else []
    return main + sum(map(max, loops)), main + sum(map(sum, loops))


def measured(command, written):
    seconds, processor, _, anonymous = streaming.run_measured(command)
    if written is not None and written.exists():
        shutil.rmtree(written) if written.is_dir() else written.unlink()
    return {"seconds": seconds, "processor seconds": processor, "peak": anonymous}


def least(runs):
    return {
        "seconds": round(min(run["seconds"] for run in runs), 2),
        "processor seconds": round(min(run["processor seconds"] for run in runs), 2),
        "peak MB": round(max(run["peak"] for run in runs) / 1e6),
    }


def with_jobs(options, work):
    source, moved, proof = work / "source", work / "moved", work / "proof.safetensors"
    size = streaming.make_checkpoint(
        source, 2, layers=options.layers, width=options.width, ffn=11 * options.width // 4, vocabulary=8000,
        heads=options.width // 64, kv_heads=max(1, options.width // 256),
    )
    streaming.run_measured([options.program, "act", source, "-o", moved, "--random", "1"])
    streaming.run_measured([options.program, "diff", source, moved, "--certificate", proof])
    out = work / "out"
    verbs = {
        "act": (["act", source, "-o", out, "--random", "1"], out),
        "fold": (["fold", source, "-o", out], out),
        "diff in place": (["diff", source, source], None),
        "diff of the moved copy": (["diff", source, moved], None),
        "verify": (["verify", source, moved, proof], None),
        "align by weights": (["align", source, moved, "--method", "weights", "--starts", "1", "--iterations", "3",
                              "-o", out], out),
    }  # fmt: skip
    record = {"bytes": size}
    for verb, (arguments, written) in verbs.items():
        runs = {1: [], options.jobs: []}
        for _ in range(options.runs):
            for jobs, list_of in runs.items():
                list_of.append(measured([options.program, *arguments, "--jobs", jobs], written))
        one, several = least(runs[1]), least(runs[options.jobs])
        record[verb] = {
            "1 job": one,
            f"{options.jobs} jobs": several,
            "times as fast": round(one["seconds"] / several["seconds"], 2),
            "times the processor time": round(several["processor seconds"] / one["processor seconds"], 2),
        }
        path, all_threads = longest_path([options.program, *arguments], options.jobs)
        if written is not None:
            shutil.rmtree(written)
        record[verb]["processor seconds over the longest path"] = round(all_threads / path, 2)
    return record


def by_depth(options, work):
    record = {}
    for depth in options.depths:
        folder, moved, out = work / str(depth), work / f"{depth}-moved", work / "out"
        layer_norm_model(folder, depth)
        streaming.run_measured([options.program, "act", folder, "-o", moved, "--random", "1"])
        verbs = {
            "diff": ["diff", folder, moved],
            "canon": ["canon", folder, "--dry-run"],
            "align": ["align", folder, moved, "--method", "weights", "--starts", "1", "--iterations", "3", "-o", out,
                      "--dry-run"],
        }  # fmt: skip
        for verb, arguments in verbs.items():
            runs = [measured([options.program, *arguments, "--jobs", 1], out) for _ in range(options.runs)]
            record.setdefault(verb, {})[depth] = least(runs)["processor seconds"]
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    for name, value in {"jobs": 2, "width": 512, "layers": 12, "runs": 3}.items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--depths", type=int, nargs="*", default=[24, 48, 96])
    options = parser.parse_args()
    record = {"cores": os.cpu_count(), "load before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as temporary:
        record |= with_jobs(options, pathlib.Path(temporary))
    with tempfile.TemporaryDirectory() as temporary:
        record["processor seconds by depth"] = by_depth(options, pathlib.Path(temporary))
    record["load after"] = os.getloadavg()[0]
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
