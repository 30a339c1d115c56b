#!/usr/bin/env python3
"""The tables of docs/results/README.md, made from the records beside it.

    results_table.py REGAUGE            print them
    results_table.py REGAUGE --write    put them in the place of the page's tables of the same names
    results_table.py REGAUGE --check    fail if the page does not hold these rows and no others

What experiments/NAME.json plans and NAME.jsonl does not hold is "not run".
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SCOPES = {"attention:0": "first attention", "attention": "all attention", "block:0": "first block", "all": "everything"}


def number(method: dict, naive: bool) -> str:
    if not method["n"]:
        return "not run"
    spread = f" ± {method['spread']:.3f}" if method["n"] > 1 else ""
    share = "" if naive or method["ratio"] is None else f" ({100 * method['ratio']:.0f} %)"
    few = f", n {method['n']}" if method["n"] != 3 else ""
    return f"{method['mean']:.3f}{spread}{share}{few}"


def tables(program: str) -> dict[str, list[str]]:
    """By the name of the experiment."""
    plans = [ROOT / "experiments" / f"{path.stem}.json" for path in sorted(RESULTS.glob("*.jsonl"))]
    command = [program, "report", RESULTS, "--json", "--experiment", *plans]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for experiment in json.loads(made)["experiments"]:
        methods = experiment["methods"]
        lines = [f"| {experiment['name']} | | {' | '.join(methods)} |", "|---" * (len(methods) + 2) + "|"]
        for scope in experiment["scopes"]:
            rows = [row for row in experiment["rows"] if row["scope"] == scope]
            name = SCOPES.get(scope, scope)
            if not any(method["n"] for row in rows for method in row["methods"].values()):
                lines.append(f"| {name} | all | not run |{' |' * (len(methods) - 1)}")
                continue
            for row in rows:
                cells = [number(row["methods"][m], m == "naive") for m in methods]
                lines.append(f"| {name} | {', '.join(row['cell'].values())} | {' | '.join(cells)} |")
        found[experiment["name"]] = lines
    return found


def with_tables(page: list[str], made: dict[str, list[str]]) -> list[str]:
    """The page with these in the place of its tables of the same names."""
    result, inside = [], False
    for line in page:
        name = line.split("|")[1].strip() if line.startswith("| ") else None
        if not inside and name in made:
            result += made[name]
            inside = True
        inside = inside and line.startswith("|")
        if not inside:
            result.append(line)
    return result


def main() -> None:
    made = tables(sys.argv[1])
    lines = [line for table in made.values() for line in [*table, ""]]
    path = RESULTS / "README.md"
    page = path.read_text().splitlines()
    if "--write" in sys.argv:
        path.write_text("\n".join(with_tables(page, made)) + "\n")
        return
    if "--check" not in sys.argv:
        print("\n".join(lines))
        return
    rows = [line for line in page if line.startswith(tuple(f"| {scope} |" for scope in SCOPES.values()))]
    missing = [line for line in lines if line not in page]
    foreign = [line for line in rows if line not in lines]
    if missing or foreign:
        told = ["docs/results/README.md does not say what the records say; it lacks", *missing, "and has", *foreign]
        sys.exit("\n".join(told))


if __name__ == "__main__":
    main()
