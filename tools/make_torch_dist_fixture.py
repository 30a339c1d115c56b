#!/usr/bin/env python3
"""Writes tests/fixtures/io/torch_dist with megatron-core (0.16.1), as two processes save a model.

    pip install --no-deps megatron-core==0.16.1
    python tools/make_torch_dist_fixture.py
"""

import pathlib
import subprocess
import sys
import tempfile

import torch

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "io"


def save(rank: int, store: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    # Megatron asks for its GPU before it copies tensors, which are on the processor already.
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor

    numbers = torch.arange(60.0).reshape(10, 6).to(torch.bfloat16)
    cut = ShardedTensor.from_rank_offsets
    rows, columns = (numbers.chunk(2, axis)[rank].contiguous() for axis in (0, 1))
    state_dict = {
        "rows": cut("decoder.w", rows, (0, rank, 2), replica_id=0),
        "columns": cut("decoder.c", columns, (1, rank, 2), replica_id=0),
        "layers": cut("decoder.layers.w", numbers + rank, (0, rank, 2), prepend_axis_num=1, replica_id=0),
        "copies": cut("norm", torch.ones(5), replica_id=rank),
        "extra": ShardedObject("decoder._extra_state", {"a": 1}, (2,), (rank,), replica_id=0),
        "iteration": 7,
        "args": {"lr": 0.1},
    }
    dist_checkpointing.save(state_dict, "torch_dist")
    torch.distributed.destroy_process_group()


def main() -> None:
    if len(sys.argv) > 1:
        save(int(sys.argv[1]), sys.argv[2])
        return
    (FOLDER / "torch_dist").mkdir()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(pathlib.Path(__file__).resolve())]
        ranks = [subprocess.Popen([*command, str(rank), f"{folder}/store"], cwd=FOLDER) for rank in (0, 1)]
        if any([rank.wait() for rank in ranks]):
            sys.exit("megatron-core failed")
    (FOLDER / "torch_dist" / "common.pt").unlink()  # values that are no tensors
    (FOLDER / "torch_dist" / "metadata.json").unlink()
    (FOLDER / "torch_dist" / "config.json").write_text("{}\n")


if __name__ == "__main__":
    main()
