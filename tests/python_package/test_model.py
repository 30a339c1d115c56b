"""Models, their architectures, groups and parameters."""

import numpy
import pytest
from conftest import FIXTURES

import regauge


def test_a_model_says_what_it_is(llama):
    assert (llama.family, llama.format) == ("llama", "safetensors")
    assert llama.architecture["layers"] == 2
    assert llama.config["model_type"] == "llama"
    assert sum(tensor.size for tensor in llama.parameters.values()) == 8660
    assert "8660 parameters" in repr(llama)


def test_the_group_is_readable(llama):
    symmetry = llama.symmetry
    assert symmetry.dimension == 512
    stream = next(factor for factor in symmetry.factors if factor.name == "residual")
    assert (stream.group, stream.dimension) == ("O(20)", 190)
    assert "O(20)" in repr(symmetry) and "dimension 512" in repr(symmetry)
    assert "<td>O(20)</td>" in symmetry._repr_html_()
    assert regauge.symmetry_of(llama.architecture).dimension == symmetry.dimension


def test_parameters_are_canonical_and_need_no_copy(llama):
    stored = llama.state_dict()["model.embed_tokens.weight"]
    numpy.testing.assert_array_equal(llama.parameters["embed.tokens"], stored)
    assert llama.parameters.double("embed.tokens").dtype == numpy.float64
    again = llama.state_dict()["model.embed_tokens.weight"]
    assert stored.ctypes.data == again.ctypes.data and not stored.flags.writeable
    with pytest.raises(KeyError):
        llama.parameters["embed.nothing"]


def test_arrays_outlive_the_model():
    stored = regauge.open(FIXTURES / "llama").state_dict()
    assert all(numpy.isfinite(tensor).all() for tensor in stored.values())


def test_a_state_dict_is_the_model(any_model):
    if "bf16" in any_model.path:
        pytest.skip("numpy has no bfloat16; test_torch.py has it")
    again = regauge.from_state_dict(any_model.state_dict(), any_model.config)
    assert again.architecture == any_model.architecture
    for name, tensor in any_model.parameters.items():
        numpy.testing.assert_array_equal(again.parameters[name], tensor)


def test_a_state_dict_may_lie_in_columns(llama):
    tensors = {name: numpy.asfortranarray(t) for name, t in llama.state_dict().items()}
    again = regauge.from_state_dict(tensors, llama.config)
    assert regauge.diff(llama, again).a_from_b.is_identity


def test_a_wrong_state_dict_is_refused(llama):
    tensors = dict(llama.state_dict())
    del tensors["model.norm.weight"]
    with pytest.raises(regauge.UsageError, match="model.norm.weight"):
        regauge.from_state_dict(tensors, llama.config)
    with pytest.raises(regauge.UsageError, match="complex|float64"):
        regauge.from_state_dict({"x": numpy.zeros(2, complex)}, llama.config)
