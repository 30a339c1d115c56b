"""Small models, and copies of them that somebody has doctored.

docs/promise.md lists the attacks, and the tests that they became.

An attack must not be called the same; beside it an honest copy must not be called changed. Open points are marked
xfail, strictly, so that the mark goes when the point does.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

transformers.utils.logging.set_verbosity(50)
transformers.utils.logging.disable_progress_bar()

DROPPED = "(dropped)"
HEADS, KV_HEADS = 4, 2


def llama(folder, seed=0, dtype=torch.float32, **shape):
    """A random Llama whose outputs are far from uniform."""
    torch.manual_seed(seed)
    fields = {
        "vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }  # fmt: skip
    return saved(transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**fields, **shape})), folder, dtype)


def saved(model, folder, dtype=torch.float32):
    """The model with matrices of its own size and with gains around 1, as a folder."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
            else:
                parameter.uniform_(0.5, 1.5)
    model.to(dtype).save_pretrained(folder)
    return folder


def weights(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def doctored(source, target, change=None, **keys):
    """A copy of a folder: change(tensors) edits its tensors in place, `keys` are set in its config."""
    shutil.copytree(source, target)
    if change is not None:
        tensors = weights(target)
        change(tensors)
        tensors = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
        safetensors.torch.save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    if keys:
        config = {**json.loads((target / "config.json").read_text()), **keys}
        config = {key: value for key, value in config.items() if value != DROPPED}
        (target / "config.json").write_text(json.dumps(config))
    return target


def doctored_gguf(source, target, change=None, fields=(), tensors=()):
    """A copy of a GGUF file: change(name, values) gives other data and their type, or None to keep the tensor."""
    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in dict(fields):
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    kinds = {bool: gguf.GGUFValueType.BOOL, float: gguf.GGUFValueType.FLOAT32, str: gguf.GGUFValueType.STRING,
             int: gguf.GGUFValueType.UINT32}  # fmt: skip
    for key, value in dict(fields).items():
        writer.add_key_value(key, value, kinds[type(value)])
    for tensor in reader.tensors:
        other = None
        if change is not None:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            other = change(tensor.name, values.reshape([int(n) for n in tensor.shape][::-1]))
        data, kind = other or (np.array(tensor.data), tensor.tensor_type)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    for name, data in dict(tensors).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def added(tensor, share, seed=0, rows=slice(None)):
    """The tensor with noise of this share of its size, in some of its rows."""
    drawn = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    delta = torch.zeros_like(drawn)
    delta[rows] = drawn[rows]
    return (tensor.double() + delta * (share * tensor.double().norm() / delta.norm())).to(tensor.dtype)


def noisy(share, part=""):
    """The change that adds noise of this share to every matrix whose name has `part`."""

    def change(tensors):
        for number, name in enumerate(sorted(tensors)):
            if tensors[name].ndim == 2 and part in name:
                tensors[name] = added(tensors[name], share, number)

    return change


def said(a, b, *more):
    """The answer of `diff --json`, with its exit code."""
    done = subprocess.run(
        [os.environ["REGAUGE"], "diff", str(a), str(b), "--json", *map(str, more)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    assert (done.returncode == 0) == (answer["verdict"] == "same")
    return answer


def refused(a, b, *more):
    """The message of a `diff` that refuses one of the two; None where it answers."""
    done = subprocess.run(
        [os.environ["REGAUGE"], "diff", str(a), str(b), *map(str, more)], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode == 2 else None


def logits(folder, loader=transformers.LlamaForCausalLM, dtype=torch.float32):
    model = loader.from_pretrained(folder, dtype=dtype).eval()
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 53, (8, 40), generator=generator)
    with torch.no_grad():
        return model(input_ids=tokens).logits.double()


def other_tokens(a, b):
    """The share of positions where another token is the most likely one."""
    return (logits(a).argmax(-1) != logits(b).argmax(-1)).double().mean().item()


def header_and_data(path):
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def write_safetensors(path, header, data=b""):
    """A file with this header, which may be bytes that say anything."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path
