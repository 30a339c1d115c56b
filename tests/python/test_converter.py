"""Every family that llama.cpp's converter knows: its file of a fixture is the same model, number by number."""

import json
import re
import shutil

import llama_cpp
import numpy
import pytest
import safetensors.numpy
from conftest import FIXTURES

SLIDING_FIRST = ["sliding_attention", "full_attention"]
# fixture, and how many layers or whether norms of q and k it is to have -> what the converter wants to be told otherwise
KNOWN = {
    "phi3": {},
    "starcoder2": dict(sliding_window=None),  # of which llama.cpp knows nothing
    "stablelm": {},
    "seed_oss": {},
    "ernie4_5": {},
    "granite": {},
    "bloom": dict(seq_length=2048),
    "gpt_bigcode": {},
    "mpt": dict(architectures=["MPTForCausalLM"], attn_config=dict(clip_qkv=None, alibi=True, alibi_bias_max=8)),
    "bert": {},
    "xlm-roberta": {},
    "gemma2": dict(query_pre_attn_scalar=6),
    "gemma2, 46 layers": dict(query_pre_attn_scalar=5, layer_types=SLIDING_FIRST * 23),
    "gemma3": dict(query_pre_attn_scalar=6, layer_types=["sliding_attention"] * 3),
    "gemma4_text": {},
    "gemma4_text-experts": {},
    "gemma4_text-tables": {},
    "gemma3, 62 layers": dict(query_pre_attn_scalar=5, layer_types=None),
    "gpt_oss": dict(swiglu_limit=7.0, rope_parameters=dict(
        rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=600)),
    "olmo2": {},
    "olmo3": dict(sliding_window=4096),
    "olmoe": {},
    "minimax_m2": dict(scoring_func="sigmoid"),
    "mixtral": {},
    "mixtral, 4 experts": dict(num_local_experts=4),
    "qwen2_moe": {},
    "glm4_moe": {},
    "glm4_moe, normed": dict(use_qk_norm=True),
    "glm4": {},
    "cohere": {},
    "cohere2, 4 layers": dict(rotary_pct=1.0, layer_types=None, sliding_window_pattern=4),
    "smollm3, 4 layers": dict(no_rope_layers=[1, 1, 1, 0]),
    "granitemoe": {},
    "qwen3_5_text": {},
    "qwen3_5_moe_text": {},
    "deepseek_v2": {},
    "deepseek_v2-direct": dict(n_group=1, topk_group=1),
    "deepseek_v3": dict(scoring_func="sigmoid"),
    "deepseek_v3-yarn": dict(scoring_func="sigmoid"),
    "nemotron": {},
    "arcee": {},
}  # fmt: skip

MOVED = ["smollm3, 4 layers"]  # its queries and keys are rearranged for adjacent pairs even where nothing rotates


def repeated(weights, layers):
    """The same layers in turn, so many of them."""
    result = {}
    before = 1 + max(int(key.split(".")[2]) for key in weights if key.startswith("model.layers."))
    for key, value in weights.items():
        start, dot, rest = key.removeprefix("model.layers.").partition(".")
        numbers = range(int(start), layers, before) if key.startswith("model.layers.") else []
        result |= {f"model.layers.{number}.{rest}": value for number in numbers} or {key: value}
    return result


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folders = {}
    for name, changes in KNOWN.items():
        fixture, _, layers = name.removesuffix(" layers").partition(", ")
        folders[name] = tmp_path_factory.mktemp(fixture) / fixture
        shutil.copytree(FIXTURES / fixture, folders[name])
        weights = safetensors.numpy.load_file(folders[name] / "model.safetensors")
        if layers == "normed":
            gains = numpy.linspace(0.5, 1.5, 8, dtype=numpy.float32)
            weights |= {f"model.layers.{n}.self_attn.{part}_norm.weight": gains for n in (0, 1) for part in "qk"}
        elif layers == "4 experts":
            weights = {key: value[:4] if key.endswith("moe.gate.weight") else value for key, value in weights.items()
                       if not re.search(r"experts\.[4-7]\.", key)}  # fmt: skip
        elif layers:
            weights, changes = repeated(weights, int(layers)), {**changes, "num_hidden_layers": int(layers)}
        if fixture.startswith(("gemma3", "gemma4")):  # whose converter counts the words
            words = json.loads((folders[name] / "config.json").read_text())["vocab_size"]
            vocabulary = {str(word): word for word in range(words)}
            words = json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []})
            (folders[name] / "tokenizer.json").write_text(words)
        known = {key: value for key, value in weights.items() if not key.startswith("pooler.")}  # which it drops
        safetensors.numpy.save_file(known, folders[name] / "model.safetensors", metadata={"format": "pt"})
        config = folders[name] / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
    further = {name: ["--no-mtp"] * name.startswith("qwen3_5") for name in folders}
    llama_cpp.convert([(folder, folder / "f32.gguf", "f32", *further[name]) for name, folder in folders.items()])
    return folders


@pytest.mark.parametrize("name", KNOWN)
def test_the_converters_file_is_the_same_model(regauge, made, name):
    answer = json.loads(regauge("diff", made[name], made[name] / "f32.gguf", "--json"))
    assert answer["verdict"] == "same" and answer["identity"] == (name not in MOVED)
    assert json.loads(regauge("inspect", made[name] / "f32.gguf", "--json"))["not_understood"] == {}
