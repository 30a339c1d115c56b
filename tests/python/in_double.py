"""transformers in double precision: what it makes or takes in float on its way is replaced."""

import contextlib
import math
from unittest import mock

import torch
from pictures import text_of

# What transformers' tables of angles hold, where it is not each angle in both halves.
ANGLES = {"Cohere": "adjacent", "Cohere2": "adjacent", "GptOss": "once", "DeepseekV2": "complex"}


class DoubleRotary(torch.nn.Module):
    """transformers' tables of a rotary encoding, in double."""

    def __init__(self, frequencies, scaling, angles):
        super().__init__()
        self.frequencies, self.scaling, self.angles = frequencies, scaling, angles

    def forward(self, x, position_ids):
        if position_ids.dim() == 3:  # axes of pictures, which agree for text
            position_ids = position_ids[0]
        angles = position_ids[..., None].double() * self.frequencies
        if self.angles == "adjacent":
            angles = angles.repeat_interleave(2, -1)
        if self.angles == "complex":
            return torch.polar(torch.full_like(angles, self.scaling), angles)
        if self.angles == "halves":
            angles = torch.cat([angles, angles], -1)
        return angles.cos() * self.scaling, angles.sin() * self.scaling


def double_frequencies(config):
    """theta^(-2i/dims) and its two variants, as their papers define them."""
    given = config.rope_parameters
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    dims = int(width * given.get("partial_rotary_factor", 1.0))
    frequencies = given["rope_theta"] ** (-torch.arange(0, dims, 2).double() / dims)
    if given["rope_type"] == "linear":
        return frequencies / given["factor"]
    if given["rope_type"] == "llama3":
        turns = given["original_max_position_embeddings"] * frequencies / (2 * math.pi)
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        return frequencies * (kept + (1 - kept) / given["factor"])
    if given["rope_type"] == "yarn":
        def pair(turns):
            return dims * math.log(given["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (
                2 * math.log(given["rope_theta"]))

        low, high = max(pair(given["beta_fast"]), 0), min(pair(given["beta_slow"]), dims - 1)
        ramp = ((torch.arange(dims // 2).double() - low) / (high - low)).clamp(0, 1)
        return frequencies * (1 - ramp) + frequencies / given["factor"] * ramp
    assert given["rope_type"] == "default"
    return frequencies


class DoubleRotaryOfKinds(torch.nn.Module):
    """ModernBERT's, of which each kind of layers has its own."""

    def __init__(self, config):
        super().__init__()
        dims = config.hidden_size // config.num_attention_heads
        self.of_kind = {
            kind: DoubleRotary(given["rope_theta"] ** (-torch.arange(0, dims, 2).double() / dims), 1.0, "halves")
            for kind, given in config.rope_parameters.items()
        }

    def forward(self, x, position_ids, kind):
        return self.of_kind[kind](x, position_ids)


class DoublePlaces(torch.nn.Module):
    """DINOv3's tables of the centres of patches, in double."""

    def __init__(self, config):
        super().__init__()
        self.config = config

    def forward(self, pixel_values):
        rows, columns = (side // self.config.patch_size for side in pixel_values.shape[-2:])
        y, x = ((torch.arange(n).double() + 0.5) / n * 2 - 1 for n in (rows, columns))
        places = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).flatten(0, 1)
        width = self.config.hidden_size // self.config.num_attention_heads
        frequencies = self.config.rope_theta ** (-torch.arange(0, 1, 4 / width).double())
        angles = (2 * math.pi * places[:, :, None] * frequencies).flatten(1).tile(2)
        return angles.cos(), angles.sin()


def double_sinusoids(places, columns, inclusive):
    """All sines, then all cosines; with the last frequency of 1/10000, or one step before it."""
    steps = columns // 2 - 1 if inclusive else columns / 2
    frequencies = 10000.0 ** (-torch.arange(columns // 2).double() / steps)
    angles = torch.arange(places).double()[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)


def make_double(model):
    """transformers in double: tables of angles and Gemma's sqrt(D) are made in float otherwise."""
    model = model.double()
    language = getattr(model.base_model, "language_model", model)
    for module in list(language.modules()):
        for name, child in list(module.named_children()):
            kind = type(child).__name__
            if kind == "EsmRotaryEmbedding":
                continue  # its file holds the frequencies
            if kind == "DINOv3ViTRopePositionEmbedding":
                setattr(module, name, DoublePlaces(model.config))
            elif kind == "ModernBertRotaryEmbedding":
                setattr(module, name, DoubleRotaryOfKinds(model.config))
            elif kind.endswith("RotaryEmbedding"):
                ours = double_frequencies(text_of(model.config))
                assert torch.allclose(ours.float(), child.inv_freq.float(), rtol=1e-5), ours
                angles = ANGLES.get(kind.removesuffix("RotaryEmbedding"), "halves")
                setattr(module, name, DoubleRotary(ours, child.attention_scaling, angles))
            elif kind.endswith("SinusoidalPositionalEmbedding") and model.config.model_type != "pegasus":  # in its file
                table = child.weights if hasattr(child, "weights") else child.weight
                ours = double_sinusoids(*table.shape, inclusive=hasattr(child, "weights"))
                unlike = (ours - table.double()).abs().amax(1) > 1e-5
                assert unlike.sum() <= 1  # M2M-100 has zeros for padding
                table.data = ours
            elif hasattr(child, "scalar_embed_scale"):
                child.embed_scale = torch.tensor(child.scalar_embed_scale, dtype=torch.float64)
            elif isinstance(getattr(child, "embed_positions", None), torch.Tensor):  # GPT-J's and CodeGen's: sines, then cosines
                places, columns = child.embed_positions.shape
                frequencies = 10000.0 ** (-torch.arange(0, columns, 2).double() / columns)
                angles = torch.arange(places).double()[:, None] * frequencies
                ours = torch.cat([angles.sin(), angles.cos()], 1)
                assert torch.allclose(ours, child.embed_positions.double(), atol=1e-5)
                child.embed_positions = ours
    return model


@contextlib.contextmanager
def no_float():
    """What transformers takes through float on its way (a norm, a softmax, a rotation) stays in double."""
    softmax, of_tensor = torch.nn.functional.softmax, torch.Tensor.softmax
    to, cast = torch.Tensor.to, torch.Tensor.type
    softmax_in_double = lambda *arguments, dtype=None, **rest: softmax(*arguments, **rest)  # noqa: E731

    method_in_double = lambda *arguments, dtype=None, **rest: of_tensor(*arguments, **rest)  # noqa: E731

    def to_double(tensor, *arguments, **rest):
        return to(tensor, *(torch.float64 if a is torch.float32 else a for a in arguments), **rest)

    def type_double(tensor, *arguments, **rest):
        return cast(tensor, *(torch.float64 if a is torch.float32 else a for a in arguments), **rest)

    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double), \
            mock.patch.object(torch.Tensor, "type", type_double), \
            mock.patch.object(torch.Tensor, "to", to_double), \
            mock.patch.object(torch.Tensor, "softmax", method_in_double), \
            mock.patch.object(torch.nn.functional, "softmax", softmax_in_double):  # fmt: skip
        torch.set_default_dtype(torch.float64)  # of a quotient of whole numbers
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)
