"""Trained models with an exact score: the four operations of the package mathformer on digits."""

import pathlib
import shutil

import mathformer
import pytest
import safetensors.torch
import torch
import transformers
from mathformer.tokenizer import MathTokenizer

PACKAGE = pathlib.Path(mathformer.__file__).parent
# What the package asks of each model: prompt -> answer.
QUESTIONS = {
    "addformer": {f"{a}+{b}=": str(a + b) for a in range(10) for b in range(10)},
    "subformer": {f"{a}-{b}=": str(a - b) for a in range(19) for b in range(10) if 0 <= a - b < 10},
    "mulformer": {f"{a}*{b}=": str(a * b) for a in range(10) for b in range(10)},
    "divformer": {f"{a}/{b}=": f"Q{a // b}R{a % b}" for a in range(10) for b in range(1, 10)},
}
LONGEST_ANSWER = 5  # tokens, with the end


def accuracy(folder, name):
    tokenizer = MathTokenizer.from_pretrained(str(folder))
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    right = 0
    by_length = {}
    for prompt, answer in QUESTIONS[name].items():
        by_length.setdefault(len(prompt), []).append((prompt, answer))
    for questions in by_length.values():
        tokens = torch.tensor([[tokenizer.token_to_id[c] for c in prompt] for prompt, _ in questions])
        start = tokens.shape[1]
        with torch.no_grad():
            for _ in range(LONGEST_ANSWER):
                best = model(input_ids=tokens).logits[:, -1].argmax(-1, keepdim=True)
                tokens = torch.cat([tokens, best], 1)
        for row, (_, answer) in zip(tokens[:, start:].tolist(), questions):
            end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else None
            right += tokenizer.decode(row[:end]) == answer
    return right / len(QUESTIONS[name])


def change_tensors(folder, change):
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    change(tensors)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("name", QUESTIONS)
def test_accuracy_survives_every_rewrite(regauge, tmp_path, name):
    source = PACKAGE / name
    assert accuracy(source, name) == 1
    for seed in range(1, 6):
        out = tmp_path / f"act-{seed}"
        regauge("act", source, "-o", out, "--random", seed)
        assert accuracy(out, name) == 1
    regauge("fold", source, "-o", tmp_path / "folded")
    assert accuracy(tmp_path / "folded", name) == 1
    regauge("convert", tmp_path / "act-1", "-o", tmp_path / "moved.gguf", "--to", "gguf")
    regauge("convert", tmp_path / "moved.gguf", "-o", tmp_path / "back", "--to", "safetensors")
    shutil.copy(source / "vocab.json", tmp_path / "back")
    assert accuracy(tmp_path / "back", name) == 1


@pytest.mark.parametrize("name", QUESTIONS)
def test_wrong_rewrites_lose_accuracy(regauge, tmp_path, name):
    """Negative controls: each is one step away from a symmetry."""

    def heads_of_one_matrix(tensors):
        key = "model.layers.0.self_attn.v_proj.weight"
        tensors[key] = tensors[key].roll(tensors[key].shape[0] // 2, 0)

    def gain_dropped(tensors):
        tensors["model.norm.weight"] = torch.ones_like(tensors["model.norm.weight"])

    def neurons_of_one_matrix(tensors):
        key = "model.layers.0.mlp.up_proj.weight"
        tensors[key] = tensors[key].roll(1, 0)

    for change in (heads_of_one_matrix, gain_dropped, neurons_of_one_matrix):
        out = tmp_path / change.__name__
        regauge("act", PACKAGE / name, "-o", out, "--random", 1)
        change_tensors(out, change)
        assert accuracy(out, name) < 0.9, change.__name__
