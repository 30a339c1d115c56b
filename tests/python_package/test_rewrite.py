"""act, fold, canon and convert; in memory, and as files that are the command line's."""

import numpy
import pytest
from conftest import largest_difference

import regauge
from regauge.__main__ import main


def test_memory_and_file_hold_the_same(any_model, tmp_path):
    element = any_model.symmetry.random_element(1)
    in_memory = regauge.act(any_model, element)
    on_disk = regauge.act(any_model, element, tmp_path / "moved")
    assert largest_difference(in_memory, on_disk) == 0
    assert largest_difference(in_memory, any_model) > 1e-3
    assert regauge.open(tmp_path / "moved").architecture == any_model.architecture


def test_act_is_the_command_lines(llama, tmp_path, monkeypatch):
    regauge.act(llama, llama.symmetry.random_element(7), tmp_path / "ours")
    command = ["regauge", "act", llama.path, "--random", "7", "-o", str(tmp_path / "theirs")]
    monkeypatch.setattr("sys.argv", command)
    assert main() == 0
    ours, theirs = (tmp_path / name / "model.safetensors" for name in ("ours", "theirs"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_there_and_back(any_model):
    if "bf16" in any_model.path:
        pytest.skip("rounded to bfloat16 on the way")
    element = any_model.symmetry.random_element(5)
    back = regauge.act(regauge.act(any_model, element), element.inverse())
    assert largest_difference(back, any_model) < 1e-4


def test_fold(llama):
    folded = regauge.fold(llama)
    gains = [tensor for name, tensor in folded.parameters.items() if name.endswith("gain")]
    assert gains and all((gain == 1).all() for gain in gains)
    assert any((t != 1).any() for n, t in llama.parameters.items() if n.endswith("gain"))
    assert regauge.diff(llama, folded).same


def test_canon_brings_equal_models_together(llama):
    moved = regauge.act(llama, llama.symmetry.random_element(3))
    assert largest_difference(llama, moved) > 0.1
    assert largest_difference(regauge.canon(llama), regauge.canon(moved)) < 1e-3


def test_convert_through_gguf(llama, tmp_path):
    gguf = regauge.convert(llama, tmp_path / "model.gguf")
    assert gguf.format == "gguf" and (tmp_path / "model.gguf").is_file()
    back = regauge.convert(gguf)
    assert back.format == "safetensors"
    assert largest_difference(llama, back) == 0


def test_dtype(llama):
    element = llama.symmetry.identity()
    half = regauge.act(llama, element, dtype="f16")
    assert half.state_dict()["model.embed_tokens.weight"].dtype == numpy.float16
    with pytest.raises(regauge.UsageError, match="f32, f16 or bf16"):
        regauge.act(llama, element, dtype="f8")


def test_untying_frees_the_stream(tmp_path):
    from conftest import FIXTURES

    tied = regauge.open(FIXTURES / "llama-tied-biased")
    assert tied.untied_symmetry.dimension > tied.symmetry.dimension
    untied = regauge.act(tied, tied.untied_symmetry.random_element(1))
    assert tied.architecture["tied"] and not untied.architecture["tied"]
    assert regauge.diff(tied, untied).same
