"""What an inference or training engine holds, under the names and in the shapes of Hugging Face.

Where each tensor is, how it is fused, ordered and cut over ranks is data: layouts/*.json.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

from ._core import UsageError

Tensors = Mapping[str, Any]

_FOLDER = pathlib.Path(__file__).parent / "layouts"
_WILDCARDS = {"layer": r"\+?\d+", "expert": r"\d+", "kind": r"weight|bias"}


class Lazy:
    """A tensor that is made when its numbers are needed."""

    def __init__(self, shape: Sequence[int], dtype: Any, make: Callable[[], Any]) -> None:
        self.shape, self.dtype, self.make = tuple(shape), str(dtype).removeprefix("torch."), make

    @classmethod
    def of(cls, tensor: Any) -> Lazy:
        return tensor if isinstance(tensor, Lazy) else cls(tensor.shape, tensor.dtype, lambda: tensor)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: int | slice) -> Lazy:
        rows = [len(range(self.shape[0])[which])] if isinstance(which, slice) else []
        return Lazy((*rows, *self.shape[1:]), self.dtype, lambda: self.make()[which])


class Stored(Lazy):
    """A run of numbers of a tensor in a checkpoint: only they are read."""

    def __init__(self, checkpoint: Any, name: str, shape: Sequence[int], first: int = 0) -> None:
        def make() -> Any:
            return checkpoint.numbers(name, first, math.prod(shape)).reshape(tuple(shape))

        super().__init__(shape, checkpoint.dtype(name), make)
        self.checkpoint, self.name, self.first_number = checkpoint, name, first

    def __getitem__(self, which: int | slice) -> Stored:
        rows, rest = range(self.shape[0])[which], self.shape[1:]
        first, shape = (rows.start, (len(rows), *rest)) if isinstance(rows, range) else (rows, rest)
        return Stored(self.checkpoint, self.name, shape, self.first_number + first * math.prod(rest))


def unstacked(checkpoint: Any, layout: str | Mapping[str, Any]) -> dict[str, Lazy]:
    """The tensors of a checkpoint in which layers, and experts, are stacked, under the names that a process has for them."""
    rules = _layout(layout)
    tensors = {name: Stored(checkpoint, name, checkpoint.shape(name)) for name in checkpoint.tensor_names}
    for begin, axis in rules.get("stacked", []):
        together = re.compile(re.escape(begin) + r"(?!\d)")
        apart: dict[str, Stored] = {}
        for name, tensor in tensors.items():
            if not together.search(name):
                apart[name] = tensor
                continue
            for i in range(len(tensor)):
                apart[together.sub(lambda _: re.sub(r"\{\w+\}", str(i), axis), name)] = tensor[i]
        tensors = apart
    return dict(tensors)


def joined(state: Tensors | Sequence[Tensors] | Sequence[Sequence[Tensors]], config: Mapping[str, Any], layout: str | Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of all ranks: of one; of tensor (or expert) parallel ranks in their order; or of pipeline stages of those."""
    rules = _layout(layout)
    stages = _stages(state)
    result: dict[str, Any] = {}
    first_layer = 0
    for ranks in stages:
        stage = _Stage(rules, config, ranks)
        for name, tensor in stage.tensors(first_layer):
            if name in result and not _equal(result[name], tensor):
                raise UsageError(f"[from_state_dict] two stages hold {name}, and not with the same numbers")
            result[name] = tensor
        first_layer += stage.layers if "stages_count_from_zero" in rules else 0
    for together in rules.get("experts_together", []):
        if config.get(together["when"]) is not None:
            _put_together(result, together)
    if config.get("tie_word_embeddings") and "lm_head.weight" in result:
        head, table = result.pop("lm_head.weight"), result.get("model.embed_tokens.weight")
        if table is not None and not _equal(head, table):
            raise UsageError("[from_state_dict] the config ties head and token table, and lm_head.weight has other numbers")
    return result


def _put_together(tensors: dict[str, Any], rule: Mapping[str, Any]) -> None:
    """The experts of each layer in one tensor, of several parts a row (or column) of each in turn."""
    first = _pattern(rule["of"][0])
    layers: dict[str, int] = {}
    for name in tensors:
        if match := first.fullmatch(name):
            layers[match["layer"]] = layers.get(match["layer"], 0) + 1
    for layer, experts in layers.items():
        parts = [[tensors.pop(_filled(part, {"layer": layer, "expert": str(i)})) for part in rule["of"]] for i in range(experts)]
        tensors[_filled(rule["name"], {"layer": layer})] = _stacked(parts, bool(rule.get("transposed")))


def _stacked(parts: list[list[Any]], transposed: bool) -> Lazy:
    rows, *rest = parts[0][0].shape
    rows *= len(parts[0])

    def make() -> Any:
        experts = [_alternating([_made(part) for part in of_expert]) for of_expert in parts]
        return _library(experts[0]).stack([expert.T if transposed else expert for expert in experts], 0)

    return Lazy((len(parts), *rest, rows) if transposed else (len(parts), rows, *rest), parts[0][0].dtype, make)


def _alternating(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else _library(parts[0]).stack(parts, 1).reshape(-1, *parts[0].shape[1:])


def _layout(layout: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(layout, str):
        return layout
    file = _FOLDER / f"{layout}.json"
    if not file.exists():
        raise UsageError(f"[from_state_dict] there is no layout {layout!r}; known are {', '.join(sorted(known.stem for known in _FOLDER.glob('*.json')))}")
    rules: dict[str, Any] = json.loads(file.read_text())
    return rules


def _stages(state: Any) -> list[list[Tensors]]:
    if isinstance(state, Mapping):
        return [[state]]
    entries = list(state)
    if not entries:
        raise UsageError("[from_state_dict] there are no ranks")
    if all(isinstance(entry, Mapping) for entry in entries):
        return [entries]
    return [list(ranks) for ranks in entries]


class _Stage:
    """The ranks that hold the same layers."""

    def __init__(self, layout: Mapping[str, Any], config: Mapping[str, Any], ranks: list[Tensors]) -> None:
        self.engine, self.config, model = layout["engine"], config, config.get("model_type")
        if "models" in layout and model not in layout["models"]:
            raise UsageError(f"[from_state_dict] {self.engine}'s names are known for {', '.join(layout['models'])}, and not for {model}")
        self.ranks = [{self._called(name, layout): tensor for name, tensor in rank.items()} for rank in ranks]
        self.rules = [(_pattern(rule["name"]), rule) for rule in layout["tensors"] if self._applies(rule)]
        self.left_out = [_pattern(name) for name in layout.get("left_out", [])]
        at_start = _pattern(layout.get("stages_count_from_zero", "") + "{any}")
        numbers = [int(match["layer"]) for name in self.ranks[0] if (match := at_start.fullmatch(name)) and match.groupdict().get("layer", "+")[0] != "+"]
        self.layers = max(numbers, default=-1) + 1

    def _applies(self, rule: Mapping[str, Any]) -> bool:
        model = self.config.get("model_type")
        return model in rule.get("models", [model]) and ("when" not in rule or self.config.get(rule["when"]) is not None)

    @staticmethod
    def _called(name: str, layout: Mapping[str, Any]) -> str:
        for begin, other in layout.get("same_as", []):
            name = re.sub(f"^{_pattern(begin).pattern}", lambda match: _filled(other, match.groupdict()), name)
        return name

    def tensors(self, first_layer: int) -> Iterator[tuple[str, Any]]:
        for name in self.ranks[0]:
            if self.ranks[0][name] is None or any(pattern.fullmatch(name) for pattern in self.left_out):
                continue
            match, rule = self._rule_of(name)
            if rule.get("left_out_if_zero") and not any(bool((_made(rank[name]) != 0).any()) for rank in self.ranks if name in rank):
                continue
            found = match.groupdict()
            if "layer" in found:  # one with a plus comes behind the last of the model
                before = int(self.config["num_hidden_layers"]) if found["layer"].startswith("+") else first_layer
                found["layer"] = str(int(found["layer"]) + before)
            parts = rule.get("parts", [name])
            as_one = self.config.get("model_type") in rule.get("as_one_in", [])  # as the family's files have it
            for expert, slices in self._slices(name, rule, found):
                tensors = list(self._parts(name, rule, slices))
                if as_one:
                    parts, tensors = [name], [_concatenated(tensors, 0)]
                for part, tensor in zip(parts, tensors):
                    yield _filled(part, {**found, **expert}), tensor
        for i, rank in enumerate(self.ranks):
            if rank.keys() != self.ranks[0].keys():
                other = sorted(rank.keys() ^ self.ranks[0].keys())[0]
                raise UsageError(f"[from_state_dict] {other} is in only one of the ranks 0 and {i}")

    def _rule_of(self, name: str) -> tuple[re.Match[str], Mapping[str, Any]]:
        for pattern, rule in self.rules:
            if match := pattern.fullmatch(name):
                return match, rule
        raise UsageError(f"[from_state_dict] {self.engine} is not known to hold {name}")

    def _slices(self, name: str, rule: Mapping[str, Any], found: Mapping[str, str]) -> Iterator[tuple[dict[str, str], list[Any]]]:
        """What each rank has of the tensor; of experts, one after the other."""
        try:
            slices = [rank[name] for rank in self.ranks]
        except KeyError:
            raise UsageError(f"[from_state_dict] not all ranks hold {name}") from None
        if "rearrange" in rule:
            slices = [self._rearranged(name, rule["rearrange"], tensor) for tensor in slices]
        if "experts" not in rule:
            yield {}, slices
            return
        stacked = rule["experts"] == "stacked"
        held = [len(tensor) if stacked else self._named_experts(name) for tensor in slices]
        experts = self._experts()
        if any(count != experts for count in held) and sum(held) != experts:
            raise UsageError(f"[from_state_dict] {name}: ranks with {', '.join(map(str, held))} experts are not the {experts} of the config")
        everywhere = held[0] == experts
        for local in range(max(held)) if stacked else [int(found["expert"])]:
            of_ranks = [tensor[local] if stacked else tensor for tensor, count in zip(slices, held) if local < count]
            if everywhere:
                yield {"expert": str(local)}, of_ranks
                continue
            for rank, tensor in enumerate(of_ranks):  # the first ones hold one more, where they do not hold as many
                yield {"expert": str(sum(held[:rank]) + local)}, [tensor]

    def _named_experts(self, name: str) -> int:
        match, rule = self._rule_of(name)
        same_layer = (_pattern(rule["name"]).fullmatch(other) for other in self.ranks[0])
        said = {key: value for key, value in match.groupdict().items() if key != "expert"}
        return sum(1 for other in same_layer if other and said.items() <= other.groupdict().items())

    def _experts(self) -> int:
        for key in ("num_experts", "num_local_experts", "n_routed_experts"):
            if key in self.config:
                return int(self.config[key])
        raise UsageError("[from_state_dict] the config does not say how many experts there are")

    def _parts(self, name: str, rule: Mapping[str, Any], slices: list[Any]) -> Iterator[Any]:
        ranks = rule.get("ranks", "same")
        if "rows" in rule and all(tensor.shape[0] == sum(int(self.config[key]) for key in rule["rows"]) for tensor in slices):
            ranks = "same"
        if ranks == "same":
            for i, other in enumerate(slices):
                if not _equal(slices[0], other):
                    raise UsageError(f"[from_state_dict] {name} should be the same in all ranks, and those of 0 and {i} differ")
            yield from self._split(name, rule.get("split"), slices[0])
            return
        axis = 0 if ranks == "rows" else 1
        cut = [self._split(name, rule.get("split"), one) for one in slices]
        copies = self._copies(len(slices)) if rule.get("split") == "heads" else 1
        for i, _ in enumerate(cut[0]):
            step = copies if i > 0 else 1  # keys and values of more ranks than kv heads are held several times
            for rank, pieces in enumerate(cut):
                if step > 1 and not _equal(pieces[i], cut[rank // step * step][i]):
                    raise UsageError(f"[from_state_dict] {name}: ranks {rank // step * step} and {rank} hold one kv head, and not with the same numbers")
            whole = _concatenated([pieces[i] for pieces in cut[::step]], axis)
            yield whole[: int(self.config["vocab_size"])] if rule.get("padded") else whole

    def _rearranged(self, name: str, how: str, tensor: Any) -> Lazy:
        """The notation of einops; a key of the config is the size that it has there, and of each axis one name may be neither."""
        before, after = (_axes(side) for side in how.split("->"))
        rest = list(tensor.shape[len(before) - 1 :]) if before[-1] == ["..."] else []
        others = [f"rest {i}" for i in range(len(rest))]
        before, after = ([axis for axis in side if axis != ["..."]] for side in (before, after))
        sizes: dict[str, int] = dict(zip(others, rest))
        for axis, size in zip(before, tensor.shape):
            known = {part: int(part) if part.isdigit() else self._size(part) for part in axis}
            left, product = [part for part in axis if known[part] is None], math.prod(one for one in known.values() if one)
            if size % product or len(left) > 1 or (not left and size != product):
                raise UsageError(f"[from_state_dict] {name} has {size} of {' x '.join(axis)}, and the config says {product}")
            sizes |= {part: size // product if one is None else one for part, one in known.items()}
        names = [part for axis in before for part in axis] + others
        order = [names.index(part) for axis in after for part in axis] + [names.index(one) for one in others]
        shape = [math.prod(sizes[part] for part in axis) for axis in after] + rest

        def make() -> Any:
            parts = _made(tensor).reshape([sizes[part] for part in names])
            return (parts.permute(order) if hasattr(parts, "permute") else parts.transpose(order)).reshape(shape)

        return Lazy(shape, tensor.dtype, make)

    def _size(self, key: str) -> int | None:
        counted = {"num_key_value_heads": self._kv_heads, "num_experts": self._experts}
        return counted[key]() if key in counted else self.config.get(key)

    def _copies(self, ranks: int) -> int:
        return max(1, ranks // self._kv_heads())

    def _kv_heads(self) -> int:
        return int(self.config.get("num_key_value_heads") or self.config["num_attention_heads"])

    def _split(self, name: str, how: str | None, tensor: Any) -> list[Any]:
        rows, ranks = tensor.shape[0], len(self.ranks)
        if how is None:
            return [tensor]
        if how == "halves":
            sizes = [rows // 2] * 2
        elif how == "latents":
            sizes = [int(self.config["q_lora_rank"]), int(self.config["kv_lora_rank"]) + int(self.config["qk_rope_head_dim"])]
        else:
            heads = int(self.config["num_attention_heads"])
            width = int(self.config.get("head_dim") or int(self.config["hidden_size"]) // heads)
            queries, keys = heads // ranks * width, max(1, self._kv_heads() // ranks) * width
            sizes = [queries, keys, keys]
        if sum(sizes) != rows:
            raise UsageError(f"[from_state_dict] {name} has {rows} rows in a rank of {ranks}, where the config says {sum(sizes)}")
        if how == "groups":
            return self._of_groups(tensor, sizes, width)
        ends = numpy.cumsum(sizes)
        return [tensor[end - size : end] for size, end in zip(sizes, ends)]

    def _of_groups(self, tensor: Any, sizes: list[int], width: int) -> list[Any]:
        """The rows of each kv head stand together: those of its queries, its key, its value."""
        groups, rest = sizes[1] // width, tuple(tensor.shape[1:])
        share = sizes[0] // width // groups

        def part(size: int, which: Any) -> Lazy:
            return Lazy((size, *rest), tensor.dtype, lambda: _made(tensor).reshape(groups, share + 2, width, *rest)[:, which].reshape(size, *rest))

        return [part(size, which) for size, which in zip(sizes, (slice(share), share, share + 1))]


def _pattern(text: str) -> re.Pattern[str]:
    def part(match: re.Match[str]) -> str:
        return f"(?P<{match[1]}>{_WILDCARDS.get(match[1], '.*?')})"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", part, re.escape(text)))


def _axes(side: str) -> list[list[str]]:
    return [(inner or one).split() for inner, one in re.findall(r"\(([^)]*)\)|(\S+)", side)]


def _filled(text: str, found: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: found[match[1]], text)


def _made(tensor: Any) -> Any:
    return tensor.make() if isinstance(tensor, Lazy) else tensor


def _library(array: Any) -> Any:
    if isinstance(array, numpy.ndarray):
        return numpy
    import torch  # theirs, since the tensors are

    return torch


def _equal(a: Any, b: Any) -> bool:
    return a is b or (tuple(a.shape) == tuple(b.shape) and bool((_made(a) == _made(b)).all()))


def _concatenated(pieces: list[Any], axis: int) -> Any:
    if len(pieces) == 1:
        return pieces[0]

    def make() -> Any:
        made = [_made(piece) for piece in pieces]
        return _library(made[0]).concatenate(made, axis)

    shape = list(pieces[0].shape)
    shape[axis] = sum(piece.shape[axis] for piece in pieces)
    return Lazy(shape, pieces[0].dtype, make)
