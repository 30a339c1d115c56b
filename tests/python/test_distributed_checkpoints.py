"""Folders of torch.distributed.checkpoint are read as it reads them itself: written by several processes, cut along
any axis, unevenly, twice over; and nothing in them is run."""

import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys

import pytest
import torch
import transformers
from test_torch_files import assert_read, failure, model, state_dict  # noqa: F401
from test_transformers_judge import outputs

# Each process holds its own pieces of what transformers wrote, and all save together.
WRITER = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, transformers
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh

how, folder, out, rank, world = sys.argv[1:4] + [int(a) for a in sys.argv[4:6]]
dist.init_process_group("gloo", init_method=f"file://{out}.store", rank=rank, world_size=world)
model = transformers.Qwen2ForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
if how == "fsdp":
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    weights = model.state_dict()
    dcp.save(weights, checkpoint_id=out)
elif how == "hsdp":
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("copies", "shards"))
    weights = {n: distribute_tensor(t, mesh, [Replicate(), Shard(0)]) for n, t in model.state_dict().items()}
    optimizer = {"state": {n: {"exp_avg": t.clone()} for n, t in weights.items()}, "lr": 1e-3}
    dcp.save({"model": weights, "optimizer": optimizer, "step": 3}, checkpoint_id=out)
else:
    # Rows, columns, both ways at once, and whole.
    flat, grid = init_device_mesh("cpu", (world,)), init_device_mesh("cpu", (2, world // 2))
    def spread(i, tensor):
        if tensor.dim() == 1 or i % 4 == 0:
            return distribute_tensor(tensor, flat, [Shard(0)])
        if i % 4 == 1:
            return distribute_tensor(tensor, flat, [Shard(1)])
        return distribute_tensor(tensor, grid, [Shard(1), Shard(0)]) if i % 4 == 2 else tensor
    weights = {n: spread(i, t) for i, (n, t) in enumerate(model.state_dict().items())}
    dcp.save({"app": {"model": weights, "optim": {"lr": 0.1}}}, checkpoint_id=out)
dist.destroy_process_group()
"""


def written(tmp_path, folder, how, world):
    out = tmp_path / how
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, how, folder, out, str(rank), str(world)], env=environment)
        for rank in range(world)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * world
    return out


def by_torch(folder, example):
    """The tensors as DCP loads them into a state dict of one process."""
    import torch.distributed.checkpoint as dcp

    target = {key: torch.zeros_like(tensor) for key, tensor in example.items()}
    dcp.load(target, checkpoint_id=folder, no_dist=True)
    return target


@pytest.fixture(scope="module")
def checkpoints(model, tmp_path_factory):  # noqa: F811
    tmp_path = tmp_path_factory.mktemp("distributed")
    shutil.copy(model / "config.json", tmp_path)
    return {how: written(tmp_path, model, how, world) for how, world in (("fsdp", 3), ("hsdp", 4), ("cut", 4))}


@pytest.mark.parametrize(("how", "prefix", "files"), [("fsdp", "", 3), ("hsdp", "model.", 2), ("cut", "app.model.", 4)])
def test_what_processes_wrote_is_read_as_dcp_reads_it(regauge, model, checkpoints, tmp_path, how, prefix, files):  # noqa: F811
    folder = checkpoints[how]
    assert len(list(folder.glob("*.distcp"))) >= files
    weights = state_dict(model)
    loaded = by_torch(folder, {prefix + name: tensor for name, tensor in weights.items()})
    expected = {name: loaded[prefix + name] for name in weights}
    assert all(torch.equal(expected[name], weights[name]) for name in weights)
    assert "identical" in regauge("diff", folder, model)
    out = assert_read(regauge, folder, expected, tmp_path)
    assert [file.name for file in out.glob("*.safetensors*")] == ["model.safetensors"]
    assert torch.equal(outputs(out), outputs(model))
    regauge("act", folder, "-o", tmp_path / "moved", "--random", 1)
    regauge("diff", folder, tmp_path / "moved")
    regauge("diff", tmp_path / "moved", model)


def test_one_number_of_one_piece_is_seen(regauge, model, checkpoints, tmp_path):  # noqa: F811
    folder = tmp_path / "changed"
    shutil.copytree(checkpoints["cut"], folder)
    shutil.copy(model / "config.json", folder)
    assert "identical" in regauge("diff", folder, model)
    # A number of a matrix, in whatever piece holds it.
    number = state_dict(model)["model.layers.1.mlp.up_proj.weight"][3, :3].contiguous()
    raw = number.view(torch.uint8).numpy().tobytes()
    holders = [file for file in folder.glob("*.distcp") if raw in file.read_bytes()]
    assert len(holders) == 1
    data = holders[0].read_bytes()
    changed = (number + 0.5).view(torch.uint8).numpy().tobytes()
    holders[0].write_bytes(data.replace(raw, changed))
    regauge("diff", folder, model, expect=1)


def test_what_is_missing_is_said(model, checkpoints, tmp_path):  # noqa: F811
    alone = tmp_path / "deep" / "alone"
    shutil.copytree(checkpoints["fsdp"], alone)
    assert "put the model's config.json into the folder or beside it" in failure("inspect", alone)
    shutil.copy(model / "config.json", tmp_path / "deep")
    (alone / "__1_0.distcp").rename(tmp_path / "kept")
    assert "__1_0.distcp is not there" in failure("inspect", alone)
    (alone / "__1_0.distcp").write_bytes((tmp_path / "kept").read_bytes()[:-1000])
    assert "cut short" in failure("inspect", alone)


class Runs:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_code_in_the_metadata_is_never_run(model, checkpoints, tmp_path):  # noqa: F811
    folder = tmp_path / "hostile"
    shutil.copytree(checkpoints["fsdp"], folder)
    shutil.copy(model / "config.json", folder)
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    metadata.planner_data = Runs(f"touch {tmp_path / 'run'}")
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    assert "it names posix.system" in failure("inspect", folder)
    assert not (tmp_path / "run").exists()


def test_pieces_that_do_not_fit_are_refused(model, checkpoints, tmp_path):  # noqa: F811
    def message(change):
        folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
        shutil.copytree(checkpoints["fsdp"], folder)
        shutil.copy(model / "config.json", folder)
        metadata = pickle.loads((folder / ".metadata").read_bytes())
        change(metadata)
        (folder / ".metadata").write_bytes(pickle.dumps(metadata))
        return failure("inspect", folder)

    name = "model.norm.weight"

    def key_of(metadata, offset):
        return next(k for k in metadata.storage_data if k.fqn == name and k.offset == torch.Size([offset]))

    def without_a_chunk(metadata):
        metadata.state_dict_metadata[name].chunks.pop()

    def elsewhere(metadata):
        metadata.storage_data[key_of(metadata, 0)].relative_path = "../config.json"

    def nowhere(metadata):
        del metadata.storage_data[key_of(metadata, 0)]

    def larger(metadata):
        metadata.state_dict_metadata[name].size = torch.Size([17])

    def beyond(metadata):
        metadata.storage_data[key_of(metadata, 0)].offset = 1 << 62

    assert "its pieces hold" in message(without_a_chunk)
    assert "which is no file of the folder" in message(elsewhere)
    assert "is in no file" in message(nowhere)
    assert "its pieces hold" in message(larger)
    assert "was the download cut short" in message(beyond)
