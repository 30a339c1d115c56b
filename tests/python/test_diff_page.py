"""`regauge diff --html`: one page, whole and self-contained, whatever the answer."""

import html.parser
import json
import re
import shutil
import xml.etree.ElementTree

import safetensors.torch
import torch
from conftest import FIXTURES
from test_diff import change


class Text(html.parser.HTMLParser):
    """The words of a page, its attributes, and the tags that it leaves open."""

    def __init__(self, source):
        super().__init__()
        self.words, self.attributes, self.open = "", [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.attributes += attributes
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words += data


def page(regauge, a, b, path, *arguments, expect):
    answer = json.loads(regauge("diff", a, b, "--html", path, "--json", *arguments, expect=expect))
    source = path.read_text()
    xml.etree.ElementTree.fromstring(source.removeprefix("<!DOCTYPE html>\n"))
    text = Text(source)
    assert not text.open
    # Nothing is loaded from anywhere.
    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|<iframe", source)
    assert not {name for name, _ in text.attributes} & {"src", "href", "onload", "onclick", "style"}
    for tensor in answer["tensors"]:
        assert text.words.count(tensor["tensor"]) >= 2
    return answer, text.words, source


def test_of_the_same_model_in_other_coordinates(regauge, tmp_path):
    source, moved, proof = FIXTURES / "llama", tmp_path / "moved", tmp_path / "proof.safetensors"
    regauge("act", source, "-o", moved, "--random", 1)
    answer, words, text = page(
        regauge, source, moved, tmp_path / "page.html", "--certificate", proof, expect=0
    )
    assert "the same function, in other coordinates" in words
    assert 'class="same"' in text
    for part in answer["movements"]:
        assert part["what"] in words
    with safetensors.safe_open(proof, "pt") as file:
        for side in "ab":
            for hash in json.loads(file.metadata()[f"certificate.{side}"]).values():
                assert hash in words


def test_of_the_same_model_declared_differently(regauge, tmp_path):
    """Folded, or untied: a kind of its own, in words, in JSON and on the page."""
    cases = (
        ("llama", [], "gains of all norms are folded"),
        ("llama-tied-biased", ["--untie"], "declares its head tied"),
    )
    for name, untie, said in cases:
        folded = tmp_path / name
        regauge("fold", FIXTURES / name, "-o", folded, *untie)
        answer, words, text = page(regauge, FIXTURES / name, folded, tmp_path / f"{name}.html", expect=0)
        assert (answer["verdict"], answer["kind"]) == ("same", "same up to declarations")
        assert any(said in line for line in answer["declarations"])
        assert "the same function, in other coordinates, declared differently" in words
        assert "Yes, up to declarations" in words and said in words
        assert said in regauge("diff", FIXTURES / name, folded)
    answer, words, _ = page(regauge, FIXTURES / "llama", FIXTURES / "llama", tmp_path / "same.html", expect=0)
    assert (answer["kind"], answer["declarations"]) == ("same", [])
    assert "declar" not in words.lower()


def test_of_a_changed_model(regauge, tmp_path):
    source, other = FIXTURES / "llama", tmp_path / "other"
    name = "model.layers.1.self_attn.o_proj.weight"
    change(source, other, lambda tensors: tensors[name][2, 3].add_(1e-3))
    _, words, text = page(regauge, source, other, tmp_path / "page.html", expect=1)
    assert "not the same function: the same model, modified" in words
    assert "layers.1.attn.o.weight" in words
    # One square is off, as the grid shows.
    squares = re.findall(r'class="cell s(\d)"', text)
    assert sum(step not in "01" for step in squares) == 1


def test_of_other_models(regauge, tmp_path):
    other = tmp_path / "other"

    def redraw(tensors):
        torch.manual_seed(0)
        for tensor in tensors.values():
            tensor.copy_(torch.randn(tensor.shape) * tensor.std() + tensor.mean())

    change(FIXTURES / "gpt2", other, redraw)
    _, words, _ = page(regauge, FIXTURES / "gpt2", other, tmp_path / "page.html", expect=1)
    assert "not the same function" in words or "could not decide" in words
    # Architectures that differ: no tensors, and a reason.
    answer, words, _ = page(regauge, FIXTURES / "gpt2", FIXTURES / "llama", tmp_path / "two.html", expect=1)
    assert not answer["tensors"]
    for reason in answer["reasons"]:
        assert reason in words


def test_names_are_text_and_nothing_else(regauge, tmp_path):
    hostile = tmp_path / "<b onload='x'>a &amp; b<\u0007\u00e9> \"x\""
    shutil.copytree(FIXTURES / "llama", hostile)
    _, words, source = page(regauge, hostile, hostile, tmp_path / "page.html", expect=0)
    assert "<b onload='x'>a &amp; b<\\u{7}\u00e9> \"x\"" in words  # a bell is no text
    assert "<b onload" not in source


def test_a_folder_that_is_not_there(regauge, tmp_path):
    regauge("diff", FIXTURES / "llama", FIXTURES / "llama", "--html", tmp_path / "no" / "page.html", expect=2)
