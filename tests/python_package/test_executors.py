"""regauge.diff with the executors that people have: the answer of one run, also where a worker is killed at work."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy
import pytest

import regauge

SIZES = {"hidden_size": 512, "intermediate_size": 1408, "num_attention_heads": 8, "num_key_value_heads": 4}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A model of 110 MB and its copy in other coordinates."""
    folder = tmp_path_factory.mktemp("pair")
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 2048, "num_hidden_layers": 8,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, **SIZES,
    }  # fmt: skip
    random = numpy.random.default_rng(0)

    def matrix(rows, cols):
        return random.normal(0, cols**-0.5, (rows, cols)).astype(numpy.float32)

    width, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    norm = numpy.ones(width, numpy.float32)
    tensors = {"model.embed_tokens.weight": matrix(2048, width), "lm_head.weight": matrix(2048, width)}
    tensors["model.norm.weight"] = norm
    for layer in range(8):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = tensors[at + "post_attention_layernorm.weight"] = norm
        for name, rows in (("q", width), ("k", width // 2), ("v", width // 2), ("o", width)):
            tensors[f"{at}self_attn.{name}_proj.weight"] = matrix(rows, width)
        tensors[at + "mlp.gate_proj.weight"], tensors[at + "mlp.up_proj.weight"] = matrix(inner, width), matrix(inner, width)
        tensors[at + "mlp.down_proj.weight"] = matrix(width, inner)
    model = regauge.from_state_dict(tensors, config)
    a, b = folder / "a", folder / "b"
    regauge.convert(model, a, to="safetensors")
    regauge.act(regauge.open(a), regauge.open(a).symmetry.random_element(seed=1), b)
    return str(a), str(b)


@pytest.fixture(scope="module")
def whole(pair):
    return answer(regauge.diff(*pair))


def answer(found):
    """All that a diff says, bit by bit."""
    rows = [(r.tensor, r.relation, r.size, r.residual, r.rounding, r.excess) for r in found.residuals]
    return found.statement, found.reasons, found.movements, rows


class Started:
    """A diff in a thread of its own."""

    def __init__(self, *arguments, **more):
        self.found = self.error = None
        self.warnings = []

        def run():
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    self.found = regauge.diff(*arguments, **more)
                self.warnings = [str(warning.message) for warning in caught]
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def wait(self):
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.found


def reads(pid, model):
    """The process has mapped the weights."""
    try:
        return str(pathlib.Path(model).resolve()) in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def kill_one(pids, model, started):
    """Kills the first of the processes that is seen at work."""
    while started.thread.is_alive():
        for pid in pids():
            if reads(pid, model):
                os.kill(pid, signal.SIGKILL)
                assert started.thread.is_alive(), "the work was over too soon"
                return pid
        time.sleep(0.001)
    pytest.fail("no worker was seen at work")


@pytest.mark.parametrize("parts", [None, 1, 5, 50])
def test_processes(pair, whole, parts):
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        assert answer(regauge.diff(*pair, executor=executor, parts=parts)) == whole


def test_threads(pair, whole):
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        assert answer(regauge.diff(*pair, executor=executor)) == whole


def test_processes_of_which_one_is_killed(pair, whole):
    """The pool is broken then, and this process goes on alone."""
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        started = Started(*pair, executor=executor, parts=6)
        kill_one(lambda: list(executor._processes or ()), pair[0], started)
        assert answer(started.wait()) == whole
        assert any("made in this process" in message for message in started.warnings)


def test_records_are_kept(pair, whole, tmp_path):
    """Whoever begins again begins where the last one ended."""
    records = tmp_path / "records"
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        assert answer(regauge.diff(*pair, executor=executor, parts=3, records=records)) == whole
    kept = sorted(records.iterdir())
    assert len(kept) % 3 == 0 and len(kept) >= 9
    times = {path: path.stat().st_mtime_ns for path in kept}
    kept[1].unlink()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert answer(regauge.diff(*pair, executor=executor, parts=3, records=records)) == whole
    assert [path for path in kept if path.stat().st_mtime_ns != times[path]] == [kept[1]]
    # They are of these models.
    with concurrent.futures.ThreadPoolExecutor(1) as executor, pytest.raises(regauge.UsageError, match="another B"):
        regauge.diff(pair[0], pair[0], executor=executor, parts=3, records=records)


def test_errors_come_out(pair, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(pair[1], broken)
    (broken / "model.safetensors").write_bytes(b"no weights")
    with concurrent.futures.ProcessPoolExecutor(2) as executor, pytest.raises(regauge.Error):
        regauge.diff(pair[0], broken, executor=executor)
    with concurrent.futures.ProcessPoolExecutor(2) as executor, pytest.raises(regauge.UsageError, match="in memory"):
        model = regauge.open(pair[0])
        regauge.diff(regauge.from_state_dict(model.state_dict(), model.config), pair[1], executor=executor)


@pytest.fixture
def cluster():
    distributed = pytest.importorskip("distributed", reason="pip install distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as local, distributed.Client(local) as client:
        yield client


def test_dask(pair, whole, cluster):
    assert answer(regauge.diff(*pair, executor=cluster.get_executor(), parts=5)) == whole


def test_dask_of_which_a_worker_is_killed(pair, whole, cluster):
    """Dask gives its part to another, which this process does not even notice."""
    pids = list(cluster.run(os.getpid).values())
    assert len(pids) == 3 and os.getpid() not in pids
    started = Started(*pair, executor=cluster.get_executor(), parts=8)
    killed = kill_one(lambda: pids, pair[0], started)
    assert answer(started.wait()) == whole
    assert not any("made in this process" in message for message in started.warnings)
    assert killed not in cluster.run(os.getpid).values()


SCRIPT = """
import json, sys
import regauge
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    a, b, records, out = sys.argv[1:]
    with MPIPoolExecutor() as executor:
        found = regauge.diff(a, b, executor=executor, parts=6, records=records)
        workers = executor.num_workers
    rows = [(r.tensor, r.relation, r.size, r.residual, r.rounding, r.excess) for r in found.residuals]
    json.dump([workers, [found.statement, found.reasons, found.movements, rows]], open(out, "w"))
"""


@pytest.fixture
def mpi(pair, tmp_path):
    pytest.importorskip("mpi4py", reason="pip install mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("apt install openmpi-bin")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def start(records, out):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = ["mpirun", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures", script, *pair, records, out]
        return subprocess.Popen(list(map(str, command)), env=environment, stderr=subprocess.PIPE, text=True)

    return start


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.mark.parametrize("name", ["processes", "dask", "mpi"])
def test_recipes(pair, whole, tmp_path, name):
    """As they stand in docs/scale.md, each in a process of its own."""
    needs = {"processes": (), "dask": ("distributed",), "mpi": ("mpi4py",)}[name]
    for module in needs:
        pytest.importorskip(module)
    before = "import json, sys\nimport regauge\na, b = sys.argv[1:3]\nscheduler = None\n"
    after = """
if __name__ == "__main__":
    rows = [(r.tensor, r.relation, r.size, r.residual, r.rounding, r.excess) for r in found.residuals]
    json.dump([found.statement, found.reasons, found.movements, rows], open("out", "w"))
"""
    [text] = re.findall(rf"<!-- recipe: {name} -->\n```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = tmp_path / "script.py"
    script.write_text(before + text + after)
    command = [sys.executable, script, *pair]
    if name == "mpi":
        if not shutil.which("mpirun"):
            pytest.skip("apt install openmpi-bin")
        command = ["mpirun", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures", script, *pair]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out").read_text()) == as_json(whole)


def as_json(value):
    return json.loads(json.dumps(value))


def test_mpi(whole, mpi, tmp_path):
    process = mpi(tmp_path / "records", tmp_path / "out")
    _, messages = process.communicate(timeout=600)
    assert process.returncode == 0, messages
    assert json.loads((tmp_path / "out").read_text()) == [2, as_json(whole)]


def children(pid):
    """Processes under one, with what they run."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    below, found = {pid}, []
    for line in sorted((tuple(map(int, line.split())) for line in listed.splitlines())):
        if line[1] in below:
            below.add(line[0])
            found.append(line[0])
    return found


def test_mpi_of_which_a_rank_is_killed(pair, whole, mpi, tmp_path):
    """MPI ends all ranks then; the next run begins with the records of those that were done."""
    records = tmp_path / "records"
    process = mpi(records, tmp_path / "out")
    while process.poll() is None and len(list(records.glob("round-*"))) < 2:
        time.sleep(0.005)
    ranks = [pid for pid in children(process.pid) if reads(pid, pair[0])]
    os.kill(ranks[-1], signal.SIGKILL)
    process.communicate(timeout=600)
    assert process.returncode != 0 and not (tmp_path / "out").exists()
    kept = {path: path.stat().st_mtime_ns for path in records.glob("round-*")}
    assert kept
    again = mpi(records, tmp_path / "out")
    _, messages = again.communicate(timeout=600)
    assert again.returncode == 0, messages
    assert json.loads((tmp_path / "out").read_text()) == [2, as_json(whole)]
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
