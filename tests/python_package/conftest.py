"""Shared by the tests of the installed Python package."""

import pathlib

import numpy
import pytest

import regauge

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"
FAMILIES = ["llama", "llama-bf16", "gpt2", "gpt_neox", "gemma", "qwen2", "qwen3", "mistral", "bert", "vit"]


@pytest.fixture(params=FAMILIES)
def any_model(request):
    return regauge.open(FIXTURES / request.param)


@pytest.fixture
def llama():
    return regauge.open(FIXTURES / "llama")


def largest_difference(a, b):
    """Over all canonical tensors."""
    return max(numpy.abs(a.parameters[name] - b.parameters[name]).max() for name in a.parameters)


def changed(model, change):
    """The model in memory, with `change` done to a copy of its tensors."""
    tensors = {name: numpy.array(tensor) for name, tensor in model.state_dict().items()}
    change(tensors)
    return regauge.from_state_dict(tensors, model.config)
