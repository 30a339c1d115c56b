"""What goes wrong is said on standard error, ends with 2 and leaves nothing behind."""

import json
import os
import shutil
import subprocess

import numpy
import pytest
import safetensors.numpy
from conftest import FIXTURES


def cut_folder(tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(FIXTURES / "llama", folder)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:20000])
    return folder


def without_a_tensor_file(tmp_path):
    folder = tmp_path / "incomplete"
    shutil.copytree(FIXTURES / "llama-sharded", folder)
    (folder / "model-00003-of-00005.safetensors").unlink()
    return folder


def with_broken_config(tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(FIXTURES / "llama", folder)
    (folder / "config.json").write_text('{"model_type": "llama", ')
    return folder


def with_no_numbers(tmp_path):
    folder = tmp_path / "no_numbers"
    shutil.copytree(FIXTURES / "llama", folder)
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = numpy.nan
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def cut_gguf(tmp_path):
    file = tmp_path / "cut.gguf"
    file.write_bytes((FIXTURES / "llama-gguf" / "model.gguf").read_bytes()[:30000])
    return file


def mistral_without_window(tmp_path):
    """What llama.cpp calls a llama."""
    folder = tmp_path / "mistral"
    shutil.copytree(FIXTURES / "mistral", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "sliding_window": None}))
    return folder


def element_of_llama(tmp_path):
    program = os.environ["REGAUGE"]
    element, scratch = tmp_path / "llama.safetensors", tmp_path / "scratch"
    subprocess.run(
        [program, "act", FIXTURES / "llama", "-o", scratch, "--random", "1",
         "--save-element", element],
        check=True, capture_output=True,
    )
    shutil.rmtree(scratch)
    return element


# Arguments ({out} does not exist, {existing} does, functions make their argument), and what the message must say.
CASES = {
    "no such path": (["act", "{out}-nowhere", "--random", "1", "-o", "{out}"], "no such file"),
    "no such path to inspect": (["inspect", "{out}-nowhere"], "no such file"),
    "cut safetensors": (["act", cut_folder, "--random", "1", "-o", "{out}"], "cut short"),
    "cut gguf": (["act", cut_gguf, "--random", "1", "-o", "{out}"], "cut.gguf"),
    "missing shard": (
        ["act", without_a_tensor_file, "--random", "1", "-o", "{out}"],
        "model-00003-of-00005.safetensors",
    ),
    "broken config": (["act", with_broken_config, "--random", "1", "-o", "{out}"], "config.json"),
    "output exists": (
        ["act", FIXTURES / "llama", "--random", "1", "-o", "{existing}"],
        "choose another name",
    ),
    "no folder for the output": (
        ["act", FIXTURES / "llama", "--random", "1", "-o", "{out}/deeper"],
        "out/deeper: its folder does not exist",
    ),
    "no output": (["act", FIXTURES / "llama", "--random", "1"], "-o OUT"),
    "no numbers": (["act", with_no_numbers, "--random", "1", "-o", "{out}"], "NaN or infinite"),
    "no numbers to fold": (["fold", with_no_numbers, "-o", "{out}"], "NaN or infinite"),
    "no numbers to order": (["canon", with_no_numbers, "-o", "{out}"], "NaN or infinite"),
    "a certificate that exists": (
        ["diff", FIXTURES / "llama", FIXTURES / "llama", "--certificate", "{existing}"],
        "already exists",
    ),
    "a page that exists": (
        ["diff", FIXTURES / "llama", FIXTURES / "llama", "--html", "{existing}"],
        "already exists",
    ),
    "an output of nothing": (
        ["diff", FIXTURES / "llama", FIXTURES / "llama", "-o", "{out}"],
        "--repair",
    ),
    "no element": (["act", FIXTURES / "llama", "-o", "{out}"], "--random SEED or --element FILE"),
    "untie an untied model": (
        ["act", FIXTURES / "llama", "--random", "1", "--untie", "-o", "{out}"],
        "is not tied",
    ),
    "element of another architecture": (
        ["act", FIXTURES / "qwen2", "--element", element_of_llama, "-o", "{out}"],
        "architecture",
    ),
    "element that is none": (
        ["act", FIXTURES / "llama", "--element", FIXTURES / "io" / "every_dtype.safetensors",
         "-o", "{out}"],
        "every_dtype.safetensors",
    ),
    "centring an rms model": (
        ["fold", FIXTURES / "llama", "--centre", "-o", "{out}"],
        "changes the function",
    ),
    "unknown factor": (
        ["act", FIXTURES / "llama", "--random", "1", "--only", "nose", "-o", "{out}"],
        "choose from residual",
    ),
    "too little memory": (
        ["act", FIXTURES / "llama", "--random", "1", "--max-memory", "1KB", "-o", "{out}"],
        "--max-memory",
    ),
    "not an amount": (
        ["act", FIXTURES / "llama", "--random", "1", "--max-memory", "lots", "-o", "{out}"],
        "write 1GB",
    ),
    "unknown dtype": (
        ["act", FIXTURES / "llama", "--random", "1", "--dtype", "F8", "-o", "{out}"],
        "f32, f16 or bf16",
    ),
    "unknown format": (
        ["convert", FIXTURES / "llama", "--to", "onnx", "-o", "{out}"],
        "safetensors, gguf, llama2c",
    ),
    "family without that format": (
        ["convert", FIXTURES / "gpt2", "--to", "llama2c", "-o", "{out}"],
        "known there are llama",
    ),
    "format without the family": (
        ["convert", mistral_without_window, "--to", "gguf", "-o", "{out}"],
        "--family llama",
    ),
    "negative seed": (
        ["act", FIXTURES / "llama", "--random=-1", "-o", "{out}"],
        "whole number from 0 on",
    ),
    "no jobs": (
        ["diff", FIXTURES / "llama", FIXTURES / "llama", "--jobs", "0"],
        "--jobs: '0' is not a whole number from 1 on",
    ),
    "part of a job": (
        ["diff", FIXTURES / "llama", FIXTURES / "llama", "--jobs", "1.5"],
        "'1.5' is not a whole number from 1 on",
    ),
    "not a seed": (["act", FIXTURES / "llama", "--random", "x", "-o", "{out}"], "--random"),
    "unknown option": (["inspect", FIXTURES / "llama", "--nose"], "Run regauge inspect --help"),
    "unknown verb": (["nose"], "--help"),
    "an id of the Hub": (["inspect", "meta-llama/Llama-3.2-1B"], "`hf download meta-llama/Llama-3.2-1B`"),
}


@pytest.mark.parametrize("case", CASES)
def test_refusal(tmp_path, case):
    arguments, message = CASES[case]
    work = tmp_path / "work"
    work.mkdir()
    places = {"out": work / "out", "existing": work / "existing"}
    if "{existing}" in arguments:
        places["existing"].mkdir()
    arguments = [
        item(tmp_path) if callable(item) else str(item).format(**places) for item in arguments
    ]
    before = sorted(path.name for path in work.rglob("*"))
    result = subprocess.run(
        [os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert ".partial" not in result.stderr
    assert result.stdout == ""
    assert sorted(path.name for path in work.rglob("*")) == before


def test_help_and_version_are_answers():
    for arguments in (["--help"], ["--version"], ["act", "--help"]):
        result = subprocess.run(
            [os.environ["REGAUGE"], *arguments], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0 and result.stdout and not result.stderr


def test_dry_run_writes_nothing(regauge, tmp_path):
    text = regauge("act", FIXTURES / "llama", "--random", 1, "--dry-run", "-o", tmp_path / "out")
    assert "plan:" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["dif", "a", "b"], "there is no verb 'dif'; did you mean diff?"),
        (["diff", "a", "b", "--htlm", "x.html"], "there is no option --htlm; did you mean --html?"),
        (["convert", "a", "b.gguf", "--to", "gguf", "-o", "c"], "'b.gguf' was not expected; an output goes behind -o"),
        (["inspect", FIXTURES / "llama-gguf"], "the folder has no config.json; for its GGUF name"),
    ],
)
def test_a_slip_is_answered_by_what_was_meant(arguments, said):
    result = subprocess.run([os.environ["REGAUGE"], *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and said in result.stderr
