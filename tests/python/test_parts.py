"""Work in parts: joined, they give the answer and the bytes of one run; what does not fit together is refused by name."""

import json
import os
import resource
import shutil
import subprocess
import time

import pytest
import safetensors.torch
import torch
import transformers

FORMATS = ("safetensors", "gguf")
NUMBERS = (1, 3, 40)  # of parts; 40 are more than there are layers, or files
PROGRAM = os.environ.get("REGAUGE", "regauge")


def run(*arguments, expect=(0,), **more):
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **more)
    assert result.returncode in expect, result.stdout + result.stderr
    return result


def edit(folder, change):
    """Changes one tensor of the first shard."""
    shard = sorted(folder.glob("*.safetensors"))[0]
    tensors = safetensors.torch.load_file(shard)
    name = sorted(name for name, tensor in tensors.items() if tensor.ndim == 2)[-1]
    tensors[name] = change(tensors[name])
    safetensors.torch.save_file(tensors, shard, metadata={"format": "pt"})


class Models:
    """A model, and what became of it."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=7, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=48,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
        source = folder / "source"
        model.save_pretrained(source, max_shard_size="60KB")
        assert len(list(source.glob("*.safetensors"))) > 3
        shutil.copytree(source, folder / "source-spoilt")
        edit(folder / "source-spoilt", lambda tensor: 1.5 * tensor)
        run("fold", source, "-o", folder / "source-rounded", "--dtype", "bf16", "--gains-only")
        run("act", source, "-o", folder / "source-moved", "--random", 1)
        shutil.copytree(source, folder / "source-copy")
        model.apply(lambda module: torch.nn.init.normal_(module.weight) if hasattr(module, "weight") else None)
        model.save_pretrained(folder / "source-other", max_shard_size="60KB")
        self.original = self.of_kind("source")

    def of_kind(self, name):
        if self.kind == "safetensors":
            return self.folder / name
        out = self.folder / f"{name}.gguf"
        if not out.exists():
            run("convert", self.folder / name, "--to", "gguf", "-o", out)
        return out

    def __getitem__(self, name):
        return self.of_kind(f"source-{name}")


@pytest.fixture(scope="module", params=FORMATS)
def models(request, tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"), request.param)


def make_parts(number, folder, *arguments, after=(), only=None):
    folder.mkdir(exist_ok=True)
    parts = []
    for part in only or range(1, number + 1):
        out = folder / f"part-{part}"
        later = ["--after", *after] if after else []
        run(*arguments, "--part", f"{part}/{number}", "-o", out, *later)
        parts.append(out)
    return parts


PAIRS = ("copy", "rounded", "spoilt", "moved", "other")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("pair", PAIRS)
def test_diff_is_that_of_one_run(models, tmp_path, pair, number):
    a, b = models.original, models[pair]
    whole = run("diff", a, b, "--json", "--all", expect=(0, 1))
    parts = make_parts(number, tmp_path / "parts", "diff", a, b)
    joined = run("diff", "--join", *parts, "--json", "--all", expect=(0, 1))
    assert joined.stdout == whole.stdout
    assert joined.returncode == whole.returncode
    # Every tensor was compared by one part.
    loops = [json.loads(part.read_text())["loops"]["compare in place"] for part in parts]
    units = sorted(int(unit) for loop in loops for unit in loop["results"])
    assert units == list(range(loops[0]["units"]))
