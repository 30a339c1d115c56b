"""Verdicts, certificates and diagnoses."""

import numpy
import pytest
from conftest import changed, largest_difference

import regauge
from regauge.testing import assert_same_function


def test_a_moved_model_is_the_same(any_model):
    moved = regauge.act(any_model, any_model.symmetry.random_element(1))
    found = regauge.diff(any_model, moved)
    assert found.movements and not found.diagnosis.causes
    assert all(residual.agrees for residual in found.residuals)
    assert len(found.residuals) == len(any_model.parameters)
    if any_model.unread:  # a pooler reads the stream that was turned: nobody knows what it says now
        assert found.statement == "undecided" and not found.same
        assert all(name in str(found) for name in any_model.unread)
    else:
        assert found.statement == "other-coordinates" and found.same
        assert "the same function, in other coordinates" in str(found)
        assert_same_function(moved, any_model)


def test_what_was_not_understood_is_said(llama):
    assert not llama.unread and not llama.not_understood
    config = {**llama.config, "attention_secret": 3}
    other = regauge.from_state_dict(llama.state_dict(), config)
    assert other.not_understood == {"attention_secret": 3}
    found = regauge.diff(llama, other)
    assert found.statement == "undecided" and "attention_secret" in str(found)


def test_the_element_carries_b_to_a(llama):
    moved = regauge.act(llama, llama.symmetry.random_element(1))
    found = regauge.diff(llama, moved)
    back = regauge.act(moved, found.a_from_b)
    for name, tensor in llama.parameters.items():
        numpy.testing.assert_allclose(back.parameters[name], tensor, atol=1e-4)


def test_an_element_by_its_file(llama, tmp_path):
    element = llama.symmetry.random_element(1)
    element.save(tmp_path / "element.safetensors")
    moved = regauge.act(llama, tmp_path / "element.safetensors")
    assert regauge.diff(moved, regauge.act(llama, element)).a_from_b.is_identity


def break_rotary(tensors):
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = tensor.reshape(-1, 3, 2, tensor.shape[1])  # three pairs in a head
            tensors[name] = numpy.ascontiguousarray(heads.swapaxes(1, 2)).reshape(tensor.shape)


def swap_gate_and_up(tensors):
    for name in list(tensors):
        if "gate_proj" in name:
            other = name.replace("gate", "up")
            tensors[name], tensors[other] = tensors[other], tensors[name]


def scale_one_tensor(tensors):
    tensors["model.layers.1.mlp.down_proj.weight"] *= 1.01


def change_one_number(tensors):
    tensors["model.layers.1.mlp.down_proj.weight"][3, 5] += 1


@pytest.mark.parametrize(
    "change, mistake",
    [
        (break_rotary, "rotary-"),
        (swap_gate_and_up, "gate-up-swapped"),
        (scale_one_tensor, "scale-other"),
        (change_one_number, "damaged"),
    ],
)
def test_mistakes_are_named(llama, tmp_path, change, mistake):
    broken = changed(llama, change)
    found = regauge.diff(llama, broken)
    assert not found.same
    assert [cause.mistake for cause in found.diagnosis.causes][0].startswith(mistake)
    with pytest.raises(AssertionError, match=mistake):
        assert_same_function(broken, llama)
    with pytest.raises(regauge.UsageError, match="not the same"):
        found.save_certificate(tmp_path / "c.safetensors")


def test_repair(llama, tmp_path):
    broken = regauge.convert(changed(llama, swap_gate_and_up), tmp_path / "broken")
    mended = regauge.diff(llama, broken).repair(tmp_path / "mended")
    assert regauge.diff(llama, mended).same and not regauge.diff(llama, broken).same


def test_paths_do_for_models(llama, tmp_path):
    moved = regauge.act(llama.path, llama.symmetry.random_element(1), tmp_path / "moved")
    assert regauge.diff(llama.path, tmp_path / "moved").same
    aligned = regauge.align(llama.path, moved.path).a_from_b
    back = regauge.act(moved.path, aligned)
    assert largest_difference(llama, back) < 1e-5
    # There and back again is twice rounded: in one place, numbers of one type are equal or differ.
    assert regauge.diff(llama, back).statement == "not-the-same"
    with pytest.raises(regauge.FileError, match="no such file"):
        regauge.diff(llama, tmp_path / "nothing")


def test_certificates(llama, tmp_path):
    moved = regauge.act(llama, llama.symmetry.random_element(1), tmp_path / "moved")
    other = regauge.act(llama, llama.symmetry.random_element(2), tmp_path / "other")
    regauge.diff(llama, moved).save_certificate(tmp_path / "c.safetensors")
    assert regauge.verify(llama, moved, tmp_path / "c.safetensors")
    refuted = regauge.verify(llama, other, tmp_path / "c.safetensors")
    assert not refuted and refuted.problems
    in_memory = regauge.act(llama, llama.symmetry.random_element(1))
    with pytest.raises(regauge.UsageError, match="in memory"):
        regauge.diff(llama, in_memory).save_certificate(tmp_path / "none.safetensors")


def test_other_architectures_are_different(llama):
    smaller = {**llama.config, "rms_norm_eps": 1e-2}
    other = regauge.from_state_dict(llama.state_dict(), smaller)
    found = regauge.diff(llama, other)
    assert not found.same and found.verdict == "different" and found.reasons


def test_a_fine_tune_is_not_accused(llama):
    """By chance the gain of layer 1 came near to what that of layer 0 was; nothing else did."""
    random = numpy.random.default_rng(1)
    first, second = (f"model.layers.{layer}.post_attention_layernorm.weight" for layer in (0, 1))

    def start(tensors):
        for name in (first, second):
            tensors[name] = 1 + 0.01 * random.standard_normal(20, numpy.float32)

    def train(tensors):
        for tensor in tensors.values():
            tensor += 0.05 * tensor.std() * random.standard_normal(tensor.shape, numpy.float32)

    def come_near(tensors):
        tensors[second] = 1e-4 + pretrained.state_dict()[first]
        tensors[first] = 1 + 0.01 * random.standard_normal(20, numpy.float32)

    def exchange(tensors):
        for name in list(tensors):
            if "layers.0.mlp" in name or name == first:
                other = name.replace(".0.", ".1.")
                tensors[name], tensors[other] = tensors[other], tensors[name]

    pretrained = changed(llama, start)
    tuned = changed(pretrained, train)
    found = regauge.diff(pretrained, changed(tuned, come_near))
    assert found.verdict == "perturbed" and not found.diagnosis.causes
    causes = regauge.diff(pretrained, changed(tuned, exchange)).diagnosis.causes
    assert {cause.mistake for cause in causes} == {"layers-exchanged"}
    assert {"layers.0.ffn.norm.gain", "layers.1.ffn.up.weight"} < {t for cause in causes for t in cause.tensors}
    assert "layer 0 stands in the place of layer 1" in repr(causes[0])
