"""`regauge align`: B keeps its function and takes on A's shape."""

import json
import os
import shutil
import subprocess

import numpy
import pytest
from conftest import FIXTURES
from safetensors.numpy import load_file, save_file


def noisy_copy(folder, target, noise, seed):
    shutil.copytree(folder, target)
    file = target / "model.safetensors"
    random = numpy.random.default_rng(seed)
    tensors = {
        name: (value + noise * value.std() * random.standard_normal(value.shape)).astype(value.dtype)
        for name, value in load_file(file).items()
    }
    save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("method", ["two_stage", "weights"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "smollm3", "gemma2", "olmo2", "phi", "cohere", "qwen3_moe", "qwen2_moe", "gpt_oss", "t5", "t5-tied", "gpt2", "gpt_neox", "bert", "bert-classes", "vit", "dinov2_with_registers"])
def test_the_function_of_b_stays(regauge, tmp_path, family, method):
    a = FIXTURES / family
    noisy_copy(a, tmp_path / "b", 0.5, 1)
    element = tmp_path / "element.safetensors"
    regauge("align", a, tmp_path / "b", "-o", tmp_path / "aligned", "--method", method,
        "--save-element", element, "--report", tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["method"] == method
    regauge("act", tmp_path / "b", "-o", tmp_path / "again", "--element", element)
    aligned, again = (load_file(tmp_path / x / "model.safetensors") for x in ("aligned", "again"))
    assert aligned.keys() == load_file(a / "model.safetensors").keys()
    assert all(numpy.array_equal(aligned[name], again[name]) for name in aligned)
    found = json.loads(regauge("diff", tmp_path / "b", tmp_path / "aligned", "--json"))
    assert all(tensor["agrees"] for tensor in found["tensors"])


def test_a_rotated_copy_comes_back(regauge, tmp_path):
    a = FIXTURES / "llama"
    regauge("act", a, "-o", tmp_path / "b", "--random", 3)
    regauge("align", a, tmp_path / "b", "-o", tmp_path / "aligned")
    for name, value in load_file(a / "model.safetensors").items():
        aligned = load_file(tmp_path / "aligned" / "model.safetensors")[name]
        assert numpy.abs(aligned - value).max() < 1e-4 * numpy.abs(value).max(), name


def test_a_tied_model_is_untied_on_request_and_a_beside_it(regauge, tmp_path):
    a = FIXTURES / "llama-tied-biased"
    noisy_copy(a, tmp_path / "b", 0.3, 2)
    regauge("align", a, tmp_path / "b", "-o", tmp_path / "c", "--untie", expect=2)
    regauge("align", a, tmp_path / "b", "-o", tmp_path / "c", "--untie", "--a-out", tmp_path / "a")
    one, other = (load_file(tmp_path / x / "model.safetensors") for x in ("a", "c"))
    assert one.keys() == other.keys()


def refusal(*arguments):
    result = subprocess.run(
        [os.environ["REGAUGE"], "align", *map(str, arguments)],
        capture_output=True, text=True, check=False,
    )
    assert result.returncode == 2, result.stdout + result.stderr
    return result.stderr


def test_wrong_requests_say_what_to_do(regauge, tmp_path):
    a, b, c = FIXTURES / "llama", FIXTURES / "gpt2", tmp_path / "c"
    assert "differ in what they compute" in refusal(a, b, "-o", c)
    assert "two_stage, weights" in refusal(a, a, "-o", c, "--method", "magic")
    assert "layer" in refusal(a, a, "-o", c, "--scope", "all:x")
    assert "--colour" in refusal(a, a, "-o", c, "--colour", "red")
    tied = FIXTURES / "llama-tied-biased"
    assert "--a-out" in refusal(tied, tied, "-o", c, "--untie")
    # Before the work, not after it.
    report = tmp_path / "report.json"
    assert "exists already" in refusal(a, a, "-o", tmp_path, "--report", report)
    assert "ends in .safetensors" in refusal(a, a, "-o", c, "--save-element", tmp_path / "g", "--report", report)
    assert ".safetensors" in refusal(a, a, "-o", tmp_path / "c.gguf", "--report", report)
    assert "exists already" in refusal(a, a, "-o", c, "--a-out", tmp_path, "--report", report)
    assert "the same file" in refusal(a, a, "-o", c, "--a-out", c, "--report", report)
    assert "folder does not exist" in refusal(a, a, "-o", c, "--report", tmp_path / "no" / "report.json")
    assert "folder does not exist" in refusal(a, a, "-o", tmp_path / "no" / "c", "--report", report)
    assert "--compact is of two_stage" in refusal(a, a, "-o", c, "--compact", "--report", report)
    assert "--neurons and --stream are of two_stage" in refusal(a, a, "-o", c, "--stream", "orthogonal")
    assert "none, permutation, orthogonal" in refusal(a, a, "-o", c, "--method", "two_stage", "--stream", "magic")
    assert "layers that are not there" in refusal(a, a, "-o", c, "--scope", "attention:9", "--report", report)
    assert not report.exists()
    assert not c.exists()
