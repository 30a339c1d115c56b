"""`regauge diff` and `regauge verify`, as a user meets them."""

import hashlib
import json

import pytest
import safetensors
import safetensors.torch
import torch
from conftest import FIXTURES
from test_transformers_judge import HF


def verdict(regauge, *arguments, expect):
    return json.loads(regauge("diff", *arguments, "--json", expect=expect))


def change(source, target, edit):
    """A copy of a single-file folder with its tensors edited in place."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    tensors = safetensors.torch.load_file(target / "model.safetensors")
    edit(tensors)
    safetensors.torch.save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", HF)
def test_a_rewritten_model_is_the_same_and_the_certificate_holds(regauge, tmp_path, name):
    source = FIXTURES / name
    out, proof = tmp_path / "out", tmp_path / "proof.safetensors"
    regauge("act", source, "-o", out, "--random", 5)
    assert verdict(regauge, source, out, "--certificate", proof, expect=0)["verdict"] == "same"
    assert "the certificate holds" in regauge("verify", source, out, proof)
    regauge("verify", out, source, proof, expect=1)


def test_a_certificate_is_an_element_that_anyone_can_apply(regauge, tmp_path):
    source, out, back = FIXTURES / "llama", tmp_path / "out", tmp_path / "back"
    proof = tmp_path / "proof.safetensors"
    regauge("act", source, "-o", out, "--random", 6)
    regauge("diff", source, out, "--certificate", proof)
    regauge("act", out, "-o", back, "--element", proof)
    before, after = (safetensors.torch.load_file(x / "model.safetensors") for x in (source, back))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)


def test_hashes_are_those_of_the_files(regauge, tmp_path):
    source, proof = FIXTURES / "llama-sharded", tmp_path / "proof.safetensors"
    regauge("diff", source, source, "--certificate", proof)
    with safetensors.safe_open(proof, "pt") as file:
        stated = json.loads(file.metadata()["certificate.a"])
    files = [*source.glob("*.safetensors"), source / "config.json"]
    assert stated == {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_a_certificate_is_of_its_files_alone(regauge, tmp_path):
    source, proof = FIXTURES / "llama", tmp_path / "proof.safetensors"
    regauge("diff", source, source, "--certificate", proof)
    other = tmp_path / "other"
    name = "model.layers.1.mlp.up_proj.weight"
    change(source, other, lambda tensors: tensors[name].mul_(1.001))
    answer = json.loads(regauge("verify", source, other, proof, "--json", expect=1))
    assert any("model.safetensors" in problem for problem in answer["problems"])
    assert any("layers.1.ffn.up.weight" in problem for problem in answer["problems"])
    regauge("verify", source, source, source / "model.safetensors", expect=2)


def test_untied_is_the_same_as_tied(regauge, tmp_path):
    source, out = FIXTURES / "gemma", tmp_path / "out"
    regauge("act", source, "-o", out, "--random", 12, "--untie")
    assert verdict(regauge, source, out, expect=0)["verdict"] == "same"
    assert verdict(regauge, out, source, expect=0)["verdict"] == "same"


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma", "gpt2"])
def test_two_formats_of_one_model(regauge, tmp_path, family):
    source, gguf = FIXTURES / family, FIXTURES / f"{family}-gguf" / "model.gguf"
    assert verdict(regauge, source, gguf, expect=0)["verdict"] == "same"
    regauge("act", source, "-o", tmp_path / "moved", "--random", 13, "--dtype", "BF16")
    assert verdict(regauge, gguf, tmp_path / "moved", expect=0)["verdict"] == "same"


def test_a_perturbed_tensor_is_named(regauge, tmp_path):
    source, out = FIXTURES / "llama", tmp_path / "out"
    name = "model.layers.1.self_attn.o_proj.weight"
    change(source, out, lambda tensors: tensors[name][2, 3].add_(1e-3))
    answer = verdict(regauge, source, out, expect=1)
    assert answer["verdict"] == "perturbed"
    wrong = [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]]
    assert wrong == ["layers.1.attn.o.weight"]


def train_on(tensors):
    torch.manual_seed(0)
    for tensor in tensors.values():
        tensor += 0.01 * tensor.std() * torch.randn_like(tensor)


def test_what_was_changed_in_place_is_not_called_moved(regauge, tmp_path):
    change(FIXTURES / "llama", tmp_path / "tuned", train_on)
    found = verdict(regauge, FIXTURES / "llama", tmp_path / "tuned", expect=1)
    assert found["verdict"] == "perturbed" and found["identity"] and not found["movements"]
    assert not any(tensor["agrees"] for tensor in found["tensors"] if tensor["residual"] > 0)


def test_tensors_without_a_part_are_named(regauge, tmp_path):
    bias = {"model.layers.0.self_attn.q_proj.bias": torch.ones(24)}
    change(FIXTURES / "llama", tmp_path / "more", lambda tensors: tensors.update(bias))
    found = verdict(regauge, FIXTURES / "llama", tmp_path / "more", expect=1)
    assert found["statement"] == "undecided"
    assert any("model.layers.0.self_attn.q_proj.bias" in reason for reason in found["reasons"])


def test_a_config_does_not_hide_the_weights(regauge, tmp_path):
    change(FIXTURES / "llama", tmp_path / "tuned", train_on)
    config = json.loads((tmp_path / "tuned" / "config.json").read_text())
    (tmp_path / "tuned" / "config.json").write_text(json.dumps(config | {"rms_norm_eps": 1e-3}))
    said = regauge("diff", FIXTURES / "llama", tmp_path / "tuned", expect=1)
    assert "norm_eps" in said and "with the config put right 21 of 21 tensors still differ" in said
