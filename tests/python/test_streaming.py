"""A checkpoint larger than the memory it is rewritten in, and what is left when the work is stopped."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import time

import pytest
import torch
import transformers
from test_transformers_judge import relative_change

# The benchmark's own checkpoint, small: docs/streaming.md has the figures of the large one.
spec = importlib.util.spec_from_file_location(
    "streaming", pathlib.Path(__file__).parents[2] / "bench" / "streaming.py"
)
streaming = importlib.util.module_from_spec(spec)
spec.loader.exec_module(streaming)

BOUND = 100_000_000
PROGRAM_ITSELF = 50_000_000


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streaming") / "source"
    size = streaming.make_checkpoint(
        folder, 4, layers=24, width=512, ffn=2816, vocabulary=4000, heads=16, kv_heads=4
    )
    assert size > 1.5 * (BOUND + PROGRAM_ITSELF)
    return folder


def logits(folder):
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.randint(0, 4000, (2, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model(input_ids=tokens).logits.double()


@pytest.mark.parametrize("verb", ["act", "fold", "convert"])
def test_memory_stays_within_the_bound(checkpoint, tmp_path, verb):
    arguments = {"act": ["--random", "1"], "fold": [], "convert": ["--to", "gguf"]}[verb]
    out = tmp_path / "out"
    _, _, peak, _ = streaming.run_measured(
        [os.environ["REGAUGE"], verb, checkpoint, "-o", out, "--max-memory", f"{BOUND}B",
         *arguments]
    )
    assert peak < BOUND + PROGRAM_ITSELF
    if verb == "act":
        assert len(list(out.glob("*.safetensors"))) == len(list(checkpoint.glob("*.safetensors")))
        # 16-bit numbers in 24 layers of noise; a wrong element changes the outputs by more than 1.
        assert relative_change(logits(checkpoint), logits(out)) < 0.1


def start_writing(checkpoint, out):
    """The process, once its hidden folder is there."""
    process = subprocess.Popen(
        [os.environ["REGAUGE"], "act", checkpoint, "-o", out, "--random", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    while process.poll() is None and not list(out.parent.glob(".out.partial-*")):
        time.sleep(0.01)
    time.sleep(0.1)
    assert process.poll() is None, "the work was over too soon"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_work_leaves_nothing(checkpoint, tmp_path, number):
    process = start_writing(checkpoint, tmp_path / "out")
    process.send_signal(number)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing was written" in said and printed == ""
    assert not list(tmp_path.iterdir())


def test_killed_work_is_never_under_the_final_name(regauge, checkpoint, tmp_path):
    process = start_writing(checkpoint, tmp_path / "out")
    process.kill()
    process.communicate()
    assert not (tmp_path / "out").exists()
    # What is left is hidden, and does not stand in the way of another attempt.
    assert all(path.name.startswith(".out.partial-") for path in tmp_path.iterdir())
    regauge("act", checkpoint, "-o", tmp_path / "out", "--random", 1, "--only", "heads")
