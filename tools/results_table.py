#!/usr/bin/env python3
"""The tables of docs/results/README.md, made from the records beside it.

    results_table.py REGAUGE [--check]    print them, or fail if the page does not hold each line of them
"""

import json
import pathlib
import subprocess
import sys

RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "results"
SCOPES = {"attention:0": "first attention", "attention": "all attention", "block:0": "first block", "all": "everything"}


def number(method: dict, naive: bool) -> str:
    if not method["n"]:
        return ""
    spread = f" ± {method['spread']:.3f}" if method["n"] > 1 else ""
    share = "" if naive or method["ratio"] is None else f" ({100 * method['ratio']:.0f} %)"
    few = f", n {method['n']}" if method["n"] != 3 else ""
    return f"{method['mean']:.3f}{spread}{share}{few}"


def tables(program: str) -> list[str]:
    made = subprocess.run([program, "report", RESULTS, "--json"], capture_output=True, text=True, check=True).stdout
    lines = []
    for experiment in json.loads(made)["experiments"]:
        methods = experiment["methods"]
        lines += [f"| {experiment['name']} | | {' | '.join(methods)} |", "|---" * (len(methods) + 2) + "|"]
        for row in experiment["rows"]:
            cells = [number(row["methods"][m], m == "naive") for m in methods]
            scope = SCOPES.get(row["scope"], row["scope"])
            lines.append(f"| {scope} | {', '.join(row['cell'].values())} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def main() -> None:
    lines = tables(sys.argv[1])
    if "--check" not in sys.argv:
        print("\n".join(lines))
        return
    page = (RESULTS / "README.md").read_text().splitlines()
    missing = [line for line in lines if line not in page]
    if missing:
        sys.exit("docs/results/README.md does not say what the records say; it lacks\n" + "\n".join(missing))


if __name__ == "__main__":
    main()
