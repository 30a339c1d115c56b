"""Edits of a model, in units of the tensors that they change, and what they do to its outputs. For limits.py."""

import functools
import json
import math

import numpy

import stored

# Models: an F32 folder of transformers', and which tensors the edits change


class Model:
    """Tensors of the base, and the roles that its family gives them."""

    def __init__(self, name, folder, tries, encoder=False):
        self.name, self.folder, self.tries, self.encoder = name, folder, tries, encoder
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = stored.read_tensors(folder)
        self.layers = self.config["num_hidden_layers"]
        self.tied = not encoder and "lm_head.weight" not in self.tensors

    def named(self, part, layer=None):
        llama = {"table": "model.embed_tokens", "gain": "post_attention_layernorm", "up": "mlp.up_proj",
                 "down": "mlp.down_proj", "o": "self_attn.o_proj", "q": "self_attn.q_proj", "v": "self_attn.v_proj"}
        bert = {"table": "embeddings.word_embeddings", "gain": "output.LayerNorm", "up": "intermediate.dense",
                "down": "output.dense", "o": "attention.output.dense", "q": "attention.self.query",
                "v": "attention.self.value"}  # fmt: skip
        before = "" if layer is None else f"{'encoder.layer' if self.encoder else 'model.layers'}.{layer}."
        return f"{before}{(bert if self.encoder else llama)[part]}.weight"

    def each_layer(self, *parts):
        return [self.named(part, layer) for layer in range(self.layers) for part in parts]


def rms(values):
    return math.sqrt(float(numpy.mean(numpy.square(values, dtype=numpy.float64))))


def noise_like(draw, values):
    return draw.standard_normal(values.shape, dtype=numpy.float32)


# Edits: (model, draw) -> {name: change of size 1}. Several tensors change by the same share of their size.


def all_entries(model, draw):
    name = model.named("up", model.layers // 2)
    return {name: rms(model.tensors[name]) * noise_like(draw, model.tensors[name])}


def one_entry(model, draw):
    name = model.named("up", model.layers // 2)
    change = numpy.zeros_like(model.tensors[name])
    change.flat[draw.integers(change.size)] = rms(model.tensors[name]) * draw.choice([-1, 1])
    return {name: change}


def one_row(model, draw):
    name = model.named("table")
    change = numpy.zeros_like(model.tensors[name])
    row = draw.integers(change.shape[0])
    change[row] = rms(model.tensors[name]) * noise_like(draw, change[row])
    return {name: change}


def one_gain(model, draw):
    name = model.named("gain", model.layers // 2)
    change = numpy.zeros_like(model.tensors[name])
    change[draw.integers(change.size)] = rms(model.tensors[name]) * draw.choice([-1, 1])
    return {name: change}


def low_rank(model, draw, names, rank):
    changes = {}
    for name in names:
        rows, columns = model.tensors[name].shape
        left = draw.standard_normal((rows, rank), dtype=numpy.float32)
        change = left @ draw.standard_normal((rank, columns), dtype=numpy.float32)
        changes[name] = change * (rms(model.tensors[name]) / rms(change))
    return changes


def rank_one(model, draw):
    """As ROME edits a fact: one outer product, in one matrix that writes to the residual stream."""
    return low_rank(model, draw, [model.named("down", model.layers // 2)], 1)


@functools.cache
def largest_direction(model, name):
    left, _, right = numpy.linalg.svd(model.tensors[name], full_matrices=False)
    return numpy.outer(left[:, 0], right[0])


def rank_one_along(model, draw):
    """In the same matrix, along the direction in which it is largest, where the error of an element is largest, too."""
    name = model.named("down", model.layers // 2)
    change = largest_direction(model, name)
    return {name: draw.choice([-1, 1]) * change * (rms(model.tensors[name]) / rms(change))}


def lora_1(model, draw):
    return low_rank(model, draw, model.each_layer("q", "v"), 1)


def lora_8(model, draw):
    return low_rank(model, draw, model.each_layer("q", "v"), 8)


def direction(model, draw):
    """A direction of the residual stream, taken from everything that writes to it; size 1 / sqrt(width) is all of it."""
    width = model.config["hidden_size"]
    r = draw.standard_normal(width).astype(numpy.float32)
    r *= width**0.5 / numpy.linalg.norm(r)
    changes = {name: -numpy.outer(r, r @ model.tensors[name]) for name in model.each_layer("o", "down")}
    table = model.tensors[model.named("table")]
    changes[model.named("table")] = -numpy.outer(table @ r, r)
    return {name: change / width**0.5 for name, change in changes.items()}


def adamw(model, draw):
    """Ten steps of AdamW, scaled to size 1 over all that they change."""
    change = trained_change(model, int(draw.integers(3)))
    return {name: value / trained_size(model, change) for name, value in change.items()}


def trained_size(model, change):
    squares = [(float(numpy.sum(c**2)), float(numpy.sum(model.tensors[name] ** 2))) for name, c in change.items()]
    return math.sqrt(sum(c for c, _ in squares) / sum(w for _, w in squares))


def natural_size(model, edit):
    """The size of ten steps at 1e-6; other edits have any size."""
    return trained_size(model, trained_change(model, 0)) if edit == "10 AdamW steps" else None


EDITS = {
    "all entries of a matrix": all_entries, "one entry": one_entry, "one row of the token table": one_row,
    "one gain": one_gain, "rank one, one matrix": rank_one, "rank one, its largest": rank_one_along,
    "a direction, all writers": direction,
    "LoRA of rank 1": lora_1, "LoRA of rank 8": lora_8, "10 AdamW steps": adamw,
}  # fmt: skip


# Training and running: transformers


@functools.cache
def network(folder):
    import torch
    import transformers

    torch.set_num_threads(1)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = transformers.AutoModelForCausalLM if "CausalLM" in config.architectures[0] else transformers.AutoModel
    return kind.from_pretrained(folder, dtype=torch.float32).eval()


@functools.cache
def texts(folder, batch):
    """What the model itself says: 4 sequences of 32 tokens; an encoder reads random tokens."""
    import torch

    net = network(folder)
    torch.manual_seed(batch)
    if not hasattr(net, "lm_head"):
        return torch.randint(1000, net.config.vocab_size, (4, 32))
    with torch.no_grad():
        start = torch.full((4, 1), net.config.bos_token_id or 1)
        return net.generate(start, do_sample=True, max_new_tokens=31, min_new_tokens=31, pad_token_id=0)


def result_of(net, tokens):
    output = net(input_ids=tokens)
    return output.logits if "logits" in output else output.last_hidden_state.mean(1)


@functools.lru_cache(maxsize=6)
def trained_change(model, batch, rate=1e-6, steps=10):
    """What ten steps of AdamW change, in F32; by name."""
    import torch

    net, tokens = network(model.folder), texts(model.folder, batch)
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate)
    for _ in range(steps):
        if model.encoder:
            vectors = torch.nn.functional.normalize(result_of(net, tokens), dim=-1)
            loss = (vectors @ vectors.roll(1, 0).T).diagonal().mean()
        else:
            loss = net(input_ids=tokens, labels=tokens.roll(1, 0)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    change = {}
    with torch.no_grad():
        for name, value in net.named_parameters():
            if name in model.tensors:
                change[name] = (value.double() - before[name].double()).float().numpy()
            value.copy_(before[name])
    return change


def change_of_outputs(model, edit, size, seed):
    """What an edit of this size does, before anything is rounded."""
    import torch

    net, tokens = network(model.folder), texts(model.folder, 0)
    parameters = dict(net.named_parameters())
    changes = EDITS[edit](model, numpy.random.default_rng(seed))
    with torch.no_grad():
        x = result_of(net, tokens).double()
        before = {name: parameters[name].clone() for name in changes}
        for name, change in changes.items():
            parameters[name] += size * torch.from_numpy(change)
        y = result_of(net, tokens).double()
        for name, value in before.items():
            parameters[name].copy_(value)
    if model.encoder:
        return {"cosine distance": float(1 - torch.nn.functional.cosine_similarity(x, y, dim=-1).mean())}
    p, q = x.log_softmax(-1), y.log_softmax(-1)
    return {
        "kl": float((p.exp() * (p - q)).sum(-1).mean()),
        "top": float((x.argmax(-1) != y.argmax(-1)).double().mean()),
    }
