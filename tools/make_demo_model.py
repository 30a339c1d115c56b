#!/usr/bin/env python3
"""Makes data/demo: the model that `regauge demo` writes.

    make_demo_model.py stories260K.bin [-o data/demo]

stories260K is a Llama of 260,032 parameters that Andrej Karpathy trained on TinyStories (MIT licence). Here its llama2.c file becomes
what transformers reads: a config.json and BF16 safetensors, with the rows of q and k in the order of halves.
"""

import argparse
import json
import pathlib
import struct

import numpy
import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tensors_of(path):
    """The config's sizes, and every tensor under the name that transformers gives it, as F32."""
    data = path.read_bytes()
    width, hidden, layers, heads, kv_heads, vocabulary, positions = struct.unpack("<7i", data[:28])
    numbers = numpy.frombuffer(data, numpy.float32, offset=28)
    used = 0

    def take(*shape):
        nonlocal used
        count = int(numpy.prod(shape))
        used += count
        return numbers[used - count : used].reshape(shape)

    def halves(rows, count):
        """From adjacent rotary pairs to halves, head by head."""
        return rows.reshape(count, -1, 2, width).swapaxes(1, 2).reshape(rows.shape)

    kv_width = width // heads * kv_heads
    result = {"model.embed_tokens.weight": take(vocabulary, width)}
    per_layer = [
        ("input_layernorm", (width,)),
        ("self_attn.q_proj", (width, width)),
        ("self_attn.k_proj", (kv_width, width)),
        ("self_attn.v_proj", (kv_width, width)),
        ("self_attn.o_proj", (width, width)),
        ("post_attention_layernorm", (width,)),
        ("mlp.gate_proj", (hidden, width)),
        ("mlp.down_proj", (width, hidden)),
        ("mlp.up_proj", (hidden, width)),
    ]
    for name, shape in per_layer:
        for layer, tensor in enumerate(take(layers, *shape)):
            if "q_proj" in name or "k_proj" in name:
                tensor = halves(tensor, heads if "q_proj" in name else kv_heads)
            result[f"model.layers.{layer}.{name}.weight"] = tensor
    result["model.norm.weight"] = take(width)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return config, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "data" / "demo")
    options = parser.parse_args()
    config, tensors = tensors_of(options.model)
    stored = {name: torch.tensor(tensor.copy()).to(torch.bfloat16) for name, tensor in tensors.items()}
    options.output.mkdir(parents=True, exist_ok=True)
    save_file(stored, options.output / "model.safetensors", metadata={"format": "pt"})
    (options.output / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
