#!/usr/bin/env python3
"""The tables of docs/results/README.md, made from the records beside it.

    results_table.py REGAUGE            print them
    results_table.py REGAUGE --write    put them in the place of the page's tables of the same names
    results_table.py REGAUGE --check    fail if those would be others

What experiments/NAME.json plans and NAME.jsonl does not hold is "not run". The table "distance left" says what
`two_stage` leaves of the squared distance between two models' heads, the q/k and the v/o maps apart; "descent" what
its last step gains; "students" how many of bench/students.py are exact, and what `diff` says of those.
"""

import difflib
import json
import pathlib
import statistics
import subprocess
import sys
from collections import defaultdict

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SCOPES = {"attention:0": "first attention", "attention": "all attention", "block:0": "first block", "block": "all blocks", "all": "everything"}


def mean_and_spread(values: list[float], digits: int) -> str:
    """"mean ± standard deviation"; of one value, that value."""
    mean = f"{round(statistics.mean(values), digits) + 0.0:.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


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
            run = [row for row in rows if any(method["n"] for method in row["methods"].values())]
            for row in run:
                cells = [number(row["methods"][m], m == "naive") for m in methods]
                lines.append(f"| {name} | {', '.join(row['cell'].values())} | {' | '.join(cells)} |")
            if len(run) < len(rows):
                lines.append(f"| {name} | {len(rows) - len(run)} more cells | not run |{' |' * (len(methods) - 1)}")
        found[experiment["name"]] = lines
    return found


def squared_distance(record: dict, maps: str) -> float:
    """The sum of (|A - B| / |A|)^2 over these maps of the attention layers that the two models do not share."""
    layers = range(1) if record["scope"] == "attention:0" else range(record["architecture"]["layers"])
    names = (f"layers.{layer}.attn.{kind}.weight" for layer in layers for kind in maps)
    return sum(record["residuals"][name] ** 2 for name in names)


def left(pairs: list[dict], maps: str) -> list[float]:
    """By pair: the squared distance after two_stage as a share of the naive one."""
    return [squared_distance(pair["two_stage"], maps) / squared_distance(pair["naive"], maps) for pair in pairs]


def attention_pairs(needed: set[str]) -> dict:
    """(experiment, scope, cell) -> [method -> record], of pairs that differ in attention alone and have these methods."""
    found = defaultdict(lambda: defaultdict(dict))
    for path in sorted(RESULTS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["scope"] in ("attention:0", "attention"):
                row = record["experiment"], SCOPES[record["scope"]], ", ".join(record["cell"].values())
                found[row][tuple(record["seeds"])][record["method"]] = record
    whole = {row: [pair for pair in pairs.values() if needed <= pair.keys()] for row, pairs in found.items()}
    order = list(SCOPES.values())
    return {row: whole[row] for row in sorted(whole, key=lambda row: (row[0], order.index(row[1]), row[2])) if whole[row]}


def descent() -> list[str]:
    """The table of what descent in the whole group gains over the orthogonal start, in points of the naive barrier."""
    lines = ["| descent | of | cell | pairs | orthogonal, % | two_stage, % | gain, points |", "|---" * 7 + "|"]
    for row, pairs in attention_pairs({"naive", "orthogonal", "two_stage"}).items():
        naive, error = (statistics.mean(pair["naive"][key] for pair in pairs) for key in ("barrier", "barrier_error"))
        if naive < 2 * error:  # no barrier of which anything could be a share
            lines.append(f"| {' | '.join(row)} | {len(pairs)} | | | no naive barrier |")
            continue
        orthogonal, both = ([100 * pair[method]["barrier"] / naive for pair in pairs] for method in ("orthogonal", "two_stage"))
        gain = mean_and_spread([o - b for o, b in zip(orthogonal, both)], 1)
        shares = f"{statistics.mean(orthogonal):.1f} | {statistics.mean(both):.1f}"
        lines.append(f"| {' | '.join(row)} | {len(pairs)} | {shares} | {gain} |")
    return lines


def distances() -> list[str]:
    """The table of what is left of the distance between attention layers."""
    lines = ["| distance left | of | positions | pairs | q/k | v/o | q/k over v/o |", "|---" * 7 + "|"]
    for row, pairs in attention_pairs({"naive", "two_stage"}).items():
        qk, vo = left(pairs, "qk"), left(pairs, "vo")
        shown = [mean_and_spread(x, 2) for x in (qk, vo, [q / v for q, v in zip(qk, vo)])]
        lines.append(f"| {' | '.join(row)} | {len(pairs)} | {' | '.join(shown)} |")
    return lines


def students() -> list[str]:
    """The table of students/*.jsonl, by architecture in the order of the records."""
    found = defaultdict(list)
    for path in sorted((RESULTS / "students").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            found[record["architecture"]].append(record)
    lines = ["| students | parameters | teachers | fitted | exact | exact in other coordinates | largest exact error |"]
    lines.append("|---" * 7 + "|")
    rows = [(name, records[0]["parameters"], records) for name, records in found.items()]
    for name, parameters, records in [*rows, ("all", "", sum(found.values(), []))]:
        exact = [record for record in records if record["exact"]]
        same = sum(record["statement"] == "other-coordinates" for record in exact)
        teachers = len({(record["architecture"], record["teacher"]) for record in records})
        worst = f"{max(record['error'] for record in exact):.0e}" if exact else ""
        lines.append(f"| {name} | {parameters} | {teachers} | {len(records)} | {len(exact)} | {same} | {worst} |")
    return lines


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
    made = tables(sys.argv[1]) | {"distance left": distances(), "descent": descent(), "students": students()}
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
