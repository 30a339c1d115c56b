"""`diff --card`: Markdown for a pull request, whatever the names are."""

import re
import shutil

import markdown
import pytest
from conftest import FIXTURES


def html(card):
    return markdown.markdown(card.read_text(), extensions=["tables", "md_in_html"])


def test_the_answer_and_every_tensor(regauge, tmp_path):
    regauge("act", FIXTURES / "llama", "-o", tmp_path / "b", "--random", 1)
    regauge("diff", FIXTURES / "llama", tmp_path / "b", "--card", tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("### the same function, in other coordinates")
    assert "0 of 21 tensors differ" in card
    rows = [line for line in card.splitlines() if line.startswith("| layers") or line.startswith("| embed") or line.startswith("| head")]
    assert len(rows) == 21 and all(len(re.findall(r"(?<!\\)\|", row)) == 8 for row in rows)
    assert html(tmp_path / "card.md").count("<table>") >= 1


def test_a_mistake_is_named(regauge, tmp_path):
    regauge("demo", tmp_path / "demo")
    original, converted = tmp_path / "demo" / "original", tmp_path / "demo" / "converted"
    regauge("diff", original, converted, "--card", tmp_path / "card.md", expect=1)
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("### not the same function") and "rotary" in card
    regauge("diff", original, converted, "--card", tmp_path / "card.md", expect=2)  # it exists


@pytest.mark.parametrize("name", ["a|b", "<img src=x>", "[link](x)", "**bold** `code`", "@someone #1"])
def test_names_are_text(regauge, tmp_path, name):
    shutil.copytree(FIXTURES / "llama", tmp_path / name)
    regauge("diff", tmp_path / name, FIXTURES / "llama", "--card", tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text()
    assert name not in card
    made = html(tmp_path / "card.md")
    for tag in ("<img", "<a ", "<strong>", "<code>"):
        assert tag not in made
    assert next(line for line in card.splitlines() if line.startswith("| A |")).count("|") - name.count("|") == 5
