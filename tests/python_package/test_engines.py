"""What engines hold: Megatron-Core's own models, ranks and forward pass on the CPU, and vLLM's own loaders of sharded layers."""

import pathlib
import tracemalloc

import numpy
import pytest
from megatron_ranks import EXPERTS, FIELDS, MOE_FIELDS, SHAPE, megatron_models, transformers_answer

import regauge
from regauge._engines import Lazy

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

HERE = pathlib.Path(__file__).parent
CASES = {
    "llama": ({"config": SHAPE}, {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}),
    "qwen2": (
        {"config": {**SHAPE, "add_qkv_bias": True}},
        {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]},
    ),
    "qwen3": (
        {"config": {**SHAPE, "qk_layernorm": True}},
        {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]},
    ),
    "tied": (
        {"config": SHAPE, "tied": True},
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True},
    ),
}


def with_experts(world, apart):
    """All in each rank, cut over ranks, or some in each rank."""
    return {"config": {**EXPERTS, "expert_model_parallel_size": apart, "expert_tensor_parallel_size": world // apart, "sequence_parallel": False}}


MODELS = {
    1: {"llama": CASES["llama"][0], "experts 1": with_experts(1, 1)},
    2: {**{case: settings for case, (settings, _) in CASES.items()}, "experts 1": with_experts(2, 1), "experts 2": with_experts(2, 2)},
    4: {"stages": {"config": SHAPE, "stages": 2}},
}


@pytest.fixture(scope="module")
def ranks_of(tmp_path_factory):
    """By their number and the model's name; processes take seconds to start, and make all models of as many ranks."""
    made = {}

    def ranks(world, name):
        if world not in made:
            all_of = megatron_models(tmp_path_factory.mktemp("ranks") / str(world), world, MODELS[world].values())
            made[world] = dict(zip(MODELS[world], all_of))
        return made[world][name]

    return ranks


@pytest.mark.parametrize("case, world", [("llama", 1), *((case, 2) for case in CASES)])
def test_megatrons_ranks_compute_what_is_read(ranks_of, tmp_path, case, world):
    fields = CASES[case][1]
    ranks = ranks_of(world, case)
    model = regauge.from_state_dict([state for state, _ in ranks], {**FIELDS, **fields}, layout="megatron")
    theirs = torch.cat([answer for _, answer in ranks], -1)
    ours = transformers_answer(model, tmp_path / "hf")
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()
    # A control: ranks in another order, or the groups of heads taken for blocks, are another function or no model at all.
    if world == 2:
        state = [state for state, _ in reversed(ranks)]
        other = regauge.from_state_dict(state, {**FIELDS, **fields}, layout="megatron")
        assert not regauge.diff(model, other).same


def test_stages_of_a_pipeline(ranks_of, tmp_path):
    """Two stages of two ranks each: layers count from zero in each stage."""
    ranks = ranks_of(4, "stages")
    states = [state for state, _ in ranks]
    model = regauge.from_state_dict([states[:2], states[2:]], {**FIELDS, **CASES["llama"][1]}, layout="megatron")
    theirs = torch.cat([answer for _, answer in ranks[2:]], -1)
    ours = transformers_answer(model, tmp_path / "hf")
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()


@pytest.mark.parametrize("world, apart", [(1, 1), (2, 1), (2, 2)])
def test_experts(ranks_of, tmp_path, world, apart):
    ranks = ranks_of(world, f"experts {apart}")
    model = regauge.from_state_dict([state for state, _ in ranks], MOE_FIELDS, layout="megatron")
    theirs = torch.cat([answer for _, answer in ranks], -1)
    ours = transformers_answer(model, tmp_path / "hf")
    assert (ours - theirs).abs().max() < 1e-5 * theirs.abs().max()


# vLLM needs a GPU's libraries to be imported: its ranks are cut here as vllm 0.33's `linear.py`, `vocab_parallel_embedding.py` and `unquantized_fused_moe_method.py` cut them.


def of_rank(tensors, rank, world, *, kv_heads, experts_apart=False, padding=64):
    """What vLLM's rank holds of a Llama-like model with Hugging Face's names."""
    held = {}

    def rows(name, ranks=world, at=rank):
        return numpy.array_split(tensors[name], ranks)[at]

    def keys(name):  # more ranks than kv heads: each has one
        return rows(name) if world <= kv_heads else rows(name, kv_heads, rank // (world // kv_heads))

    for name, tensor in tensors.items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            padded = numpy.zeros((-(-len(tensor) // padding) * padding, tensor.shape[1]), tensor.dtype)
            padded[: len(tensor)] = tensor
            held[name] = numpy.array_split(padded, world)[rank]
        elif "q_proj" in name:
            q = rows(name), keys(name.replace("q_proj", "k_proj")), keys(name.replace("q_proj", "v_proj"))
            held[name.replace("q_proj", "qkv_proj")] = numpy.concatenate(q)
        elif ".experts." in name:
            at, _, number_and_part = name.partition(".experts.")
            if number_and_part.startswith("0.gate_proj"):
                count = sum(1 for other in tensors if other.startswith(f"{at}.experts.") and other.endswith("gate_proj.weight"))
                own = numpy.array_split(range(count), world)[rank] if experts_apart else range(count)  # the first ranks have one more
                cut = (1, 0) if experts_apart else (world, rank)
                gate, up, down = ([tensors[f"{at}.experts.{e}.{part}.weight"] for e in own] for part in ("gate_proj", "up_proj", "down_proj"))
                halves = [numpy.concatenate([numpy.array_split(g, cut[0])[cut[1]], numpy.array_split(u, cut[0])[cut[1]]]) for g, u in zip(gate, up)]
                held[f"{at}.experts.routed_experts.w13_weight"] = numpy.stack(halves)
                held[f"{at}.experts.routed_experts.w2_weight"] = numpy.stack([numpy.array_split(d, cut[0], 1)[cut[1]] for d in down])
        elif "gate_proj" in name:
            held[name.replace("gate_proj", "gate_up_proj")] = numpy.concatenate([rows(name), rows(name.replace("gate_proj", "up_proj"))])
        elif name.endswith(("o_proj.weight", "down_proj.weight")):
            held[name] = numpy.array_split(tensor, world, 1)[rank]
        elif not any(part in name for part in ("k_proj", "v_proj", "up_proj")):
            held[name] = tensor
    return held


FIXTURES = HERE.parent / "fixtures"


def vllm_ranks(model, world, **how):
    tensors = {name: numpy.array(tensor) for name, tensor in model.state_dict().items()}
    kv_heads = model.config.get("num_key_value_heads", model.config["num_attention_heads"])
    return [of_rank(tensors, rank, world, kv_heads=kv_heads, **how) for rank in range(world)]


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_vllms_ranks_are_the_model(family, world):
    model = regauge.open(FIXTURES / family)
    ranks = vllm_ranks(model, world)
    found = regauge.diff(model, regauge.from_state_dict(ranks, model.config, layout="vllm"))
    assert found.statement == "identical"
    if world > 1:  # a control
        assert not regauge.diff(model, regauge.from_state_dict(ranks[::-1], model.config, layout="vllm")).same


def test_what_is_cut_is_put_together_one_tensor_at_a_time(tmp_path):
    """Memory is a few tensors beside what the ranks hold, in `diff` and in what is written, and no tensor is made for each
    piece that is read of it."""
    fields = {**FIELDS, "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 24,
              "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32,
              "intermediate_size": 704, "vocab_size": 512}  # fmt: skip
    draw = numpy.random.default_rng(0)

    def matrix(*shape):
        return draw.standard_normal(shape, numpy.float32) / 16

    tensors = {"model.embed_tokens.weight": matrix(512, 256), "lm_head.weight": matrix(512, 256), "model.norm.weight": matrix(256)}
    for layer in range(24):
        shapes = {
            "self_attn.q_proj": (256, 256), "self_attn.k_proj": (128, 256), "self_attn.v_proj": (128, 256), "self_attn.o_proj": (256, 256),
            "mlp.gate_proj": (704, 256), "mlp.up_proj": (704, 256), "mlp.down_proj": (256, 704), "input_layernorm": (256,),
            "post_attention_layernorm": (256,),
        }  # fmt: skip
        tensors |= {f"model.layers.{layer}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
    ranks = [of_rank(tensors, rank, 2, kv_heads=4) for rank in range(2)]
    largest, whole = 704 * 256 * 4, sum(tensor.nbytes for tensor in tensors.values())
    assert whole > 80 * largest

    made = []
    concatenate = numpy.concatenate
    tracemalloc.start()
    try:
        numpy.concatenate = lambda pieces, axis: made.append(1) or concatenate(pieces, axis)
        model = regauge.from_state_dict(ranks, fields, layout="vllm")
        assert not made
        same = regauge.diff(regauge.from_state_dict(tensors, fields), model)
        assert same.statement == "identical" and len(made) <= 2 * len(tensors)
        regauge.act(model, model.symmetry.random_element(1), tmp_path / "moved")
        assert regauge.diff(model, tmp_path / "moved").statement == "other-coordinates"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        numpy.concatenate = concatenate
        tracemalloc.stop()
    assert peak < 12 * largest


def test_what_is_made_otherwise_is_refused():
    model = regauge.open(FIXTURES / "llama")
    tensors = {name: numpy.array(tensor) for name, tensor in model.state_dict().items()}
    name = "model.norm.weight"
    shape = tensors[name].shape
    for make, said in [
        (lambda: numpy.ones((*shape, 2), numpy.float32), "has another shape or type now"),
        (lambda: numpy.ones(shape, numpy.float64), "has another shape or type now"),
        (lambda: None, "is no array"),
        (lambda: 1 / 0, "division by zero"),
    ]:
        lazy = regauge.from_state_dict({**tensors, name: Lazy(shape, "float32", make)}, model.config)
        with pytest.raises(regauge.UsageError, match=said):
            regauge.diff(model, lazy)
    right = Lazy(shape, "float32", lambda: tensors[name])
    assert regauge.diff(model, regauge.from_state_dict({**tensors, name: right}, model.config)).statement == "identical"


def test_more_ranks_of_vllm_than_kv_heads():
    model = regauge.open(FIXTURES / "qwen3")
    world = 2 * model.config["num_key_value_heads"]
    assert model.config["num_attention_heads"] % world == 0
    ranks = vllm_ranks(model, world)
    assert regauge.diff(model, regauge.from_state_dict(ranks, model.config, layout="vllm")).statement == "identical"
    qkv = next(name for name in ranks[1] if "qkv_proj" in name)
    ranks[1][qkv] = ranks[1][qkv] + (numpy.arange(len(ranks[1][qkv]))[:, None] == len(ranks[1][qkv]) - 1)
    with pytest.raises(regauge.UsageError, match="ranks 0 and 1 hold one kv head"):
        regauge.from_state_dict(ranks, model.config, layout="vllm")


@pytest.mark.parametrize("world, apart", [(1, False), (2, False), (2, True)])
def test_experts_of_vllm(world, apart):
    model = regauge.open(FIXTURES / "qwen3_moe")
    ranks = vllm_ranks(model, world, experts_apart=apart)
    assert regauge.diff(model, regauge.from_state_dict(ranks, model.config, layout="vllm")).statement == "identical"


def changed_rank(ranks, change):
    ranks = [dict(rank) for rank in ranks]
    change(ranks)
    return ranks


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda r: r[1].update({"model.norm.weight": 2 * r[1]["model.norm.weight"]}), "model.norm.weight should be the same in all ranks"),
        (lambda r: r[1].pop("model.norm.weight"), "not all ranks hold model.norm.weight"),
        (lambda r: r[1].update(more=r[1]["model.norm.weight"]), "more is in only one of the ranks 0 and 1"),
        (lambda r: r.pop(), "has .* rows in a rank of 1, where the config says"),
        (lambda r: r.clear(), "there are no ranks"),
    ],
)
def test_what_does_not_fit_is_named(change, said):
    model = regauge.open(FIXTURES / "llama")
    with pytest.raises(regauge.UsageError, match=said):
        regauge.from_state_dict(changed_rank(vllm_ranks(model, 2), change), model.config, layout="vllm")


def test_a_layout_that_is_not_known():
    with pytest.raises(regauge.UsageError, match="known are litgpt, megatron, olmo_core, torchtitan, vllm"):
        regauge.from_state_dict({}, {}, layout="llm")
    with pytest.raises(regauge.UsageError, match="Megatron-Core is not known to hold model.norm.weight"):
        regauge.from_state_dict({"model.norm.weight": numpy.ones(3)}, FIELDS, layout="megatron")


def of_shard_0(ranks):
    """vllm-gguf-plugin#103: each rank loads shard 0 of what is cut."""
    for name in ranks[1]:
        if "qkv_proj" in name or "gate_up_proj" in name:
            ranks[1][name] = ranks[0][name]


def of_the_halves(ranks):
    """The fused matrix is cut, and not each of its two: one rank has all gates, the other all ups."""
    for name in ranks[0]:
        if "gate_up_proj" in name:
            first, second = (numpy.split(rank[name], 2) for rank in ranks)
            ranks[0][name], ranks[1][name] = numpy.concatenate([first[0], second[0]]), numpy.concatenate([first[1], second[1]])


@pytest.mark.parametrize("mistake", [of_shard_0, of_the_halves])
def test_mistakes_of_engines_are_told(tmp_path, mistake):
    torch.manual_seed(1)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**FIELDS)).save_pretrained(tmp_path)
    model = regauge.open(tmp_path)
    ranks = changed_rank(vllm_ranks(model, 2), mistake)
    found = regauge.diff(model, regauge.from_state_dict(ranks, model.config, layout="vllm"))
    assert found.statement == "not-the-same"
    wrong = {residual.tensor.split(".")[-2] for residual in found.residuals if not residual.agrees}
    assert wrong == ({"q", "k", "v", "gate", "up"} if mistake is of_shard_0 else {"gate", "up"})
