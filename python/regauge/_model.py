"""Models: a checkpoint on disk or in memory, and the parameters that it holds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy

from . import _core
from ._engines import Lazy, joined, unstacked
from ._group import Array, Symmetry


Path = Union[str, "os.PathLike[str]"]


class Parameters(Mapping[str, Array]):
    """The canonical tensors of a model by name, each read when it is asked for, as float32."""

    def __init__(self, core: _core.Model) -> None:
        self._core = core
        self._names = core.architecture.parameter_names

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._core.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<regauge.Parameters: {len(self)} tensors, {', '.join(self._names[:3])}, ...>"

    def double(self, name: str) -> Array:
        """The same tensor as float64."""
        return self._core.read_double(name)


class Model:
    """A checkpoint that has been understood. Made by `open` and `from_state_dict`."""

    def __init__(self, core: _core.Model) -> None:
        self._core = core

    @property
    def path(self) -> str:
        return self._core.path

    @property
    def family(self) -> str:
        return self._core.family

    @property
    def format(self) -> str:
        return self._core.format

    @property
    def config(self) -> dict[str, Any]:
        """config.json, the key-values of a GGUF file, or the header of a llama2.c file."""
        config: dict[str, Any] = json.loads(self._core.config)
        return config

    @property
    def architecture(self) -> dict[str, Any]:
        """What the model computes, by the fields of regauge/arch/architecture.h."""
        fields: dict[str, Any] = json.loads(self._core.architecture.to_json())
        return fields

    @property
    def unread(self) -> list[str]:
        """Tensors that may change the function and that the architecture does not know, such as another head."""
        return self._core.unread

    @property
    def not_understood(self) -> dict[str, Any]:
        """Settings of the config that may change the function and are not known, with their values."""
        return {key: json.loads(value) for key, value in self._core.not_understood.items()}

    @property
    def symmetry(self) -> Symmetry:
        """The group of parameter changes that leave the function alone."""
        return Symmetry(_core.symmetry_of(self._core.architecture))

    @property
    def untied_symmetry(self) -> Symmetry:
        """The larger group that a tied model has once its head is a tensor of its own."""
        fields = {**self.architecture, "tied": False}
        return Symmetry(_core.symmetry_of(_core.Architecture.from_json(json.dumps(fields))))

    @property
    def parameters(self) -> Parameters:
        return Parameters(self._core)

    def state_dict(self) -> dict[str, Any]:
        """The stored tensors under the family's own names, without a copy and not to be written to.

        Numpy arrays; bfloat16, which numpy does not have, as objects for `torch.from_dlpack` and
        its like. Quantised tensors are bytes.
        """
        return {name: self._core.tensor(name) for name in self._core.tensor_names}

    def __repr__(self) -> str:
        count = self._core.architecture.parameter_count
        return f"<regauge.Model {self.family} in {self.format}, {count} parameters: {self.path}>"


#: What every function takes for a model.
ModelOrPath = Union[Model, Path]


def open(path: Path) -> Model:
    """Opens a folder with config.json and weights (safetensors, or what torch saves), a .gguf file or a llama2.c
    .bin file.

    "base+adapter", a folder and one that PEFT wrote, is the model that the two make.

    Reads headers only; tensors are read when they are asked for.
    """
    return Model(_core.open(path))


def register(layout: Path | Mapping[str, Any]) -> None:
    """Makes a family of models known: a data file as docs/adding-an-architecture.md describes it, or what it holds.

    It goes before the families that come with the package, so that it may also replace one.
    """
    if isinstance(layout, Mapping):
        _core.register_text(json.dumps(layout))
    else:
        _core.register(layout)


def opened(model: ModelOrPath) -> Model:
    return model if isinstance(model, Model) else open(model)


def from_state_dict(state_dict: Any, config: Any, *, layout: str | Mapping[str, Any] | None = None) -> Model:
    """A model in memory: tensors by name (numpy arrays, torch tensors, anything with DLPack).

    `config` is what config.json would say: a mapping, or a transformers config. Tensors that lie in
    main memory row by row are not copied, and must not change while the model is in use. Others, such
    as those of an accelerator, are copied one at a time, when their numbers are needed.

    With a `layout`, "vllm", "megatron", "torchtitan", "olmo_core" or "litgpt", these are what such an
    engine holds: a mapping, or a list of them, one for each rank of tensor or expert parallelism, or a
    list of such lists, one for each stage of a pipeline. What is cut over ranks, and what is in another
    order, is put together one tensor at a time.
    """
    fields = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    if layout is not None:
        state_dict = joined(state_dict, fields, layout)
    lazy = {name: Lazy.of(tensor) for name, tensor in state_dict.items() if not _is_in_rows(tensor)}
    tensors = {name: _in_rows(tensor) for name, tensor in state_dict.items() if name not in lazy}
    made = {name: (tensor.dtype, tensor.shape, lambda tensor=tensor: _in_rows(tensor.make())) for name, tensor in lazy.items()}
    return Model(_core.from_tensors(tensors, made, json.dumps(fields, default=str)))


def from_checkpoint(folder: Path, config: Any, *, layout: str | Mapping[str, Any] = "megatron") -> Model:
    """A checkpoint under an engine's names, such as the folder of `torch_dist` files that Megatron-Core writes.

    `config` is what config.json would say of the model. No process has to run: the pieces of all of them
    are in the folder. Only headers are read; of stacked layers and experts, only the one that is asked for.
    """
    return from_state_dict(unstacked(_core.Checkpoint(os.fspath(folder)), layout), config, layout=layout)


def _is_in_rows(tensor: Any) -> bool:
    """In main memory, row by row."""
    if isinstance(tensor, Lazy):
        return False
    if hasattr(tensor, "detach"):  # torch's
        return bool(tensor.device.type == "cpu" and tensor.is_contiguous())
    return not isinstance(tensor, numpy.ndarray) or tensor.flags.c_contiguous


def _in_rows(tensor: Any) -> Any:
    if hasattr(tensor, "detach"):
        return tensor.detach().cpu().contiguous()
    return numpy.ascontiguousarray(tensor) if isinstance(tensor, numpy.ndarray) else tensor
