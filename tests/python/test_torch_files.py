"""Files of torch.save are read without executing pickle, as torch.load reads them; what is not plain weights is
refused and runs nothing."""

import collections
import json
import os
import pickle
import shutil
import subprocess
import zipfile

import pytest
import safetensors.torch
import torch
import transformers
from test_hostile_files import run
from test_transformers_judge import load, outputs

@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder that transformers wrote, with a tied head."""
    torch.manual_seed(0)
    config = transformers.Qwen2Config(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=24,
        vocab_size=37, max_position_embeddings=32, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("model")
    transformers.Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def failure(*arguments):
    """What is said of a bad input."""
    done = subprocess.run(
        [os.environ["REGAUGE"], *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stderr


def folder_of(path, model, saved, name="pytorch_model.bin"):
    path.mkdir()
    shutil.copy(model / "config.json", path)
    torch.save(saved, path / name)
    return path


def state_dict(model):
    return transformers.Qwen2ForCausalLM.from_pretrained(model, dtype=torch.bfloat16).state_dict()


def tensors(folder):
    return {
        name: tensor
        for file in sorted(folder.glob("*.safetensors"))
        for name, tensor in safetensors.torch.load_file(file).items()
    }


def assert_read(regauge, path, expected, tmp_path):
    """What `convert` writes of it has exactly these tensors, bit by bit."""
    out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
    regauge("convert", path, "-o", out, "--to", "safetensors")
    found = tensors(out)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and torch.equal(
            found[name].view(torch.uint8), tensor.detach().contiguous().view(torch.uint8)
        ), name
    return out


def test_a_state_dict_of_transformers_is_identical(regauge, model, tmp_path):
    weights = state_dict(model)
    assert weights["lm_head.weight"].data_ptr() == weights["model.embed_tokens.weight"].data_ptr()
    saved = folder_of(tmp_path / "saved", model, weights)
    assert "identical" in regauge("diff", saved, model)
    out = assert_read(regauge, saved, torch.load(saved / "pytorch_model.bin", weights_only=True), tmp_path)
    assert [file.name for file in out.glob("*.safetensors*")] == ["model.safetensors"]
    assert torch.equal(outputs(load(out)), outputs(load(model)))


def test_one_changed_number_is_seen(regauge, model, tmp_path):
    weights = {name: tensor.clone() for name, tensor in state_dict(model).items()}
    weights["model.layers.1.mlp.up_proj.weight"][3, 5] += 0.5
    regauge("diff", folder_of(tmp_path / "saved", model, weights), model, expect=1)


@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict", "module"])
def test_the_state_dict_of_a_trainer_is_found(regauge, model, tmp_path, key):
    step = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 1e-3}]}
    saved = {
        key: state_dict(model), "optimizer": step, "epoch": 3, "best": 1e-3, "args": None, "rng": b"\x00\xff",
        "seeds": (1, -(1 << 40), 1 << 70), "milestones": collections.Counter([3, 4]), "kinds": {1, 2},
        "history": collections.defaultdict(list, loss=[0.5]), "device": torch.device("cpu"), "size": torch.Size([2]),
    }  # fmt: skip
    path = folder_of(tmp_path / "saved", model, saved, "checkpoint.pt") / "checkpoint.pt"
    assert "identical" in regauge("diff", path, model)


def test_views_are_read_as_torch_reads_them(regauge, model, tmp_path):
    weights = state_dict(model)
    up = "model.layers.0.mlp.up_proj.weight"
    weights[up] = weights[up].t().contiguous().t()
    weights["model.layers.0.mlp.down_proj.weight"] = torch.stack(
        [weights["model.layers.0.mlp.down_proj.weight"]] * 3, dim=2
    )[:, :, 1]
    weights["model.layers.1.self_attn.q_proj.bias"] = weights["model.layers.1.self_attn.q_proj.bias"][:1].expand(16)
    weights["model.norm.weight"] = torch.nn.Parameter(torch.ones(20, dtype=torch.bfloat16)[4:])
    assert not any(weights[name].is_contiguous() for name in (up, "model.layers.0.mlp.down_proj.weight"))
    saved = folder_of(tmp_path / "saved", model, weights)
    assert_read(regauge, saved, torch.load(saved / "pytorch_model.bin", weights_only=True), tmp_path)
    # They move as others do.
    regauge("act", saved, "-o", tmp_path / "moved", "--random", 1)
    regauge("diff", saved, tmp_path / "moved")


def test_shards_and_their_index(regauge, model, tmp_path):
    weights = state_dict(model)
    saved = tmp_path / "saved"
    saved.mkdir()
    shutil.copy(model / "config.json", saved)
    names, files = list(weights), ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    file_of = {name: files["layers.1" in name] for name in names}
    for file in files:
        torch.save({name: weights[name] for name in names if file_of[name] == file}, saved / file)
    (saved / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": file_of}))
    assert "identical" in regauge("diff", saved, model)
    out = assert_read(regauge, saved, weights, tmp_path)
    assert sorted(file.name for file in out.glob("*.safetensors")) == [
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    ]  # fmt: skip
    assert torch.equal(outputs(load(out)), outputs(load(model)))
    assert "identical" in regauge("diff", saved / "pytorch_model.bin.index.json", model)


class Runs:
    """Runs a command when a pickle of it is loaded."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_code_in_a_pickle_is_refused_and_never_run(model, tmp_path):
    witness = tmp_path / "run"
    hostile = Runs(f"touch {witness}")
    saved = folder_of(tmp_path / "saved", model, {**state_dict(model), "a": hostile})
    assert "it names posix.system" in failure("inspect", saved)
    assert not witness.exists()
    # The witness tells: torch.load of the whole pickle does run it.
    torch.load(saved / "pytorch_model.bin", weights_only=False)
    assert witness.exists()
    witness.unlink()
    for name, opcodes in {
        "the global posix.system": f"cposix\nsystem\n(X\x10\0\0\0{'touch ' + 'x' * 10}tR".encode(),
        "INST": b"(S'touch x'\nios\nsystem\n",
        "eval": b"cbuiltins\neval\n(X\x01\0\0\x001tR",
    }.items():
        path = tmp_path / "saved" / "pytorch_model.bin"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", b"\x80\x02" + opcodes + b".")
        assert run("inspect", saved) == 2, name


@pytest.mark.parametrize("bomb", ["memo", "depth", "marks", "count", "expanded", "long"])
def test_bombs_are_refused_within_bounds(model, tmp_path, bomb):
    saved = folder_of(tmp_path / "saved", model, {})
    opcodes = {
        # Each list holds the one before ten times.
        "memo": b"(]\x94" + b"".join(b"](" + (b"h" + bytes([i])) * 10 + b"e\x94" for i in range(60)) + b"t",
        "depth": b"]" * 10**6 + b"a" * (10**6 - 1),
        "marks": b"(" * 10**6,
        "count": b"X\xff\xff\xff\xff",
        "long": b"\x8b\xff\xff\xff\x7f",
        "expanded": b"}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
        b"X\x01\0\0\x000X\x03\0\0\0cpuK\x01tQK\0J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86K\0K\0\x86\x89}tRs",
    }[bomb]  # fmt: skip
    with zipfile.ZipFile(saved / "pytorch_model.bin", "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x04" + opcodes + b".")
        archive.writestr("x/data/0", b"0000")
    assert run("inspect", saved) == 2


def test_what_is_no_state_dict_is_said(model, tmp_path):
    def message(saved, **settings):
        path = tmp_path / "model.pt"
        torch.save(saved, path, **settings)
        shutil.copy(model / "config.json", tmp_path)
        return failure("inspect", path)

    weights = state_dict(model)
    assert "before 1.6" in message(weights, _use_new_zipfile_serialization=False)
    assert "holds one tensor" in message(torch.ones(2))
    assert "keys are [epoch, weights]" in message({"epoch": 1, "weights": [1]})
    assert "state dicts under model and module" in message({"model": weights, "module": weights})
    assert "it names torch.nn.modules.linear.Linear" in message(torch.nn.Linear(2, 2))
    assert "'epoch' of the state dict is no tensor but an integer" in message({**weights, "epoch": 1})
    assert "C64 tensors are not read" in message({"a": torch.ones(2, dtype=torch.complex64)})
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "model.pt")
    assert "TorchScript" in failure("inspect", tmp_path / "model.pt")
    with zipfile.ZipFile(tmp_path / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", pickle.dumps({}, 2) + b" " * 1000)
    assert "compressed" in failure("inspect", tmp_path / "model.pt")
    (tmp_path / "model.pt").write_bytes(pickle.dumps({"a": 1}))
    assert "a bare pickle" in failure("inspect", tmp_path / "model.pt")


def test_damaged_files_are_refused_or_read(model, tmp_path):
    saved = folder_of(tmp_path / "saved", model, {"a": torch.ones(3), "b": torch.ones(2, 2).t()})
    whole = (saved / "pytorch_model.bin").read_bytes()
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            at, value = (int(torch.randint(0, n, (), generator=generator)) for n in (len(whole), 256))
            damaged[at] = value
        (saved / "pytorch_model.bin").write_bytes(damaged)
        assert run("inspect", saved) == 2  # no Qwen2 in any case
    (saved / "pytorch_model.bin").write_bytes(whole[:-100])
    assert "cut short" in failure("inspect", saved)
