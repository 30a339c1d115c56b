"""Time grows with the file: four times the tensors, layers, experts, neurons or heads take about four times the processor.
Memory does not grow with the experts of a layer."""

import json
import os
import resource
import struct
import subprocess
import sys

import pytest
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES

sys.path.insert(0, str(FIXTURES.parents[1] / "bench"))

import experts  # noqa: E402
import many_tensors  # noqa: E402
import streaming  # noqa: E402

# Of four times as much: 4 where time is in proportion, 16 where it is quadratic.
MOST = 9


def seconds(*arguments):
    """Processor time, the least of three runs."""
    best = float("inf")
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def llama(folder, **shape):
    torch.manual_seed(0)
    fields = {
        "vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }  # fmt: skip
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**fields, **shape}))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, parameter.shape[1] ** -0.5)
            else:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return folder


def growth(measure, small):
    return measure(4 * small) / measure(small)


def test_tensors(tmp_path):
    def measure(count):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "config.json").write_bytes((FIXTURES / "llama" / "config.json").read_bytes())
        tensors = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(count)}
        text = json.dumps(tensors).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
        return seconds("inspect", folder)

    assert growth(measure, 5000) < MOST


def diff_with_moved(tmp_path, regauge, folder):
    moved = tmp_path / (folder.name + "-moved")
    regauge("act", folder, "-o", moved, "--random", 1)
    return seconds("diff", folder, moved)


def test_layers(tmp_path, regauge):
    def measure(count):
        folder = llama(
            tmp_path / str(count), num_hidden_layers=count, hidden_size=8, intermediate_size=4,
            vocab_size=16,
        )  # fmt: skip
        return diff_with_moved(tmp_path, regauge, folder)

    assert growth(measure, 40) < MOST


def layer_norm_model(folder, layers):
    """In double, so that nothing is in doubt."""
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(
        vocab_size=16, hidden_size=8, intermediate_size=4, num_hidden_layers=layers,
        num_attention_heads=1, max_position_embeddings=16, tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.GPTNeoXForCausalLM(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(1 if parameter.ndim == 1 else 0, 0.3)
    model.save_pretrained(folder)
    return folder


def test_layers_of_a_canonical_form(tmp_path, regauge):
    """What is done to a layer is put together with what was done before at the cost of a layer."""
    def measure(count):
        arguments = ["canon", layer_norm_model(tmp_path / str(count), count), "--dry-run", "--json"]
        regauge(*arguments)
        return seconds(*arguments)

    assert growth(measure, 40) < 7


@pytest.mark.parametrize("verb", ["inspect", "fold", "diff"])
def test_experts(tmp_path, regauge, verb):
    """A tensor of its own for each map of each expert, as in docs/streaming.md."""
    config = many_tensors.MODELS["DeepSeek-V3"] | {
        "hidden_size": 8, "intermediate_size": 4, "moe_intermediate_size": 2, "num_hidden_layers": 6,
        "num_attention_heads": 2, "num_key_value_heads": 2, "q_lora_rank": 4, "kv_lora_rank": 4,
        "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": 2, "vocab_size": 16,
    }  # fmt: skip

    def measure(count):
        folder = tmp_path / str(count)
        tensors = many_tensors.make_checkpoint(folder, config | {"n_routed_experts": count})
        assert tensors > 9 * count
        arguments = [verb, folder, *{"inspect": [], "fold": ["--dry-run"], "diff": [folder]}[verb]]
        regauge(*arguments)
        return seconds(*arguments)

    assert growth(measure, 480) < MOST


@pytest.mark.parametrize("fill", ["equal", "zero"])
def test_equal_neurons(tmp_path, regauge, fill):
    def measure(count):
        folder = llama(tmp_path / str(count), intermediate_size=count)
        file = folder / "model.safetensors"
        tensors = safetensors.torch.load_file(file)
        for name, tensor in tensors.items():
            if "mlp" not in name:
                continue
            if fill == "zero":
                tensor.zero_()
            else:
                tensor.copy_((tensor[:, :1] if "down" in name else tensor[:1]).expand_as(tensor).clone())
        safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
        return diff_with_moved(tmp_path, regauge, folder)

    assert growth(measure, 2000) < MOST


def test_heads(tmp_path, regauge):
    def measure(count):
        folder = llama(
            tmp_path / str(count), num_attention_heads=count, num_key_value_heads=count, head_dim=2,
            hidden_size=256,
        )  # fmt: skip
        return diff_with_moved(tmp_path, regauge, folder)

    assert growth(measure, 64) < MOST


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_memory_by_expert(tmp_path, family):
    """A tensor for each expert, and stacks: docs/streaming.md has the figures of larger ones."""
    config = experts.configs(width=1024, ffn=128, experts=64, layers=1, vocabulary=2500)[family]
    source, moved = tmp_path / "source", tmp_path / "moved"
    experts.make_checkpoint(source, config)
    stored = experts.expert_bytes(config)
    # Held together, the experts would be twice that in float and four times in double. What is left is the program, its
    # tables, and in `diff` what a few probes see of each neuron.
    most = {"act": 1.5, "diff": 4}
    for verb, *arguments in (["act", source, "-o", moved, "--random", 1], ["diff", source, moved]):
        *_, anonymous = streaming.run_measured([os.environ["REGAUGE"], verb, *arguments])
        assert anonymous < most[verb] * stored, verb
