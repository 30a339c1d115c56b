"""B in A's coordinates, by the weights."""

import numpy
import pytest

import regauge


def distance(a, b):
    return sum(float(((a.parameters[n] - b.parameters[n]) ** 2).sum()) for n in a.parameters)


def noisy(model, seed):
    random = numpy.random.default_rng(seed)
    tensors = {
        name: tensor + 0.02 * tensor.std() * random.standard_normal(tensor.shape, numpy.float32)
        for name, tensor in model.state_dict().items()
    }
    return regauge.from_state_dict(tensors, model.config)


@pytest.mark.parametrize("method", ["weights", "two_stage"])
def test_alignment_lowers_the_distance_and_keeps_the_function(llama, method):
    heads = llama.symmetry.random_element(1, only=["heads", "qk", "vo"])
    b = regauge.act(noisy(llama, 1), heads)
    found = regauge.align(llama, b, method=method)
    aligned = regauge.act(b, found.a_from_b)
    assert distance(llama, aligned) < 0.1 * distance(llama, b)
    assert regauge.diff(b, aligned).same
    assert found.report


def test_the_whole_group_undoes_what_was_done(llama):
    b = regauge.act(noisy(llama, 1), llama.symmetry.random_element(1))
    aligned = regauge.act(b, regauge.align(llama, b).a_from_b)
    assert distance(llama, aligned) < 0.01 * distance(llama, b)


def test_scope(llama):
    b = regauge.act(llama, llama.symmetry.random_element(1))
    aligned = regauge.act(b, regauge.align(llama, b, scope="ffn:0").a_from_b)
    for name, tensor in b.parameters.items():
        moves = name.startswith("layers.0.ffn") and "norm" not in name
        assert (numpy.abs(aligned.parameters[name] - tensor).max() > 1e-4) == moves, name
    with pytest.raises(regauge.UsageError):
        regauge.align(llama, b, scope="everything")
    with pytest.raises(regauge.UsageError, match="two_stage"):
        regauge.align(llama, b, method="magic")
