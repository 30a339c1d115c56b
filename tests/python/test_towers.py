"""Two models side by side in one checkpoint: each moves by itself, and neither hides the other."""

import json
import shutil

import pytest
import safetensors.torch
from conftest import FIXTURES
from test_diff import change, verdict

BOTH = ["clip", "siglip"]


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("tensor", ["text_model.encoder.layers.1.mlp.fc2.weight", "vision_model.encoder.layers.1.mlp.fc2.weight"])
def test_damage_of_one_tower_is_seen_in_a_moved_copy(regauge, tmp_path, name, tensor):
    source = FIXTURES / name
    regauge("act", source, "-o", tmp_path / "moved", "--random", 3)
    assert verdict(regauge, source, tmp_path / "moved", expect=0)["verdict"] == "same"

    def damage(tensors):
        tensors[tensor][2] *= 1.5

    change(tmp_path / "moved", tmp_path / "damaged", damage)
    found = verdict(regauge, source, tmp_path / "damaged", expect=1)
    differ = {entry["tensor"] for entry in found["tensors"] if not entry["agrees"]}
    layer = 1 if tensor.startswith("text") else 3
    assert differ == {f"layers.{layer}.ffn.down.weight"}


def test_a_tower_of_another_model_is_not_the_same(regauge, tmp_path):
    source = FIXTURES / "clip"
    regauge("act", source, "-o", tmp_path / "moved", "--random", 3)

    def exchange(tensors):
        first, second = (f"vision_model.encoder.layers.{n}.mlp.fc1.weight" for n in (0, 1))
        tensors[first], tensors[second] = tensors[second], tensors[first]

    change(tmp_path / "moved", tmp_path / "exchanged", exchange)
    assert verdict(regauge, source, tmp_path / "exchanged", expect=1)["verdict"] != "same"


def test_the_scale_of_the_cosines_is_compared(regauge, tmp_path):
    source = FIXTURES / "clip"
    regauge("act", source, "-o", tmp_path / "moved", "--random", 3)

    def scale(tensors):
        tensors["logit_scale"] += 0.1

    for folder in (source, tmp_path / "moved"):
        other = tmp_path / f"scaled-{folder.name}"
        change(folder, other, scale)
        found = verdict(regauge, source, other, expect=1)
        assert found["verdict"] != "same"
        assert any("logit_scale" in reason for reason in found["reasons"])


def test_a_config_of_a_tower_that_stands_in_is_read(regauge, tmp_path):
    """transformers takes text_config_dict, with its own defaults, in the place of text_config."""
    source = FIXTURES / "clip"
    folder = shutil.copytree(source, tmp_path / "stand-in")
    config = json.loads((folder / "config.json").read_text())
    config["text_config_dict"] = {**config["text_config"], "hidden_act": "relu"}
    (folder / "config.json").write_text(json.dumps(config))
    read = json.loads(regauge("inspect", folder, "--json"))
    assert read["architecture"]["activation"] == "relu"
    assert read["architecture"]["beside"][0]["activation"] == "gelu_quick"
    assert verdict(regauge, source, folder, expect=1)["verdict"] == "different"
    regauge("act", folder, "-o", tmp_path / "moved", "--random", 1)
    assert json.loads((tmp_path / "moved" / "config.json").read_text()) == config


def test_the_names_of_all_tensors_are_of_one_tower(regauge):
    found = json.loads(regauge("diff", FIXTURES / "clip", FIXTURES / "clip", "--json"))
    names = {entry["tensor"] for entry in found["tensors"]}
    stored = safetensors.torch.load_file(FIXTURES / "clip" / "model.safetensors")
    assert len(names) == len(stored) - 1  # logit_scale is another part
    assert {"head.weight", "beside.head.weight", "layers.0.attn.q.weight", "layers.3.attn.q.weight"} <= names
