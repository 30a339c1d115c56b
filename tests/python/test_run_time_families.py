"""A family of known notions is a data file, which the program reads while it runs."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import FIXTURES

DATA = pathlib.Path(__file__).parents[2] / "data" / "architectures"


@pytest.fixture
def stranger(tmp_path):
    """A model of a family that nobody knows, and the data file that describes it."""
    shutil.copytree(FIXTURES / "olmo2", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config.update(model_type="strange", architectures=["StrangeForCausalLM"])
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    family = {
        "family": "strange",
        "format": "safetensors",
        "inherits": "olmo2.safetensors.json",
        "match": {"model_type": "strange"},
        "fields": {"output": {"key": "architectures/0", "values": [["StrangeForCausalLM", "tokens"]]}},
    }
    (tmp_path / "strange.json").write_text(json.dumps(family))
    return tmp_path / "model", tmp_path / "strange.json"


def refusal(*arguments):
    done = subprocess.run([os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr


def test_by_an_option(regauge, stranger, tmp_path):
    model, family = stranger
    assert "unknown family" in refusal("inspect", model)
    assert "strange in safetensors" in regauge("--family", family, "inspect", model)
    regauge("--family", family, "act", model, "-o", tmp_path / "moved", "--random", 1)
    found = json.loads(regauge("--family", family, "diff", model, tmp_path / "moved", "--json"))
    assert found["statement"] == "other-coordinates"


def test_by_the_environment(regauge, stranger, monkeypatch):
    model, family = stranger
    monkeypatch.setenv("REGAUGE_FAMILIES", os.pathsep.join([str(family)]))
    assert "strange in safetensors" in regauge("inspect", model)


def test_inherits_from_a_file_beside_it(regauge, stranger, tmp_path):
    model, family = stranger
    parent = json.loads((DATA / "olmo2.safetensors.json").read_text())
    (tmp_path / "parent.json").write_text(json.dumps(parent))
    family.write_text(family.read_text().replace("olmo2.safetensors.json", "parent.json"))
    assert "strange in safetensors" in regauge("--family", family, "inspect", model)


@pytest.mark.parametrize(("text", "said"), [
    ("{", "strange.json"),
    ('{"family": "x", "format": "safetensors", "fields": {}, "tensors": {}, "colour": 1}', "colour"),
    ('{"family": "x", "format": "safetensors", "inherits": "nobody.json"}', "nobody.json"),
])  # fmt: skip
def test_a_bad_file_is_named(stranger, text, said):
    model, family = stranger
    family.write_text(text)
    assert said in refusal("--family", family, "inspect", model)


def test_a_file_that_is_not_there(stranger, tmp_path):
    model, _ = stranger
    assert "cannot be read" in refusal("--family", tmp_path / "no.json", "inspect", model)


def test_every_field_is_in_the_guide(regauge):
    """Of every fixture, as `inspect` prints them; the guide's own names are those of a data file."""
    guide = (DATA.parents[1] / "docs" / "adding-an-architecture.md").read_text()
    table = guide[guide.index("### The fields") : guide.index("### Keys that the file")]
    named = set(re.findall(r"`([a-z_0-9.]+)`", table))
    printed = set()
    for folder in sorted(FIXTURES.iterdir()):
        if (folder / "config.json").exists() and folder.name != "io":
            architecture = json.loads(regauge("inspect", folder, "--json"))["architecture"]
            for model in (architecture, *architecture.get("beside", [])):
                for part in [model, *model.get("kinds", [])]:
                    printed |= part.keys()
    assert len(printed) > 50
    assert printed - {"beside", "kinds", "pattern", "biases"} <= named


def test_the_guides_example_is_the_shipped_file():
    guide = (DATA.parents[1] / "docs" / "adding-an-architecture.md").read_text()
    shipped = (DATA / "stablelm.safetensors.json").read_text()
    example = guide[guide.index('      "family": "stablelm"') : guide.index("Every key is read; an unknown one")]
    lines = [line.strip().rstrip(",") for line in example.splitlines()]
    assert len(lines) > 15
    assert all(line in shipped for line in lines if line != "...")
