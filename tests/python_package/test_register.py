import json
import shutil

import pytest
import regauge
from conftest import FIXTURES


def test_a_family_by_a_data_file(tmp_path):
    shutil.copytree(FIXTURES / "llama", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "model_type": "odd"}))
    with pytest.raises(regauge.UsageError, match="unknown family"):
        regauge.open(tmp_path / "model")
    family = {"family": "odd", "format": "safetensors", "inherits": "llama.safetensors.json",
              "match": {"model_type": "odd"}}  # fmt: skip
    (tmp_path / "odd.json").write_text(json.dumps(family))
    regauge.register(tmp_path / "odd.json")
    assert regauge.open(tmp_path / "model").family == "odd"
    with pytest.raises(regauge.UsageError, match="cannot be read"):
        regauge.register(tmp_path / "no.json")
