"""The laws of the group, through Python."""

import numpy
import pytest
from conftest import FIXTURES, largest_difference

import regauge


@pytest.fixture
def elements(any_model):
    return [any_model.symmetry.random_element(seed) for seed in (1, 2, 3)]


def test_laws(any_model, elements):
    g, h, k = elements
    one = any_model.symmetry.identity()
    assert one.is_identity and not g.is_identity
    assert (g * one).distance(g) == 0
    assert (g * g.inverse()).distance(one) < 1e-8
    assert ((g * h) * k).distance(g * (h * k)) < 1e-8
    assert (g * h).distance(h * g) > 1e-3  # it does not commute


def test_acting_twice_is_acting_by_the_product(any_model, elements):
    g, h, _ = elements
    if "bf16" in any_model.path:
        pytest.skip("two roundings to bfloat16 are not one")
    twice = regauge.act(regauge.act(any_model, h), g)
    assert largest_difference(twice, regauge.act(any_model, g * h)) < 1e-4
    assert largest_difference(twice, regauge.act(any_model, h * g)) > 1e-3


def test_the_same_seed_is_the_same_element(any_model, elements):
    assert any_model.symmetry.random_element(1).distance(elements[0]) == 0
    assert any_model.symmetry.random_element(2).distance(elements[0]) > 0.1


def test_categories(llama):
    neurons = llama.symmetry.random_element(1, only=["ffn"])
    assert neurons.maps and all("ffn" in name for name in neurons.maps)
    with pytest.raises(regauge.UsageError, match="ffn"):
        llama.symmetry.random_element(1, only=["neurons"])


def test_an_element_is_a_file(llama, tmp_path):
    element = llama.symmetry.random_element(1)
    element.save(tmp_path / "g.safetensors")
    assert llama.symmetry.load_element(tmp_path / "g.safetensors").distance(element) == 0
    other = regauge.open(FIXTURES / "gpt2").symmetry
    with pytest.raises(regauge.UsageError):
        other.load_element(tmp_path / "g.safetensors")
    with pytest.raises(regauge.UsageError, match="different architectures"):
        element * other.random_element(1)


def test_what_an_element_does_can_be_read(llama):
    permutation, blocks = llama.symmetry.random_element(1).maps["residual"]
    assert permutation == []
    numpy.testing.assert_allclose(blocks @ blocks.T, numpy.eye(20), atol=1e-12)
