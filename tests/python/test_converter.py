"""Every family that llama.cpp's converter knows: its file of a fixture is the same model, number by number."""

import json
import shutil

import llama_cpp
import pytest
import safetensors.numpy
from conftest import FIXTURES

# fixture -> what the converter wants to be told otherwise
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
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folders = {}
    for name, changes in KNOWN.items():
        folders[name] = tmp_path_factory.mktemp(name) / name
        shutil.copytree(FIXTURES / name, folders[name])
        weights = safetensors.numpy.load_file(folders[name] / "model.safetensors")
        known = {key: value for key, value in weights.items() if not key.startswith("pooler.")}  # which it drops
        safetensors.numpy.save_file(known, folders[name] / "model.safetensors", metadata={"format": "pt"})
        config = folders[name] / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
    llama_cpp.convert([(folder, folder / "f32.gguf", "f32") for folder in folders.values()])
    return folders


@pytest.mark.parametrize("name", KNOWN)
def test_the_converters_file_is_the_same_model(regauge, made, name):
    answer = json.loads(regauge("diff", made[name], made[name] / "f32.gguf", "--json"))
    assert answer["verdict"] == "same" and answer["identity"]
    assert json.loads(regauge("inspect", made[name] / "f32.gguf", "--json"))["not_understood"] == {}
