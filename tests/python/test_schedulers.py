"""The recipes of docs/scale.md, as they stand there: GNU parallel, and Slurm with its own daemons on this host."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
import torch
import transformers

PROGRAM = pathlib.Path(os.environ.get("REGAUGE", "regauge")).resolve()
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scale.md"


def recipe(name):
    found = re.search(rf"<!-- recipe: {name} -->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, name
    return found[1]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A model of 100 MB and its copy in other coordinates."""
    folder = tmp_path_factory.mktemp("pair")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=4000, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
        intermediate_size=1376,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder / "a")
    subprocess.run([PROGRAM, "act", folder / "a", "--random", "1", "-o", folder / "b"], check=True)
    return folder / "a", folder / "b"


@pytest.fixture(scope="module")
def whole(pair):
    return subprocess.run([PROGRAM, "diff", *pair], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def environment(pair):
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "A": str(pair[0]), "B": str(pair[1])}


def shell(text, folder, environment):
    done = subprocess.run(["bash", "-e", "-c", text], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("parallel"), reason="apt install parallel")
def test_parallel(whole, environment, tmp_path):
    assert shell(recipe("parallel"), tmp_path, environment) == whole
    assert len(list((tmp_path / "parts").iterdir())) == 16


def test_the_command_of_kubernetes(whole, pair, environment, tmp_path):
    """No cluster is here: the container's command, with the index that Kubernetes gives it."""
    import yaml

    job = yaml.safe_load(recipe("kubernetes"))
    [container] = job["spec"]["template"]["spec"]["containers"]
    shell_name, option, command = container["command"]
    assert (shell_name, option) == ("sh", "-c") and job["spec"]["completionMode"] == "Indexed"
    parts = tmp_path / "parts"
    parts.mkdir()
    for at, here in {"/models/a": pair[0], "/models/b": pair[1], "/parts": parts}.items():
        assert at in command
        command = command.replace(at, str(here))
    for index in range(job["spec"]["completions"]):
        subprocess.run(["sh", "-c", command], env={**environment, "JOB_COMPLETION_INDEX": str(index)}, check=True)
    assert shell("regauge diff --join parts", tmp_path, environment) == whole


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Slurm:
    """munged, slurmctld and slurmd in a folder of their own."""

    def __init__(self, folder):
        self.folder, host = folder, socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        config = {
            "ClusterName": "regauge", "SlurmctldHost": f"{host}(127.0.0.1)", "SlurmctldPort": free_port(),
            "SlurmdPort": free_port(), "AuthType": "auth/munge", "AuthInfo": f"socket={folder}/munge.socket",
            "SlurmUser": "root", "SlurmdUser": "root", "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool", "SlurmctldPidFile": folder / "slurmctld.pid",
            "SlurmdPidFile": folder / "slurmd.pid", "SlurmctldLogFile": folder / "slurmctld.log",
            "SlurmdLogFile": folder / "slurmd.log", "ProctrackType": "proctrack/pgid", "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core", "MpiDefault": "none", "ReturnToService": 2,
            "SchedulerParameters": "batch_sched_delay=0",
        }  # fmt: skip
        lines = [f"{key}={value}" for key, value in config.items()]
        lines.append(f"NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN")
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        munge = [f"--{name}={folder}/{file}" for name, file in (
            ("socket", "munge.socket"), ("key-file", "key"), ("log-file", "munged.log"), ("pid-file", "munged.pid"),
            ("seed-file", "seed"),
        )]  # fmt: skip
        self.run("munged", "--force", *munge)
        self.run("slurmctld")
        self.run("slurmd", "-N", host)
        self.wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), 60)

    def run(self, *command):
        return subprocess.run(
            command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=True
        ).stdout

    def wait(self, done, seconds=300, pause=0.2):
        until = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until, (self.folder / "slurmctld.log").read_text()[-3000:]
            time.sleep(pause)

    def stop(self):
        for name in ("slurmctld", "slurmd", "munged"):
            try:
                os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGTERM)
            except (OSError, ValueError):
                pass


@pytest.fixture
def slurm(tmp_path):
    if not all(shutil.which(name, path="/usr/sbin:/usr/bin") for name in ("munged", "slurmctld", "slurmd", "sbatch")):
        pytest.skip("apt install slurm-wlm munge")
    if os.getuid() != 0:
        pytest.skip("slurmd wants to be root")
    folder = tmp_path / "slurm"
    folder.mkdir()
    cluster = Slurm(folder)
    yield cluster
    cluster.stop()


def part_at_work(arguments, model):
    """A process that does a part of this model, once it has mapped the weights."""
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and arguments in (folder / "cmdline").read_bytes().split(b"\0"):
                if str(model / "model.safetensors") in (folder / "maps").read_text():
                    return int(folder.name)
        except OSError:
            continue
    return None


@pytest.mark.parametrize("kill", [False, True], ids=["undisturbed", "killed"])
def test_slurm(slurm, pair, whole, environment, tmp_path, kill):
    """A real array. In the second run a task's process is killed at work, and Slurm starts the task again."""
    shell(recipe("slurm"), tmp_path, {**environment, **slurm.environment})
    if kill:
        found = []

        def seen():
            found.append(part_at_work(b"3/16", pair[0]))
            return found[-1] is not None

        slurm.wait(seen, pause=0.002)
        os.kill(found[-1], signal.SIGKILL)
        assert not (tmp_path / "parts" / "3").exists()
    slurm.wait(lambda: not slurm.run("squeue", "-h"), 900)
    assert (tmp_path / "answer.txt").read_text() == whole
    assert len(list((tmp_path / "parts").iterdir())) == 16
    log = (tmp_path / "part-3.log").read_text()
    assert ("Killed" in log) == kill
