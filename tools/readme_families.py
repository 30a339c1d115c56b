#!/usr/bin/env python3
"""Keeps README.md's table of what is read equal to the data files of data/architectures.

    readme_families.py            writes the table
    readme_families.py --check    says whether it is up to date
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- families: made by tools/readme_families.py -->", "<!-- /families -->"
FORMATS = {"safetensors": "safetensors", "gguf": "GGUF", "llama2c": "llama2.c"}


def families():
    """Format -> the model types of that format. A variant (`dinov2-swiglu`) counts as its family."""
    found = {form: set() for form in FORMATS}
    for file in sorted((ROOT / "data" / "architectures").glob("*.json")):
        data = json.loads(file.read_text())
        if data["family"] != "regauge":  # the layout of one's own models
            found.setdefault(data["format"], set()).add(data["family"])
    for form, names in found.items():
        found[form] = sorted(name for name in names if "-" not in name or name.split("-")[0] not in names)
    return found


def table():
    lines = ["| format | families, by `model_type` |", "|---|---|"]
    for form, names in families().items():
        lines.append(f"| {FORMATS.get(form, form)} | {len(names)}: {', '.join(names)} |")
    share = re.search(r"By an estimate of downloads, ([^.]*)\.", (ROOT / "docs" / "families.md").read_text())
    lines += ["", f"By an estimate of downloads that is {share[1]}: [families](docs/families.md), [file formats and quantised types](docs/formats.md)."]
    return "\n".join([BEGIN, *lines, END])


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    new = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: table(), text, flags=re.S)
    if BEGIN not in text:
        sys.exit(f"README.md has no line {BEGIN}")
    if "--check" not in sys.argv[1:]:
        readme.write_text(new)
    elif new != text:
        sys.exit("README.md's table of families is out of date: run tools/readme_families.py")


if __name__ == "__main__":
    main()
