"""Folders of torch.distributed.checkpoint are read as it reads them itself: written by several processes, cut along
any axis, unevenly, twice over; and nothing in them is run."""

import os
import pickle
import shutil
import subprocess
import sys

import pytest
import safetensors.torch
import torch
from test_torch_files import assert_read, failure, model, state_dict  # noqa: F401
from test_transformers_judge import load, outputs

# Each process holds its own pieces of what transformers wrote, and all save together, in three ways.
WRITER = """
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

weights, out, rank = load_file(sys.argv[1]), sys.argv[2], int(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=4)
flat = init_device_mesh("cpu", (4,))
grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards"))

# FSDP: a module for each dot of a name, sharded by layer.
model = torch.nn.Module()
for name, tensor in weights.items():
    *path, last = name.split(".")
    at = model
    for part in path:
        if part not in at._modules:
            at.add_module(part, torch.nn.Module())
        at = at._modules[part]
    at.register_parameter(last, torch.nn.Parameter(tensor.clone()))
for layer in model.model.layers._modules.values():
    fully_shard(layer, mesh=flat)
fully_shard(model, mesh=flat)
dcp.save(model.state_dict(), checkpoint_id=f"{out}/fsdp")

# HSDP beside an optimizer.
copies = {name: distribute_tensor(tensor, grid, [Replicate(), Shard(0)]) for name, tensor in weights.items()}
state = {name: {"exp_avg": tensor.clone()} for name, tensor in copies.items()}
dcp.save({"model": copies, "optimizer": {"state": state, "lr": 1e-3}, "step": 3}, checkpoint_id=f"{out}/hsdp")

# Rows, columns, both ways at once, and whole.
def cut(i, tensor):
    if tensor.dim() == 1 or i % 4 == 0:
        return distribute_tensor(tensor, flat, [Shard(0)])
    if i % 4 == 1:
        return distribute_tensor(tensor, flat, [Shard(1)])
    return distribute_tensor(tensor, grid, [Shard(1), Shard(0)]) if i % 4 == 2 else tensor

pieces = {name: cut(i, tensor) for i, (name, tensor) in enumerate(weights.items())}
dcp.save({"app": {"model": pieces, "optim": {"lr": 0.1}}}, checkpoint_id=f"{out}/cut")
dist.destroy_process_group()
"""


def by_torch(folder, example):
    """The tensors as DCP loads them into a state dict of one process."""
    import torch.distributed.checkpoint as dcp

    target = {key: torch.zeros_like(tensor) for key, tensor in example.items()}
    dcp.load(target, checkpoint_id=folder, no_dist=True)
    return target


@pytest.fixture(scope="module")
def checkpoints(model, tmp_path_factory):  # noqa: F811
    out = tmp_path_factory.mktemp("distributed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, model / "model.safetensors", out, str(rank)], env=environment
        )
        for rank in range(4)
    ]
    assert [rank.wait(timeout=600) for rank in ranks] == [0] * 4
    shutil.copy(model / "config.json", out)
    return out


@pytest.mark.parametrize(("how", "prefix"), [("fsdp", ""), ("hsdp", "model."), ("cut", "app.model.")])
def test_what_processes_wrote_is_read_as_dcp_reads_it(regauge, model, checkpoints, tmp_path, how, prefix):  # noqa: F811
    folder = checkpoints / how
    assert len(list(folder.glob("*.distcp"))) > 1
    weights = safetensors.torch.load_file(model / "model.safetensors")
    loaded = by_torch(folder, {prefix + name: tensor for name, tensor in weights.items()})
    expected = {name: loaded[prefix + name] for name in weights}
    assert all(torch.equal(expected[name], weights[name]) for name in weights)
    assert "identical" in regauge("diff", folder, model)
    out = assert_read(regauge, folder, expected, tmp_path)
    assert [file.name for file in out.glob("*.safetensors*")] == ["model.safetensors"]
    assert torch.equal(outputs(load(out)), outputs(load(model)))
    regauge("act", folder, "-o", tmp_path / "moved", "--random", 1)
    regauge("diff", folder, tmp_path / "moved")
    regauge("diff", tmp_path / "moved", model)


def test_one_number_of_one_piece_is_seen(regauge, model, checkpoints, tmp_path):  # noqa: F811
    folder = tmp_path / "changed"
    shutil.copytree(checkpoints / "cut", folder)
    shutil.copy(model / "config.json", folder)
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
    shutil.copytree(checkpoints / "fsdp", alone)
    assert "put the model's config.json into the folder or beside it" in failure("inspect", alone)
    shutil.copy(model / "config.json", tmp_path / "deep")
    for part in (".metadata", "__0_0.distcp"):
        assert "name its folder" in failure("inspect", alone / part)
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
    shutil.copytree(checkpoints / "fsdp", folder)
    shutil.copy(model / "config.json", folder)
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    metadata.planner_data = Runs(f"touch {tmp_path / 'run'}")
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    assert "it names posix.system" in failure("inspect", folder)
    assert not (tmp_path / "run").exists()


def test_pieces_that_do_not_fit_are_refused(model, checkpoints, tmp_path):  # noqa: F811
    def message(change):
        folder = tmp_path / f"folder{len(list(tmp_path.iterdir()))}"
        shutil.copytree(checkpoints / "fsdp", folder)
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


def moved_pieces(model, checkpoints, folder, name, places):  # noqa: F811
    """The pieces of a tensor recorded at other places, as who saves shards with wrong offsets does."""
    shutil.copytree(checkpoints / "fsdp", folder)
    shutil.copy(model / "config.json", folder)
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    chunks = metadata.state_dict_metadata[name].chunks
    moved = {}
    for chunk in chunks:
        key = next(k for k in metadata.storage_data if k.fqn == name and k.offset == chunk.offsets)
        row = places(chunk.offsets[0], chunk.sizes[0])
        chunk.offsets = torch.Size([row, *chunk.offsets[1:]])
        moved[type(key)(name, chunk.offsets, key.index)] = metadata.storage_data.pop(key)
    metadata.storage_data |= moved
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    return folder


def test_shards_saved_with_wrong_offsets_are_seen(regauge, model, checkpoints, tmp_path):  # noqa: F811
    name = "model.layers.0.mlp.up_proj.weight"
    rows = state_dict(model)[name].shape[0]
    # The last process takes its own length for that of the others: its rows lie upon theirs.
    overlapping = moved_pieces(model, checkpoints, tmp_path / "over", name, lambda at, n: at - 1 if at + n == rows else at)
    assert "overlap" in failure("inspect", overlapping)
    # The processes in another order: all shapes fit, and torch loads it without a word.
    turned = moved_pieces(model, checkpoints, tmp_path / "turned", name, lambda at, n: rows - at - n)
    assert "rows-elsewhere" in regauge("diff", model, turned, expect=1)
    regauge("diff", model, turned, "--repair", "-o", tmp_path / "fixed", expect=1)
    regauge("diff", model, tmp_path / "fixed")
