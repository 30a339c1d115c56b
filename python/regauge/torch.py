"""A torch module as the objective of `align` and `barrier`. Import it only where torch is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy
import torch

from ._core import UsageError
from ._group import Array
from ._model import Model, Path, from_state_dict, register


def from_module(
    module: torch.nn.Module, config: Any = None, layout: Path | Mapping[str, Any] | None = None
) -> Model:
    """The model that a module holds, without a copy; `config` is a transformers module's own.

    `layout` says what a module of your own computes and where it keeps what, as `regauge.register` takes it
    (docs/guides/your-own-module.md); `config` then holds the numbers that it asks for.
    """
    if layout is not None:
        register(layout)
    if config is None:
        config = getattr(module, "config", None)
    if config is None:
        raise UsageError(
            "[from_module] the module has no .config: give config=, what its config.json would say; for a module "
            "of your own also layout= (docs/guides/your-own-module.md)"
        )
    return from_state_dict(module.state_dict(), config)


class Objective:
    """The loss of a module at any parameters, batch by batch.

    `loss(module, batch)` is a scalar tensor, the mean over the batch; `batches` is gone through
    again and again. The module is put into evaluation mode and serves as the place where parameters
    are tried: its own are overwritten.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        batches: Iterable[Any],
        loss: Callable[[torch.nn.Module, Any], torch.Tensor],
        config: Any = None,
    ) -> None:
        self._module = module.eval()
        for part in module.modules():
            if isinstance(part, torch.nn.Embedding):
                part.padding_idx = None  # torch leaves that row out of the gradient
        self._loss = loss
        self._batches = batches
        self._iterator: Iterator[Any] = iter(batches)
        self._batch = next(self._iterator)
        self._places = _places(from_module(module, config), dict(module.named_parameters()))

    def __call__(self, parameters: Mapping[str, Array]) -> tuple[float, dict[str, Array]]:
        self._put(parameters)
        self._module.zero_grad(set_to_none=True)
        loss = self._loss(self._module, self._batch)
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        return loss.item(), {name: _slope(*place) for name, place in self._places.items()}

    def loss(self, parameters: Mapping[str, Array]) -> float:
        """The loss alone, which takes no backward pass."""
        self._put(parameters)
        with torch.no_grad():
            return self._loss(self._module, self._batch).item()

    def _put(self, parameters: Mapping[str, Array]) -> None:
        with torch.no_grad():
            for name, (stored, index, offset) in self._places.items():
                value = torch.from_numpy(parameters[name]).to(stored) - offset
                stored.view(-1)[index] = value

    def advance(self) -> None:
        """Goes on to the next batch."""
        try:
            self._batch = next(self._iterator)
        except StopIteration:
            self._iterator = iter(self._batches)
            self._batch = next(self._iterator)


Place = tuple[torch.nn.Parameter, torch.Tensor, float]


def _places(model: Model, stored: Mapping[str, torch.nn.Parameter]) -> dict[str, Place]:
    """For each canonical parameter the module's tensor, the place of each entry, and the offset."""
    places: dict[str, Place] = {}
    for name, value in model.parameters.items():
        holder, transposed, stride, offset, columns = model._core.place(name)
        rows = numpy.arange(value.shape[0])[:, None]
        across = numpy.asarray(columns)[None, :]
        index = across * stride + rows if transposed else rows * stride + across
        places[name] = (stored[holder], torch.from_numpy(index), offset)
    return places


def _slope(stored: torch.nn.Parameter, index: torch.Tensor, offset: float) -> Array:
    if stored.grad is None:
        return numpy.zeros(tuple(index.shape), numpy.float32)
    slope: Array = stored.grad.reshape(-1)[index].float().cpu().numpy()
    return slope
