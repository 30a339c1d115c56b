"""Errors, progress, cancellation, threads, the command line and start-up."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import FIXTURES

import regauge
from regauge.__main__ import main


def python(*arguments, expect=0):
    result = subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert result.returncode == expect, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def large():
    """Large enough that rewriting it takes a while."""
    width, ffn, layers = 512, 2048, 4
    random = numpy.random.default_rng(1)
    config = dict(
        model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=width,
        intermediate_size=ffn, num_hidden_layers=layers, num_attention_heads=8,
        num_key_value_heads=8, vocab_size=1000, rms_norm_eps=1e-5, rope_theta=1e4,
        hidden_act="silu", tie_word_embeddings=False, max_position_embeddings=64,
    )  # fmt: skip
    shapes = {"model.embed_tokens.weight": (1000, width), "lm_head.weight": (1000, width), "model.norm.weight": (width,)}
    for layer in range(layers):
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"):
            shapes[f"model.layers.{layer}.{name}.weight"] = (width, width)
        for name in ("mlp.gate_proj", "mlp.up_proj"):
            shapes[f"model.layers.{layer}.{name}.weight"] = (ffn, width)
        shapes[f"model.layers.{layer}.mlp.down_proj.weight"] = (width, ffn)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"model.layers.{layer}.{name}.weight"] = (width,)
    tensors = {n: random.standard_normal(s, numpy.float32) for n, s in shapes.items()}
    return regauge.from_state_dict(tensors, config)


def test_errors_are_a_hierarchy(tmp_path):
    with pytest.raises(regauge.FileError):
        regauge.open(tmp_path / "nothing")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    with pytest.raises(regauge.CorruptFile, match="broken.gguf"):
        regauge.open(tmp_path / "broken.gguf")
    for error in (regauge.FileError, regauge.CorruptFile, regauge.UsageError, regauge.Cancelled):
        assert issubclass(error, regauge.Error) and issubclass(error, Exception)


def test_progress_is_told(llama, tmp_path):
    told = []
    regauge.act(llama, llama.symmetry.random_element(1), progress=lambda *t: told.append(t))
    assert told and told[-1][1] == told[-1][2] > 0


def test_tqdm_shows_it(llama, capsys):
    pytest.importorskip("tqdm")
    element = llama.symmetry.random_element(1)
    regauge.act(llama, element, progress=regauge.tqdm_progress(file=sys.stderr))
    assert "rewriting" in capsys.readouterr().err


def test_an_exception_in_the_callback_ends_the_work(llama, tmp_path):
    def refuse(what, done, total):
        raise ZeroDivisionError(what)

    with pytest.raises(ZeroDivisionError):
        regauge.act(llama, llama.symmetry.random_element(1), tmp_path / "out", progress=refuse)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def interruptible():
    """Ctrl-C as at a terminal; a job in the background may have begun with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.default_int_handler)


def test_an_interrupt_cancels(interruptible, large, tmp_path):
    element = large.symmetry.random_element(1)
    interrupt = threading.Timer(0.05, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        for _ in range(1000):
            regauge.align(large, regauge.act(large, element))
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_gives_ctrl_c_back(interruptible, large, tmp_path, monkeypatch):
    def command_line(*arguments):
        monkeypatch.setattr("sys.argv", ["regauge", *map(str, arguments)])
        return main()

    a = regauge.convert(large, tmp_path / "a").path
    interrupt = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    assert command_line("act", a, "--random", 1, "-o", tmp_path / "b") == 130
    assert not (tmp_path / "b").exists()
    assert command_line("inspect", a) == 0
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_other_threads_go_on(large):
    """The longest pause of a thread that only counts, while the work runs in another; at best of three."""
    element = large.symmetry.random_element(1)

    def longest_pause():
        work = threading.Thread(target=regauge.act, args=(large, element))
        begin = last = time.monotonic()
        longest = 0.0
        work.start()
        while work.is_alive():
            time.sleep(0.001)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        return longest / (last - begin)

    pauses = [longest_pause() for _ in range(3)]
    assert min(pauses) < 0.5, pauses


def test_the_command_line(tmp_path):
    how = ("-m", "regauge")
    a = FIXTURES / "llama"
    assert regauge.__version__ in python(*how, "--version").stdout
    assert "O(20)" in python(*how, "inspect", a).stdout
    python(*how, "act", a, "--random", 1, "-o", tmp_path / "b")
    assert "the same function" in python(*how, "diff", a, tmp_path / "b").stdout
    python(*how, "diff", a, FIXTURES / "llama-bf16", expect=1)
    assert "--help" in python(*how, "act", expect=2).stderr


def test_import_is_fast_and_brings_no_framework():
    """Against numpy, which it needs: an absolute time says more about the machine."""
    program = """
import sys, time
start = time.process_time()
import numpy
middle = time.process_time()
import regauge
print((time.process_time() - middle) / (middle - start), "torch" in sys.modules)
"""
    ratio, torch = min(python("-c", program).stdout.split() for _ in range(3))
    assert float(ratio) < 0.5 and torch == "False"
