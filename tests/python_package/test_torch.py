"""Models of transformers in memory, and a torch module as the objective."""

import numpy
import pytest
from conftest import FAMILIES, FIXTURES

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import regauge  # noqa: E402
import regauge.torch  # noqa: E402
from regauge.testing import assert_same_function  # noqa: E402


def load(name, dtype=torch.float32):
    kind = {"bert": "BertModel", "vit": "ViTForImageClassification"}.get(name, "AutoModelForCausalLM")
    return getattr(transformers, kind).from_pretrained(FIXTURES / name, dtype=dtype).eval()


def put(module, model):
    """The stored tensors of a model into a module."""
    tensors = {name: torch.from_dlpack(t) for name, t in model.state_dict().items()}
    module.load_state_dict(tensors, strict=False)
    return module


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in ("bert", "vit")])
def test_there_and_back_in_memory(name):
    module = load(name, torch.bfloat16 if "bf16" in name else torch.float32)
    model = regauge.torch.from_module(module)
    assert_same_function(model, regauge.open(FIXTURES / name))
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        before = module(tokens).logits
        moved = regauge.act(model, model.symmetry.random_element(1))
        after = put(module, moved).eval()(tokens).logits
    tolerance = 0.3 if "bf16" in name else 1e-3
    assert torch.allclose(before, after, atol=tolerance)
    assert_same_function(moved, FIXTURES / name)


def test_tensors_are_not_copied():
    module = load("llama")
    model = regauge.torch.from_module(module)
    with torch.no_grad():
        module.model.norm.weight.fill_(7)
    assert (model.parameters["head.norm.gain"] == 7).all()


def causal_loss(module, tokens):
    return module(input_ids=tokens, labels=tokens).loss


@pytest.fixture
def tokens():
    return torch.randint(0, 32, (4, 3, 16), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "gemma", "qwen3"])
def test_the_objective_is_the_module(name, tokens):
    """Its loss is the module's own, its gradient that of finite differences."""
    module = load(name, torch.float64)
    expected = causal_loss(module, tokens[0]).item()
    model = regauge.torch.from_module(load(name))
    objective = regauge.torch.Objective(module, tokens, causal_loss)
    parameters = dict(model.parameters)
    loss, slopes = objective(parameters)
    assert abs(loss - expected) < 1e-5
    random = numpy.random.default_rng(1)
    for parameter in random.choice(list(parameters), 6, replace=False):
        direction = random.standard_normal(parameters[parameter].shape).astype(numpy.float32)
        step = 2**-10

        def at(sign):
            moved = parameters[parameter] + numpy.float32(sign * step) * direction
            return objective({**parameters, parameter: moved})[0]

        slope = (at(1) - at(-1)) / (2 * step)
        assert slope == pytest.approx(float((slopes[parameter] * direction).sum()), rel=2e-2, abs=2e-4)


def test_batches_come_again(tokens):
    objective = regauge.torch.Objective(load("llama"), tokens, causal_loss)
    parameters = dict(regauge.open(FIXTURES / "llama").parameters)
    losses = []
    for _ in range(len(tokens) + 1):
        losses.append(objective(parameters)[0])
        objective.advance()
    assert losses[0] == pytest.approx(losses[-1]) and losses[0] != losses[1]


def test_barrier(tokens):
    a = regauge.open(FIXTURES / "llama")
    b = regauge.act(a, a.symmetry.random_element(1))
    objective = regauge.torch.Objective(load("llama"), tokens, causal_loss)
    line = regauge.barrier(a, b, objective, points=5)
    assert line.losses[0] == pytest.approx(line.losses[-1], abs=1e-4)
    assert regauge.barrier(a, a, objective, points=3).height == pytest.approx(0, abs=1e-6)
    assert abs(line.losses[2] - line.losses[0]) > 1e-3


def test_learning_lowers_the_loss_between(tokens):
    a = regauge.open(FIXTURES / "llama")
    b = regauge.act(a, a.symmetry.random_element(1, only=["heads", "vo", "ffn"]))
    objective = regauge.torch.Objective(load("llama"), tokens, causal_loss)
    found = regauge.align(
        a, b, method="learned", objective=objective, start=a.symmetry.identity(), seed=1,
        learning={"steps": 4},
    )  # fmt: skip
    assert len(found.report["loss_by_tenth"]) == 10
    assert_same_function(regauge.act(b, found.a_from_b), b)


def test_objectives_are_checked(tokens):
    a = regauge.open(FIXTURES / "llama")
    with pytest.raises(regauge.UsageError, match="objective"):
        regauge.align(a, a, method="learned")

    def wrong_shape(parameters):
        return 0.0, {name: value.T.copy() for name, value in parameters.items()}

    with pytest.raises(regauge.UsageError, match="another shape"):
        regauge.align(a, a, method="learned", objective=wrong_shape)
    with pytest.raises(ZeroDivisionError):
        regauge.align(a, a, method="learned", objective=lambda parameters: 1 / 0)
