"""`regauge report`: the page and the JSON say what the records say, and what is not there."""

import json
import math
import re
import statistics
import xml.etree.ElementTree

import pytest

SCOPES = ("attention:0", "all")
POSITIONS = ("rotary", "none")
SHARES = {"naive": 1, "two_stage": 0.3, "weights": 0.1}
PAIRS = ([1, 2], [3, 4], [5, 6])


def measurement(positions, scope, seeds, method, barrier):
    """A record as a sweep writes it: a line of 13 points whose largest excess is the barrier."""
    points = []
    for i in range(13):
        t = i / 12
        excess = barrier * math.sin(math.pi * t)
        points.append({"t": t, "loss": 1 + excess, "loss_error": 0.01, "accuracy": 0.9 - 0.1 * excess})
        points[-1] |= {"excess": excess, "excess_error": 0.01 * excess}
    tensors = [f"layers.{layer}.attn.{name}.weight" for layer in range(2) for name in "qkvo"]
    axis = [-1.0, 0.0, 1.0, 2.0]
    return {
        "experiment": "fashion",
        "cell": {"data": "fashion-mnist", "positions": positions},
        "scope": scope,
        "seeds": seeds,
        "method": method,
        "architecture": {"width": 64, "layers": 2},
        "training": {"steps": 500},
        "align": {},
        "barrier": barrier,
        "barrier_error": 0.01,
        "barrier_at": 0.5,
        "examples": 300,
        "targets": 300,
        "points": points,
        "residuals": {tensor: SHARES.get(method, 1) for tensor in [*tensors, "embed.tokens"]},
        "plane": {
            "x": axis,
            "y": axis,
            "loss": [[1 + x * x + y * y for x in axis] for y in axis],
            "a": [0, 0],
            "b": [1, 0],
            "aligned": [0, 1],
        },
        "seconds": {"align": 1.5, "line": 2.5},
        "made_by": {"regauge": "0.1.0", "commit": "c0ffee", "threads": 1},
    }


def study():
    records = []
    for positions in POSITIONS:
        for scope in SCOPES:
            for number, seeds in enumerate(PAIRS):
                for method, share in SHARES.items():
                    barrier = share * (1 + 0.1 * number) * (2 if scope == "all" else 1)
                    records.append(measurement(positions, scope, list(seeds), method, barrier))
    return records


def write(folder, records):
    (folder / "records").mkdir(parents=True, exist_ok=True)
    half = len(records) // 2
    for name, part in (("a", records[:half]), ("b", records[half:])):
        lines = "".join(json.dumps(record) + "\n" for record in part)
        (folder / "records" / f"{name}.jsonl").write_text(lines)
    return folder


class Page:
    """A page that must be whole and alone, as a tree."""

    def __init__(self, source):
        self.source = source
        assert not re.search(r"url\(|@import|<script|<link|<img|<iframe", source)
        assert not re.sub(r'xmlns="http://www\.w3\.org/2000/svg"', "", source).count("http")
        source = source.removeprefix("<!DOCTYPE html>\n").replace('xmlns="http://www.w3.org/2000/svg"', "")
        self.root = xml.etree.ElementTree.fromstring(source)
        ids = [element.get("id") for element in self.root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        for link in self.root.iter("a"):
            assert link.get("href").removeprefix("#") in ids
        for element in self.root.iter():
            assert not {name for name in element.keys() if name.startswith("on")} | {"style"} & set(element.keys())

    def words(self, element=None):
        return " ".join(" ".join((self.root if element is None else element).itertext()).split())

    def facts(self):
        found = {}
        for fact in self.root.findall(".//div[@class='facts']/div"):
            number = fact.find("b")
            found[number.tail] = int(number.text)
        return found

    def table(self):
        """{(scope, cell, method): words of the field}."""
        table = self.root.find(".//table[@class='barriers']")
        methods = [head.text for head in table.findall("./thead/tr/th")][1:]
        fields = {}
        for body in table.findall("./tbody"):
            scope = body.find("./tr/th").find(".//code").text
            for row in body.findall("./tr")[1:]:
                cells = [self.words(cell) for cell in row.findall("./td")]
                for method, words in zip(methods, cells, strict=True):
                    fields[scope, row.find("./th").text, method] = words
        return fields


def made(regauge, folder, name="page.html"):
    numbers = json.loads(regauge("report", folder, "-o", folder / name, "--json"))
    return Page((folder / name).read_text()), numbers


def test_the_numbers_of_the_tables(regauge, tmp_path):
    records = study()
    page, numbers = made(regauge, write(tmp_path, records))
    fields = page.table()
    assert len(fields) == len(POSITIONS) * len(SCOPES) * len(SHARES)
    (experiment,) = numbers["experiments"]
    assert experiment["methods"] == list(SHARES)
    rows = {(row["scope"], row["cell"]["positions"]): row["methods"] for row in experiment["rows"]}
    for (scope, positions, method), words in fields.items():
        barriers = [
            record["barrier"]
            for record in records
            if (record["scope"], record["cell"]["positions"], record["method"]) == (scope, positions, method)
        ]
        mean, spread = statistics.mean(barriers), statistics.stdev(barriers)
        told = rows[scope, positions][method]
        assert told["mean"] == pytest.approx(mean)
        assert told["spread"] == pytest.approx(spread)
        assert told["ratio"] == pytest.approx(SHARES[method])
        assert (told["n"], told["not_run"]) == (3, 0)
        found = re.fullmatch(r"([\d.]+) ± ([\d.]+) (?:([\d.]+) % · )?n 3", words)
        assert found, words
        assert float(found[1]) == pytest.approx(mean, abs=6e-4)
        assert float(found[2]) == pytest.approx(spread, abs=6e-4)
        assert (found[3] is None) == (method == "naive")
        if found[3]:
            assert float(found[3]) == pytest.approx(100 * SHARES[method], abs=0.6)
    assert page.facts() == {
        "experiments": 1,
        "models": 24,
        "pairs of models": 12,
        "measurements": 36,
        "not run": 0,
    }
    assert "c0ffee" in page.words()


def test_charts_hold_the_measurements(regauge, tmp_path):
    page, _ = made(regauge, write(tmp_path, study()))
    charts = [svg for svg in page.root.iter("svg") if svg.get("class") == "chart lines"]
    assert len(charts) == 2 * len(POSITIONS) * len(SCOPES)
    for chart in charts:
        lines = [line.get("points").split() for line in chart.iter("polyline")]
        assert [len(points) for points in lines] == [13] * len(SHARES)
    # Pointing at the middle of the first chart tells mean and range of each method.
    told = next(title.text for title in charts[0].iter("title") if title.text.startswith("0.5\n"))
    assert told.splitlines()[1] == "naive 1.100 (1.000 to 1.200)"
    planes = [svg for svg in page.root.iter("svg") if svg.get("class") == "chart plane"]
    assert len(planes) == len(POSITIONS) * len(SCOPES) * len(SHARES)
    # The ends as the line has them, the middles between points of the grid.
    assert "A 1.000, B 1.000; about halfway to B 1.500, halfway to B aligned 1.500" in page.words()
    maps = [svg for svg in page.root.iter("svg") if svg.get("class") == "chart heat"]
    assert len(maps) == len(POSITIONS) * len(SCOPES) * len(SHARES)
    assert len(list(maps[0].iter("rect"))) == 2 * 4 + 1
    labels = [text.text for text in maps[0].findall("text")]
    assert labels == ["0", "1", "embed.tokens", *(f"attn.{name}.weight" for name in "qkvo")]


def test_what_is_missing_is_not_run(regauge, tmp_path):
    gone = ("all", "none", "weights")

    def is_gone(record):
        return (record["scope"], record["cell"]["positions"], record["method"]) == gone

    page, numbers = made(regauge, write(tmp_path / "all", [r for r in study() if not is_gone(r)]))
    assert page.table()[gone] == "not run"
    assert page.facts()["not run"] == numbers["not_run"] == 3
    assert sum(words == "not run" for words in page.table().values()) == 1
    # One pair of three.
    first = next(record for record in study() if is_gone(record))
    page, numbers = made(regauge, write(tmp_path / "one", [r for r in study() if r != first]))
    assert page.table()[gone].endswith("n 2 of 3")
    assert numbers["not_run"] == 1
    # A whole cell of the grid.
    records = [r for r in study() if r["cell"]["positions"] == "rotary" or r["scope"] != "all"]
    page, numbers = made(regauge, write(tmp_path / "cell", records))
    assert [page.table()["all", "none", method] for method in SHARES] == ["not run"] * 3
    assert numbers["not_run"] == 9


def test_what_was_planned_and_is_not_there_is_not_run(regauge, tmp_path):
    """A scope, a cell and a method of which no record knows."""
    plan = {
        "name": "fashion",
        "architecture": {"width": 8, "layers": 1, "heads": 2, "kv_heads": 2, "qk_width": 4, "v_width": 4, "ffn_width": 8,
                         "vocabulary": 16, "max_positions": 8},
        "training": {"data": "bytes:text"},
        "vary": {"data": {"fashion-mnist": {}}, "positions": {"rotary": {}, "learned": {}}},
        "models": 2,
        "scopes": {"all": {}, "block:0": {}},
        "methods": {"naive": None, "learned": {"method": "learned"}},
    }  # fmt: skip
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    folder = write(tmp_path, [r for r in study() if r["scope"] == "all" and r["seeds"] == [1, 2]])
    assert json.loads(regauge("report", folder, "--json"))["not_run"] == 0
    numbers = json.loads(regauge("report", folder, "--json", "--experiment", tmp_path / "plan.json"))
    rows = {(row["scope"], row["cell"]["positions"]): row["methods"] for row in numbers["experiments"][0]["rows"]}
    assert set(rows) == {(s, p) for s in ("all", "block:0") for p in ("rotary", "none", "learned")}
    assert set(rows["all", "rotary"]) == {"naive", "two_stage", "weights", "learned"}
    assert rows["all", "rotary"]["naive"]["not_run"] == 0 and rows["all", "rotary"]["learned"]["not_run"] == 1
    assert numbers["not_run"] == 6 * 4 - 6
    regauge("report", folder, "--json", "--experiment", tmp_path / "absent.json", expect=2)
    # On the page, too: and an experiment of which nothing has been run.
    (tmp_path / "other.json").write_text(json.dumps(plan | {"name": "other"}))
    options = ("--experiment", tmp_path / "plan.json", "--experiment", tmp_path / "other.json")
    regauge("report", *options, folder, "-o", tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert page.facts()["not run"] == numbers["not_run"] + 2 * 2 * 2
    assert page.table()["block:0", "rotary", "naive"] == "not run"


def test_a_number_that_varies_has_a_chart(regauge, tmp_path):
    records = []
    for width in (64, 128, 256):
        for seeds in PAIRS:
            records.append(measurement("rotary", "all", seeds, "naive", 100 / width + seeds[0] / 100))
            records[-1]["cell"]["width"] = str(width)
    page, _ = made(regauge, write(tmp_path, records))
    assert "Barriers by width" in page.words()
    chart = next(svg for svg in page.root.iter("svg") if svg.get("aria-label") == "The barrier by width")
    told = [title.text.splitlines()[:2] for title in chart.iter("title")]
    assert told[1] == ["128", "naive 0.811 (0.791 to 0.831)"]
    page, _ = made(regauge, write(tmp_path / "words", study()))
    assert "Barriers by" not in page.words()


def test_another_barrier_makes_another_page(regauge, tmp_path):
    page, _ = made(regauge, write(tmp_path / "a", study()))
    again, _ = made(regauge, write(tmp_path / "b", study()))
    assert page.source == again.source
    records = study()
    records[0]["barrier"] *= 2
    other, _ = made(regauge, write(tmp_path / "c", records))
    key = (records[0]["scope"], records[0]["cell"]["positions"], "naive")
    assert other.table()[key] != page.table()[key]
    unchanged = {k: words for k, words in page.table().items() if k[:2] != key[:2]}
    assert unchanged == {k: words for k, words in other.table().items() if k[:2] != key[:2]}


def test_text_is_text_and_nothing_else(regauge, tmp_path):
    hostile = "</style><script>alert('x')</script> &amp; \u0007 \u00e9"
    records = study()
    for record in records:
        record["experiment"] = record["training"]["note"] = record["made_by"]["commit"] = hostile
        record["cell"]["data"] = hostile + record["cell"]["positions"]
        record["residuals"][hostile] = 1.0
        if record["method"] == "weights":
            record["method"] = hostile
    page, _ = made(regauge, write(tmp_path, records))
    assert "</style><script>alert('x')</script> &amp; \\u{7} \u00e9" in page.words()


def refused(regauge, folder, *arguments):
    regauge("report", folder, *arguments, expect=2)


def test_bad_input(regauge, tmp_path):
    refused(regauge, tmp_path / "absent", "--json")
    refused(regauge, tmp_path, "--json")  # no records
    folder = write(tmp_path / "study", study())
    refused(regauge, folder)  # nothing to make
    (folder / "taken.html").write_text("mine")
    refused(regauge, folder, "-o", folder / "taken.html")
    assert (folder / "taken.html").read_text() == "mine"
    refused(regauge, folder, "-o", folder / "absent" / "page.html")
    lines = (folder / "records" / "b.jsonl").read_text()
    (folder / "records" / "b.jsonl").write_text(lines[:-40])
    refused(regauge, folder, "-o", folder / "page.html")
    assert not (folder / "page.html").exists()


def test_the_folder_of_records_itself_will_do(regauge, tmp_path):
    folder = write(tmp_path, study())
    assert regauge("report", folder, "--json") == regauge("report", folder / "records", "--json")
    assert regauge("report", folder, "-o", folder / "p.html").startswith(f"{folder}/p.html: 36 measurements")
