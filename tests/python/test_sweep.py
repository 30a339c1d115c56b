"""`regauge lab sweep`: a study from a file, in parts, by several at once, and the order of the methods."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from test_lab_train import CHARACTERS, text  # noqa: F401

ROOT = pathlib.Path(__file__).parent.parent.parent
METHODS = {
    "naive": None,
    "stage one": {"method": "two_stage", "scope": "heads"},
    "two_stage": {"method": "two_stage"},
    "learned": {"method": "learned", "steps": 3, "batch": 4, "batches": 1},
}


@pytest.fixture
def study(tmp_path, text):  # noqa: F811
    """Writes an experiment and returns its path and its folder."""

    def write(**changes):
        experiment = {
            "name": "small",
            "architecture": CHARACTERS,
            "training": {"data": f"bytes:{text}", "steps": 30, "batch": 4, "warmup": 5, "test_every": 0},
            "vary": {"norm": {"rms": {}, "layer": {"architecture": {"norm": "layer"}}}},
            "models": 2,
            "scopes": {"attention:0": {"training": {"steps": 10}}, "all": {}},
            "methods": METHODS,
            "line": {"points": 5, "examples": 20},
            **changes,
        }
        path = tmp_path / "experiment.json"
        path.write_text(json.dumps(experiment))
        return path, tmp_path / "study"

    return write


def train_for(path, steps):
    experiment = json.loads(path.read_text())
    experiment["training"]["steps"] = steps
    path.write_text(json.dumps(experiment))


def records(folder):
    lines = [json.loads(line) for path in folder.glob("records/*.jsonl") for line in path.read_text().splitlines()]
    return {(r["cell"]["norm"], r["scope"], r["method"]): r for r in lines}


def stamps(folder):
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file() and "locks" not in p.parts}


def test_what_the_file_says_is_trained_and_measured(lab, study, tmp_path, text):  # noqa: F811
    path, folder = study(plane={"points": 5, "methods": ["learned"]}, heads={"methods": ["two_stage"], "examples": 10})
    assert "0 of 26 are done" in lab.func.messages("lab", "sweep", path, "-o", folder, "--dry-run")
    assert not folder.exists()
    lab("sweep", path, "-o", folder, "--jobs", 2)
    found = records(folder)
    assert set(found) == {(n, s, m) for n in ("rms", "layer") for s in ("attention:0", "all") for m in METHODS}
    for (norm, scope, method), record in found.items():
        assert record["architecture"]["norm"] == norm and record["seeds"] == [1, 2]
        # Settings with their defaults: what the file does not say, too.
        assert record["architecture"]["tied"] is False and record["training"]["weight_decay"] == 0.1
        assert record["training"]["steps"] == (30 if scope == "all" else 10) and "from" not in record["training"]
        if method == "learned":
            assert record["align"]["rate"] == 0.02 and record["align"]["loss"] == "distillation"
        assert [p["t"] for p in record["points"]] == [0, 0.25, 0.5, 0.75, 1]
        assert len(record["made_by"]["commit"]) > 6 or record["made_by"]["commit"] == "unknown"
        assert ("plane" in record) == (method == "learned")
        assert ("ensemble" in record) == (scope == "all") and record["area"] <= record["barrier"]
        assert record["imbalance"].keys() == {f"layers.{i}.attn.{m}" for i in range(CHARACTERS["layers"]) for m in ("qk", "vo")}
        assert ("heads" in record) == (method == "two_stage")
        for rank in record.get("heads", {}).values():
            assert 1 <= rank["rank"] <= rank["of"] and (rank["rank"] == 1) == (rank["best"] == rank["loss"])
        assert record.get("heads", {"layers.0": 0}).keys() <= {f"layers.{i}" for i in range(1 if scope != "all" else 9)}
        apart = {name for name, rest in record["residuals"].items() if rest > 1e-5}
        if scope == "attention:0":
            assert apart <= {f"layers.0.attn.{m}.weight" for m in "qkvo"} and apart
    lab.func("report", folder, "-o", tmp_path / "report.html")
    assert "Does merging pay?" in (tmp_path / "report.html").read_text()
    # What a record says is what the verb measures.
    models = folder / "models" / "rms"
    again = json.loads(lab.func("barrier", models / "all-1", models / "all-2", "--data", f"bytes:{text}", "--split", "test",
                                "--align", "two_stage", "--points", 5, "--examples", 20, "--threads", 1, "--json"))  # fmt: skip
    assert again["barrier"] == pytest.approx(found["rms", "all", "two_stage"]["barrier"], abs=1e-5)
    folder = folder.rename(tmp_path / "moved")
    before = stamps(folder)
    lab("sweep", path, "-o", folder)
    assert stamps(folder) == before


def test_an_interruption_costs_nothing_and_two_may_work_at_once(lab, study, tmp_path):
    path, folder = study()
    train_for(path, 300)  # so that the interruption finds models that are not trained
    lab("sweep", path, "-o", tmp_path / "whole", "--jobs", 2)
    start = lambda: subprocess.Popen(  # noqa: E731
        [os.environ["REGAUGE"], "lab", "sweep", path, "-o", folder], stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
    first = start()
    while len(list(folder.glob("models/*/*/config.json"))) < 3:
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGINT)
    assert first.wait(600) == 130
    done = stamps(folder)
    assert not list(folder.glob("records/*.jsonl"))
    both = [start(), start()]
    assert [process.wait(900) for process in both] == [0, 0]
    assert len(records(folder)) == 16
    whole = [p for p in done if p.name == "model.safetensors" and ".partial" not in str(p)]
    assert len(whole) >= 3 and all(stamps(folder)[p] == done[p] for p in whole)
    for path in (tmp_path / "whole").rglob("model.safetensors"):  # one thread: the same bytes
        assert path.read_bytes() == (folder / path.relative_to(tmp_path / "whole")).read_bytes()


def state_and_parent(pid):
    try:
        state, parent, *_ = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return "Z", 0
    return state, int(parent)


def children(process):
    everybody = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
    return [pid for pid in everybody if state_and_parent(pid)[1] == process.pid]


@pytest.fixture
def at_work(lab, study):
    """A sweep of two processes that train, for longer than a test takes."""
    path, folder = study()
    train_for(path, 100_000)
    command = [os.environ["REGAUGE"], "lab", "sweep", path, "-o", folder, "--jobs", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while len(list(folder.glob("models/*/*.partial"))) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        yield process
        process.kill()


def test_a_killed_sweep_leaves_nobody_at_work(at_work):
    crew = children(at_work)
    assert len(crew) == 2
    at_work.kill()
    end = time.monotonic() + 600
    while any(state_and_parent(child)[0] != "Z" for child in crew):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_killed_process_is_named(at_work):
    for child in children(at_work):
        os.kill(child, signal.SIGKILL)
    _, said = at_work.communicate(timeout=600)
    assert at_work.returncode == 2 and said.count("signal 9; was there too little memory?") == 2


def test_a_failure_costs_only_what_needs_it(lab, study):
    """One cell's data are not there: the other cell is done, by all processes, and the exit code says so."""
    absent = {"architecture": {"norm": "layer"}, "training": {"data": "bytes:/absent"}}
    path, folder = study(vary={"norm": {"rms": {}, "layer": absent}})
    for _ in range(2):  # the same command tries again
        said = refusal(path, folder, "--jobs", 2)
        assert "/absent" in said and "13 of 26 are done" in said
        assert [said.count(f"models/layer/{model}: ") for model in ("base", "all-1", "attention-0-1")] == [1, 1, 0]
    assert set(records(folder)) == {("rms", scope, method) for scope in ("attention:0", "all") for method in METHODS}


def refusal(path, folder, *options):
    command = [os.environ["REGAUGE"], "lab", "sweep", path, "-o", folder, *map(str, options)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert result.returncode == 2
    return result.stderr


def test_records_of_other_settings_are_not_taken_for_ours(lab, study):
    scopes = {"all": {}}
    path, folder = study(scopes=scopes, vary={"norm": {"rms": {}}}, methods={"naive": None})
    lab("sweep", path, "-o", folder)
    changed = (
        {"line": {"points": 7, "examples": 20}},
        {"line": {"points": 5, "examples": 10}},
        {"name": "other"},
        {"methods": {"naive": {"method": "two_stage"}}},
    )
    for changes in changed:
        path, _ = study(**{"scopes": scopes, "vary": {"norm": {"rms": {}}}, "methods": {"naive": None}, **changes})
        assert "holds a record of other settings" in refusal(path, folder)


def test_models_of_other_settings_are_not_taken_for_ours(lab, study):
    path, folder = study()
    lab("sweep", path, "-o", folder)
    study(vary={"norm": {"rms": {"training": {"learning_rate": 0.5}}}})
    assert "learning_rate" in refusal(path, folder)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"scope": {}}, "scope"),
        ({"scopes": {"heads": {}}}, "attention or block"),
        ({"methods": {"ours": {"method": "magic"}}}, "magic"),
        ({"methods": {"ours": {"method": "weights", "steps": 3}}}, "steps"),
        ({"methods": {"../up": None}}, "no name"),
        ({"methods": {"one two": None, "one-two": None}}, "make one file"),
        ({"vary": {"norm": {"rms": {"archtecture": {}}}}}, "archtecture"),
        ({"plane": {"methods": ["naive"]}}, "naive"),
        ({"models": 1}, "models"),
        ({"architecture": {**CHARACTERS, "heads": 0}}, "heads"),
        ({"training": {"data": "bytes:x", "step": 3}}, "step"),
        ({"training": 3}, "training"),
        ({"methods": {"two_stage": {}}}, "two_stage, weights"),
        ({"scopes": {"attention:9": {}}}, "attention:9"),
        ({"scopes": {"attention:0": {"architecture": {"ffn_width": 32}}}}, "may not change"),
    ],
)
def test_a_mistake_in_the_file_is_named(lab, study, changes, word):
    path, folder = study(**changes)
    assert word in refusal(path, folder, "--dry-run")
    assert word in refusal(path, folder)
    assert not folder.exists()


FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


@pytest.mark.skipif(not FASHION.exists(), reason="needs the package dataset-fashion-mnist")
def test_a_row_of_the_study_comes_out_in_order(lab, tmp_path):
    """experiments/row.json with less of everything: models that differ in their attention alone."""
    row = json.loads((ROOT / "experiments" / "row.json").read_text())
    row["models"] = 2
    row["training"]["steps"] = row["scopes"]["attention"]["training"]["steps"] = 300
    row["methods"]["learned"]["steps"] = 100
    row["line"] = {"points": 11, "examples": 1000}
    path = tmp_path / "row.json"
    path.write_text(json.dumps(row))
    lab("sweep", path, "-o", tmp_path / "row", "--jobs", 2)
    lines = [json.loads(record.read_text()) for record in (tmp_path / "row").glob("records/*.jsonl")]
    barrier = {line["method"]: line["barrier"] for line in lines}
    print(barrier)
    assert barrier["naive"] > 3 * barrier["two_stage"] > 3 * 1.3 * barrier["learned"]
    assert barrier["stage one"] > 3 * barrier["orthogonal"]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.json")), ids=lambda path: path.stem)
def test_the_experiments_are_well_formed(lab, tmp_path, path):
    said = lab.func.messages("lab", "sweep", path, "-o", tmp_path / "study", "--dry-run")
    assert "0 of " in said and json.loads(path.read_text())["name"] == path.stem
