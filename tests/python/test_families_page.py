"""docs/families.md has every family, and its shares are those of what is read today."""

import importlib.util
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def maker():
    spec = importlib.util.spec_from_file_location("make_families_page", ROOT / "tools" / "make_families_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_family_and_todays_shares():
    page, families = (ROOT / "docs" / "families.md").read_text(), maker()
    known = families.families()
    missing = [name for name in known if f"| `{name}` |" not in page and name != "regauge"]
    assert not missing, "run tools/make_families_page.py"
    formats = {f"{name}.{form}" for name, entry in known.items() for form in entry["formats"]}
    share, rows = families.use_table(set(known) | formats)
    assert share in page and "\n".join(rows) in page, "run tools/make_families_page.py"


def test_a_shape_of_transformers_has_the_dimension_of_its_row(tmp_path):
    page, families = (ROOT / "docs" / "families.md").read_text(), maker()
    shape, row, problem = families.row_of(os.environ["REGAUGE"], "bert", {}, tmp_path)
    assert not problem
    assert f"| {shape} | {' | '.join(row)} |" in page
