#!/usr/bin/env python3
"""Does `regauge act` stay within its memory on a checkpoint that does not fit, and how fast is it?

    streaming.py [--program regauge] [--layers 44] [--width 2048] ... [--max-memory 1GB]

Makes a llama checkpoint of random BF16 numbers in a temporary folder, copies it with cp, rewrites it with
`regauge fold` and `regauge act --random 1`, kills a second `act` half-way, and prints one JSON record.
Needs numpy, three times the checkpoint's size on disk, and Linux (/proc).
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy

SLACK = 200_000_000  # the program itself and its BLAS


def tensor_shapes(layers, width, ffn, vocabulary, heads, kv_heads):
    head = width // heads
    shapes = {"model.embed_tokens.weight": (vocabulary, width)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (width,),
            prefix + "self_attn.q_proj.weight": (heads * head, width),
            prefix + "self_attn.k_proj.weight": (kv_heads * head, width),
            prefix + "self_attn.v_proj.weight": (kv_heads * head, width),
            prefix + "self_attn.o_proj.weight": (width, heads * head),
            prefix + "post_attention_layernorm.weight": (width,),
            prefix + "mlp.gate_proj.weight": (ffn, width),
            prefix + "mlp.up_proj.weight": (ffn, width),
            prefix + "mlp.down_proj.weight": (width, ffn),
        }
    shapes["model.norm.weight"] = (width,)
    shapes["lm_head.weight"] = (vocabulary, width)
    return shapes


def write_safetensors(path, shapes, generator):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            values = generator.standard_normal(shape, dtype=numpy.float32)
            values = 1 + 0.1 * values if "norm" in name else values / numpy.sqrt(shape[-1])
            file.write((values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16))


def make_checkpoint(folder, shards, layers, width, ffn, vocabulary, heads, kv_heads, seed=0):
    """A folder that transformers can load; returns the number of bytes of its tensors."""
    folder.mkdir()
    shapes = tensor_shapes(layers, width, ffn, vocabulary, heads, kv_heads)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "head_dim": width // heads,
        "intermediate_size": ffn,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "num_hidden_layers": layers,
        "vocab_size": vocabulary,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    total = sum(2 * int(numpy.prod(shape)) for shape in shapes.values())
    parts, filled = [{}], 0
    for name, shape in shapes.items():
        if filled > total / shards:
            parts.append({})
            filled = 0
        parts[-1][name] = shape
        filled += 2 * int(numpy.prod(shape))
    generator = numpy.random.default_rng(seed)
    places = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        write_safetensors(folder / file, part, generator)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def status(pid):
    """Kilobytes by field of /proc/PID/status."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {
        line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")
    }


def processor_seconds():
    """Of all children so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_measured(command):
    """Seconds, processor seconds, the largest resident memory in bytes, of it anonymous; a failure ends the benchmark.

    The kernel's own maximum (VmHWM) is read until the process ends; wait4's maxrss would count the memory of this
    process at the time of the fork too.
    """
    begin, used = time.monotonic(), processor_seconds()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    peak, anonymous = 0, 0
    while process.poll() is None:
        now = status(process.pid)
        peak = max(peak, now.get("VmHWM", 0))
        anonymous = max(anonymous, now.get("RssAnon", 0))
        time.sleep(0.005)
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return time.monotonic() - begin, processor_seconds() - used, peak * 1024, anonymous * 1024


def copy_seconds(source, target):
    """cp, and until the bytes are on the disk, as regauge waits too."""
    begin = time.monotonic()
    subprocess.run(["cp", "-r", source, target], check=True)
    for path in target.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    return time.monotonic() - begin


def killed_leaves_nothing(command, out, seconds):
    """SIGKILL after `seconds`: is nothing under the final name?"""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    clean = not out.exists()
    for partial in out.parent.glob(f".{out.name}.partial-*"):
        shutil.rmtree(partial)
    return running and clean


def flops(layers, width, ffn, vocabulary, heads, kv_heads):
    """Of the products with the stream's D x D map, and with the d_v x d_v maps of the heads."""
    shapes = tensor_shapes(layers, width, ffn, vocabulary, heads, kv_heads)
    stream = sum(2 * width * int(numpy.prod(s)) for s in shapes.values() if len(s) == 2)
    values = sum(
        2 * (width // heads) * int(numpy.prod(shape))
        for name, shape in shapes.items()
        if "v_proj" in name or "o_proj" in name
    )
    return stream + values


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--max-memory", default="1GB")
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--shards", type=int, default=5)
    sizes = {"layers": 44, "width": 2048, "ffn": 5632, "vocabulary": 16000, "heads": 16,
             "kv_heads": 4}
    for name, value in sizes.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    options = parser.parse_args()
    sizes = {name: getattr(options, name) for name in sizes}
    units = {"GB": 1e9, "MB": 1e6}
    bound = float(options.max_memory[:-2]) * units[options.max_memory[-2:]]

    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        work = pathlib.Path(temporary)
        source, out = work / "source", work / "out"
        size = make_checkpoint(source, options.shards, **sizes)
        record = {
            "sizes": sizes,
            "bytes": size,
            "files": len(list(source.glob("*.safetensors"))),
            "processors": os.cpu_count(),
            "load before": os.getloadavg()[0],
        }
        copying = copy_seconds(source, out)
        record["copy"] = {"seconds": round(copying, 2), "GB/s": round(size / copying / 1e9, 3)}
        shutil.rmtree(out)
        for verb, arguments in {"fold": [], "act": ["--random", "1"]}.items():
            command = [options.program, verb, source, "-o", out, "--max-memory",
                       options.max_memory, *arguments]
            seconds, processor, peak, anonymous = run_measured(command)
            record[verb] = {
                "seconds": round(seconds, 2),
                "processor seconds": round(processor, 2),
                "GB/s": round(size / seconds / 1e9, 3),
                "times a copy": round(seconds / copying, 2),
                "peak bytes": peak,
                "of it anonymous": anonymous,
                "within bound": peak < bound + SLACK,
            }
            shutil.rmtree(out)
        work_done = flops(**sizes)
        seconds = record["act"]["seconds"]
        record["act"] |= {
            "flops": work_done,
            "GFLOP/s": round(work_done / seconds / 1e9, 1),
            "GFLOP per processor second": round(work_done / processor / 1e9, 1),
        }
        record["nothing left by SIGKILL"] = killed_leaves_nothing(command, out, seconds / 2)
    print(json.dumps(record, indent=2))
    kept = record["act"]["within bound"] and record["fold"]["within bound"]
    sys.exit(0 if kept and record["nothing left by SIGKILL"] else 1)


if __name__ == "__main__":
    main()
