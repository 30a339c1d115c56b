"""Folders of sentence-transformers: hidden states count, and what reads them comes along."""

import json
import os
import shutil
import subprocess

import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
from conftest import FIXTURES
from test_transformers_judge import load, relative_change

MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")]


@pytest.fixture(params=["bert", "bert-mlm", "roberta", "llama", "qwen3"])
def folder(request, tmp_path):
    """A fixture with modules behind it, as sentence-transformers stores them."""
    target = tmp_path / "model"
    shutil.copytree(FIXTURES / request.param, target)
    width = json.loads((target / "config.json").read_text())["hidden_size"]
    modules = [
        dict(idx=i, name=str(i), path=path, type=f"sentence_transformers.models.{name}")
        for i, (path, name) in enumerate(MODULES)
    ]
    (target / "modules.json").write_text(json.dumps(modules))
    for path, _ in MODULES[1:]:
        (target / path).mkdir()
    pooling = dict(word_embedding_dimension=width, pooling_mode_cls_token=False, pooling_mode_mean_tokens=True)
    (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    dense = dict(in_features=width, out_features=5, bias=True, activation_function="torch.nn.modules.activation.Tanh")
    (target / "2_Dense" / "config.json").write_text(json.dumps(dense))
    generator = torch.Generator().manual_seed(3)
    tensors = {"linear.weight": torch.randn(5, width, generator=generator), "linear.bias": torch.zeros(5)}
    safetensors.torch.save_file(tensors, target / "2_Dense" / "model.safetensors")
    (target / "onnx").mkdir()
    (target / "onnx" / "model.onnx").write_bytes(b"other weights")
    (target / "pytorch_model.bin").write_bytes(b"other weights")
    return target


def embeddings(folder):
    """Mean over the hidden states, dense map, tanh, unit length."""
    model = load(folder).base_model
    tokens = torch.randint(2, model.config.vocab_size, (4, 12), generator=torch.Generator().manual_seed(1))
    dense = safetensors.torch.load_file(folder / "2_Dense" / "model.safetensors")
    with torch.no_grad():
        pooled = model(input_ids=tokens).last_hidden_state.mean(1)
        mapped = torch.tanh(pooled @ dense["linear.weight"].double().T + dense["linear.bias"].double())
    return torch.nn.functional.normalize(mapped)


def test_embeddings_stay(regauge, folder, tmp_path):
    outputs = json.loads(regauge("inspect", folder, "--json"))["architecture"]["output"]
    assert "hidden" in outputs
    said = json.loads(regauge("act", folder, "-o", tmp_path / "moved", "--random", 4, "--json"))
    moved = tmp_path / "moved"
    assert said["left_out"] == ["onnx/", "pytorch_model.bin"]
    assert not (moved / "onnx").exists() and not (moved / "pytorch_model.bin").exists()
    for name in ("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"):
        assert (moved / name).read_bytes() == (folder / name).read_bytes()
    before, after = (safetensors.torch.load_file(at / "model.safetensors") for at in (folder, moved))
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert relative_change(embeddings(folder), embeddings(moved)) < 1e-4
    regauge("diff", folder, moved)
    assert "hidden" in json.loads(regauge("inspect", moved, "--json"))["architecture"]["output"]


def test_without_the_modules_the_stream_moves(regauge, folder, tmp_path):
    """The same folder, of which only the declared words count: another stream, and other embeddings."""
    config = json.loads((folder / "config.json").read_text())
    if config["architectures"][0].endswith("Model"):
        pytest.skip("hidden states count anyway")
    (folder / "modules.json").rename(tmp_path / "modules.json")
    shutil.copytree(folder, tmp_path / "plain")
    regauge("act", tmp_path / "plain", "-o", tmp_path / "moved", "--random", 4)
    shutil.copytree(folder / "2_Dense", tmp_path / "moved" / "2_Dense")
    assert relative_change(embeddings(folder), embeddings(tmp_path / "moved")) > 0.1


@pytest.mark.parametrize("modules", ["{", "{}", "[3]", '[{"path": 3}]', '[{"path": "../elsewhere"}]', '[{"path": "/tmp"}]'])
def test_modules_that_cannot_be_followed(regauge, tmp_path, modules):
    shutil.copytree(FIXTURES / "bert", tmp_path / "model")
    (tmp_path / "model" / "modules.json").write_text(modules)
    done = subprocess.run(
        [os.environ["REGAUGE"], "inspect", str(tmp_path / "model")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "modules.json" in done.stderr


def test_the_package_agrees(regauge, folder, tmp_path):
    package = pytest.importorskip("sentence_transformers")
    words = tokenizers.models.WordLevel({f"w{i}": i for i in range(31)}, unk_token="w3")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="w0").save_pretrained(folder)
    regauge("act", folder, "-o", tmp_path / "moved", "--random", 4)
    sentences = ["w5 w9 w12 w7", "w8 w30 w2 w11", "w4 w6 w4 w29"]
    before, after = (
        torch.tensor(package.SentenceTransformer(str(at), device="cpu").encode(sentences))
        for at in (folder, tmp_path / "moved")
    )
    assert before.shape == (3, 5)
    assert relative_change(before, after) < 1e-3
