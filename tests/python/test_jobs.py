"""Work that is spread over layers: the same bytes for every number of jobs, and what --max-memory makes of it."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest
import safetensors.torch
import torch
import transformers

JOBS = (1, 2, 5)
SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 7, "num_attention_heads": 4}


def models():
    llama = transformers.LlamaConfig(**SIZES, intermediate_size=48, num_key_value_heads=2)
    gpt_neox = transformers.GPTNeoXConfig(**SIZES, intermediate_size=48)
    qwen3_moe = transformers.Qwen3MoeConfig(
        **SIZES, intermediate_size=48, moe_intermediate_size=8, num_key_value_heads=2, head_dim=8,
        num_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    # Heads of all layers are those of one, whose table of positions they share.
    t5 = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=3, num_decoder_layers=3, num_heads=4,
        pad_token_id=0, decoder_start_token_id=0,
    )  # fmt: skip
    yield "llama", transformers.LlamaForCausalLM, llama
    yield "gpt_neox", transformers.GPTNeoXForCausalLM, gpt_neox
    yield "qwen3_moe", transformers.Qwen3MoeForCausalLM, qwen3_moe
    yield "t5", transformers.T5ForConditionalGeneration, t5


@pytest.fixture(scope="module", params=list(models()), ids=lambda model: model[0])
def checkpoint(request, tmp_path_factory):
    _, model_class, config = request.param
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("jobs") / "model"
    model = model_class(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
            else:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return folder


def digest(path):
    """Of a file, or of every file of a folder by its name."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    return [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]


def run(*arguments):
    """With a BLAS of its own threads, so that a product which is cut otherwise would be seen."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    result = subprocess.run(
        [os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode in (0, 1), result.stderr
    return result.stdout


def same_for_all(make):
    """What make(jobs) returns for each number of jobs."""
    first, *others = [make(jobs) for jobs in JOBS]
    assert first
    assert all(other == first for other in others)


@pytest.mark.parametrize("verb", ["act", "fold", "canon", "convert"])
def test_files_are_the_same(checkpoint, tmp_path, verb):
    more = {"act": ["--random", 1], "convert": ["--to", "safetensors", "--family", "regauge"]}.get(verb, [])

    def make(jobs):
        out = tmp_path / str(jobs)
        run(verb, checkpoint, *more, "-o", out, "--jobs", jobs)
        return digest(out)

    same_for_all(make)


def test_answers_and_certificates_are_the_same(checkpoint, tmp_path):
    moved = tmp_path / "moved"
    run("act", checkpoint, "-o", moved, "--random", 1)

    def make(jobs):
        proof = tmp_path / f"proof-{jobs}.safetensors"
        said = run("diff", checkpoint, moved, "--json", "--all", "--certificate", proof, "--jobs", jobs)
        assert json.loads(said)["statement"] == "other-coordinates"
        verified = run("verify", checkpoint, moved, proof, "--json", "--jobs", jobs)
        assert json.loads(verified)["holds"]
        return said, digest(proof)[0][1], verified

    same_for_all(make)


def test_refusals_are_the_same(checkpoint, tmp_path):
    """One tensor of one layer is spoilt: the same reasons, in the same order."""
    spoilt = tmp_path / "spoilt"
    shutil.copytree(checkpoint, spoilt)
    tensors = safetensors.torch.load_file(spoilt / "model.safetensors")
    matrices = [name for name, tensor in tensors.items() if tensor.ndim == 2 and "0" in name]
    tensors[matrices[0]][0] *= 1.5
    safetensors.torch.save_file(tensors, spoilt / "model.safetensors", metadata={"format": "pt"})

    def make(jobs):
        said = run("diff", checkpoint, spoilt, "--json", "--all", "--jobs", jobs)
        assert json.loads(said)["verdict"] == "perturbed"
        return said

    same_for_all(make)


def test_alignments_are_the_same(checkpoint, tmp_path):
    moved = tmp_path / "moved"
    run("act", checkpoint, "-o", moved, "--random", 1)

    def make(jobs):
        out = tmp_path / f"aligned-{jobs}"
        run("align", checkpoint, moved, "--method", "weights", "--starts", 1, "-o", out, "--jobs", jobs)
        return digest(out)

    same_for_all(make)


def test_memory_lowers_the_jobs(checkpoint, tmp_path, regauge):
    plan = ["act", checkpoint, "--random", 1, "--dry-run", "--json"]
    one, two = (json.loads(regauge(*plan, "--jobs", jobs))["peak_memory"] for jobs in (1, 2))
    assert one < two < 2 * one
    bound = ["--max-memory", f"{two}B"]
    assert json.loads(regauge(*plan, "--jobs", 5, *bound))["peak_memory"] == two
    said = regauge.messages(*plan[:4], "-o", tmp_path / "out", "--jobs", 5, *bound)
    assert "2 of 5 jobs" in said
    assert "2 of 2" not in regauge.messages(*plan[:4], "-o", tmp_path / "out2", "--jobs", 2, *bound)
    regauge(*plan, "--jobs", 5, "--max-memory", f"{one}B")
    regauge(*plan, "--jobs", 5, "--max-memory", f"{one - 1}B", expect=2)
