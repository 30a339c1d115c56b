"""Checkpoints as files: made, changed, and stored in every type. Shared by limits.py and honest_pairs.py."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import gguf
import numpy
import safetensors.numpy
from gguf import GGMLQuantizationType as Type

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / name) for name in ("python", "python_package")]

import llama_cpp  # noqa: E402
import packages  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
FLOATS = ["f32", "f16", "bf16"]
QUANTISED = ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "q6_k", "q5_k", "q4_k"]


class Failed(Exception):
    """The program gave up; its message."""


ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Program:
    """`regauge` on one thread. Another build may make the files (`maker`), and `verdicts` (bench/equivalence/verdicts.cpp) may
    judge them: it does not look for causes."""

    def __init__(self, path, maker=None, verdicts=None):
        self.path, self.maker, self.verdicts = path, maker or path, verdicts
        self.judges = threading.local()

    def __call__(self, *words, expect=(0,)):
        path = self.path if words[0] == "diff" else self.maker
        run = subprocess.run(
            [path, *map(str, words)], capture_output=True, text=True, check=False, errors="replace", env=ONE_THREAD
        )
        if run.returncode not in expect:
            raise Failed(f"{words[0]}: exit {run.returncode}: {run.stderr.strip()[-300:]}")
        return run.stdout

    def diff(self, a, b):
        if not self.verdicts:
            return json.loads(self("diff", a, b, "--json", expect=(0, 1)))
        judge = getattr(self.judges, "process", None)
        if judge is None or judge.poll() is not None:
            judge = self.judges.process = subprocess.Popen(
                [self.verdicts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ONE_THREAD
            )
        judge.stdin.write(f"{a}\t{b}\n")
        judge.stdin.flush()
        line = judge.stdout.readline()
        answer = json.loads(line) if line else {"error": f"verdicts ended with status {judge.wait()}"}
        if "error" in answer:
            raise Failed(answer["error"])
        return answer


def statement_of(answer):
    """One of identical, same-numbers, other-coordinates, changed, undecided. Programs from before these statements only
    say whether an element was needed."""
    if answer["verdict"] == "same":
        return answer.get("statement") or ("same-numbers" if answer["identity"] else "other-coordinates")
    return "undecided" if answer["verdict"] == "undecided" else "changed"


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# Files


def kind_of(name):
    """gguf's type of this name: f16, q4_k, ..."""
    return Type[name.upper()]


def stored_kind(kind, columns, name=""):
    """The type that llama-quantize gives a matrix with rows of this length, which must be whole blocks. Without a name, as
    with its option --pure: no matrix gets a finer type."""
    mixed = {"q4_k": "q6_k", "q5_k": "q6_k"}
    if kind in mixed and name.endswith(("attn_v.weight", "ffn_down.weight", "output.weight")):
        kind = mixed[kind]
    if columns % gguf.GGML_QUANT_SIZES[kind_of(kind)][0] == 0:
        return kind
    fallback = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0"}.get(kind)
    return stored_kind(fallback, columns) if fallback else "f16"


def encode(values, kind):
    """The bytes of numbers in a type of GGUF, as rows: by torch's rounding or llama.cpp's quantiser."""
    if kind == "f32":
        return values.astype(numpy.float32)
    if kind == "f16":
        return values.astype(numpy.float16)
    if kind == "bf16":
        return gguf.quants.quantize(values.astype(numpy.float32), Type.BF16)
    return llama_cpp.quantise(values, kind_of(kind))


def rewrite_gguf(source, target, change):
    """A GGUF file again, with the tensors that change(name, float32 matrix) returns as (bytes, type), or None to keep."""
    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), bytes(reader.fields["general.architecture"].parts[-1]).decode())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for tensor in reader.tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        changed = change(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(shape))
        data, kind = changed or (numpy.array(tensor.data), tensor.tensor_type)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def quantise_gguf(source, target, kind, mixed=True):
    """Every matrix of a GGUF file in this type, or in the one that llama-quantize falls back to; `mixed`: some in a finer
    type, as in its Q4_K_M."""

    def change(name, values):
        if values.ndim < 2:
            return None
        chosen = stored_kind(kind, values.shape[1], name if mixed else "")
        return encode(values, chosen), kind_of(chosen)

    return rewrite_gguf(source, target, change)


# Models


TINY = [
    "llama-64", "llama-64-tied", "llama-256", "llama-256-tied", "mistral-64", "qwen2-64", "qwen2-256", "qwen3-64",
    "gemma-64", "gpt2-64", "gpt_neox-64", "bert-64", "vit-64",
]  # fmt: skip


@functools.cache
def tiny_models():
    """name -> config: families and sizes whose rows are whole blocks, of 32 and of 256 numbers."""
    import transformers as tf

    size = dict(intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
    small = size | dict(hidden_size=64, vocab_size=128, max_position_embeddings=64)
    llama = small | dict(num_key_value_heads=2, rope_theta=5000.0)
    wide = llama | dict(hidden_size=256, intermediate_size=512, vocab_size=320)
    gpt2 = dict(vocab_size=128, n_embd=64, n_inner=96, n_layer=2, n_head=4, n_positions=64)
    vit = size | dict(hidden_size=64, image_size=12, patch_size=4, num_channels=3, num_labels=7)
    return {
        "llama-64": tf.LlamaConfig(**llama),
        "llama-64-tied": tf.LlamaConfig(**llama, tie_word_embeddings=True),
        "llama-256": tf.LlamaConfig(**wide),
        "llama-256-tied": tf.LlamaConfig(**wide, tie_word_embeddings=True),
        "mistral-64": tf.MistralConfig(**llama, head_dim=16, sliding_window=None),
        "qwen2-64": tf.Qwen2Config(**llama),
        "qwen2-256": tf.Qwen2Config(**wide),
        "qwen3-64": tf.Qwen3Config(**llama, head_dim=16),
        "gemma-64": tf.GemmaConfig(**llama, head_dim=16),
        "gpt2-64": tf.GPT2Config(**gpt2),
        "gpt_neox-64": tf.GPTNeoXConfig(**small),
        "bert-64": tf.BertConfig(**small),
        "vit-64": tf.ViTConfig(**vit),
    }


HEADS = {"BertConfig": "BertForMaskedLM", "ViTConfig": "ViTForImageClassification", "GPT2Config": "GPT2LMHeadModel"}


def make_tiny(name, folder, seed, trained):
    """A random model; if `trained`, with what training leaves: heavy tails, a direction that all tokens share, tiny gains."""
    import torch
    import transformers as tf

    config = tiny_models()[name]
    kind = type(config).__name__
    torch.manual_seed(seed)
    model = getattr(tf, HEADS.get(kind, kind.replace("Config", "ForCausalLM")))(config)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, value in model.named_parameters():
            noise = torch.randn(value.shape, generator=draw)
            if trained:
                noise /= torch.empty(value.shape).exponential_(4, generator=draw).add(0.25).sqrt()
            if value.ndim == 1 and key.endswith("weight"):
                gains = 1 + 0.25 * noise
                if trained:
                    gains[torch.randint(len(gains), (2,), generator=draw)] *= 1e-3
                value.copy_(gains - 1 if kind == "GemmaConfig" else gains)
            else:
                value.copy_(noise * (0.3 if value.ndim == 1 else value.shape[-1] ** -0.5))
        if trained and hasattr(config, "vocab_size"):
            tokens = model.get_input_embeddings().weight
            tokens += 3 * tokens.std() * torch.randn(tokens.shape[1], generator=draw)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return folder


def package(name, version):
    """The unpacked folder of a package; tests/python_package/packages.py keeps it."""
    return packages.package(name, version)


def read_tensors(folder):
    """All tensors of a folder as float32; BF16 and F16 are decoded."""
    import torch
    from safetensors.torch import load_file

    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= {name: value.to(torch.float32).numpy() for name, value in load_file(path).items()}
    return tensors


def write_tensors(source, folder, tensors):
    """A folder with the config of `source` and these tensors in one file."""
    folder.mkdir()
    shutil.copy(source / "config.json", folder / "config.json")
    safetensors.numpy.save_file(
        {name: numpy.ascontiguousarray(value) for name, value in tensors.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )
    return folder


# Elements


def read_element(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_element(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def spread_element(path, spread, draw):
    """Makes the blocks of an element extreme inside their group: singular values over the range `spread`."""
    header, data = read_element(path)
    data = bytearray(data)

    def orthogonal(n):
        q, r = numpy.linalg.qr(draw.standard_normal((n, n)))
        return q * numpy.sign(numpy.diag(r))

    for name, entry in header.items():
        if not name.endswith(".blocks"):
            continue
        first, last = entry["data_offsets"]
        rows, width = entry["shape"]
        blocks = numpy.frombuffer(bytes(data[first:last])).reshape(rows // width, width, width).copy()
        for i, block in enumerate(blocks):
            turned = numpy.allclose(block @ block.T, numpy.eye(width), atol=1e-9) and "residual" in name
            if turned or (width == 1 and numpy.allclose(abs(blocks), 1)):
                continue
            rotary = ".qk" in name and width % 2 == 0 and numpy.allclose(block[0, 2:], 0)
            if width == 1:
                blocks[i] = block * spread ** draw.uniform(-0.5, 0.5)
            elif rotary:
                blocks[i] = numpy.diag(numpy.repeat(spread ** draw.uniform(-0.5, 0.5, width // 2), 2)) @ block
            elif ".vo" in name or ".qk" in name:
                values = spread ** numpy.linspace(-0.5, 0.5, width)
                blocks[i] = orthogonal(width) @ numpy.diag(values) @ orthogonal(width)
        data[first:last] = blocks.tobytes()
    write_element(path, header, bytes(data))


def exact_element(path):
    """Rounds the scales of an element to powers of two and leaves out its rotations: nothing is lost in any float type."""
    header, data = read_element(path)
    data = bytearray(data)
    for name, entry in header.items():
        if name.endswith(".blocks") and entry["shape"][1] == 1:
            first, last = entry["data_offsets"]
            blocks = numpy.frombuffer(bytes(data[first:last]))
            data[first:last] = (numpy.sign(blocks) * 2 ** numpy.round(numpy.log2(abs(blocks)))).tobytes()
    write_element(path, header, bytes(data))


def write_table(page, lines):
    """Puts a Markdown table in the place of the page's table with the same first heading."""
    name = lines[0].split("|")[1].strip()
    result, inside, found = [], False, False
    for line in page.read_text().splitlines():
        if not inside and line.startswith("| ") and line.split("|")[1].strip() == name:
            result += lines
            inside = found = True
        inside = inside and line.startswith("|")
        if not inside:
            result.append(line)
    if not found:
        raise SystemExit(f"{page} has no table {name!r}")
    page.write_text("\n".join(result) + "\n")
