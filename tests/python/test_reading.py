"""Files that are mapped and files that are read by requests give the same answers."""

import json
import pathlib

import pytest

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"


def both_ways(regauge, *arguments, expect=0):
    mapped, read = (regauge("--io", way, *arguments, expect=expect) for way in ("mmap", "read"))
    return mapped, read


@pytest.mark.parametrize("name", ["llama", "llama-sharded", "gpt2", "gpt_oss"])
def test_both_ways_say_the_same(regauge, tmp_path, name):
    model = FIXTURES / name
    for way in ("mmap", "read"):
        regauge("--io", way, "act", model, "--random", 1, "-o", tmp_path / way)
    for file in (tmp_path / "mmap").iterdir():
        assert file.read_bytes() == (tmp_path / "read" / file.name).read_bytes()
    mapped, read = both_ways(regauge, "diff", model, tmp_path / "read", "--json")
    assert json.loads(mapped) == json.loads(read)
    certificate = tmp_path / "certificate.safetensors"
    regauge("--io", "read", "diff", model, tmp_path / "read", "--certificate", certificate)
    mapped, read = both_ways(regauge, "verify", model, tmp_path / "read", certificate)
    assert mapped == read


def test_a_way_that_is_none_is_refused(regauge, monkeypatch):
    assert regauge("--io", "fast", "inspect", FIXTURES / "llama", expect=2) == ""
    monkeypatch.setenv("REGAUGE_IO", "fast")
    assert regauge("inspect", FIXTURES / "llama", expect=2) == ""
