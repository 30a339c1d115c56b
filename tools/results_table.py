#!/usr/bin/env python3
"""The tables of docs/results/README.md, made from the records beside it.

    results_table.py REGAUGE            print them
    results_table.py REGAUGE --write    put them in the place of the page's tables of the same names
    results_table.py REGAUGE --check    fail if those would be others

What experiments/NAME.json plans and NAME.jsonl does not hold is "not run".
"""

import difflib
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
    command = [program, "report", RESULTS, "--json", *(word for plan in plans for word in ("--experiment", plan))]
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
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
    path = RESULTS / "README.md"
    page = path.read_text().splitlines()
    for name, table in made.items():
        if page.count(table[0]) != 1:
            sys.exit(f"docs/results/README.md should have one table that begins with\n{table[0]}\nof {name}.jsonl")
    fresh = with_tables(page, made)
    if "--write" in sys.argv:
        path.write_text("\n".join(fresh) + "\n")
    elif "--check" not in sys.argv:
        print("\n".join(line for table in made.values() for line in [*table, ""]))
    elif fresh != page:
        changes = difflib.unified_diff(page, fresh, "page", "records", lineterm="", n=0)
        sys.exit("docs/results/README.md does not say what the records say:\n" + "\n".join(changes))


if __name__ == "__main__":
    main()
