"""What training libraries hold: torchtitan, OLMo-core and LitGPT, their own models, converters and forward passes, and transformers'."""

import contextlib
import importlib.util
import io
import pathlib

import numpy
import pytest

import regauge

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"
SIZES = dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, head_dim=8,
    rope_theta=10000.0, max_position_embeddings=32, tie_word_embeddings=False, hidden_act="silu",
)  # fmt: skip


def held(model):
    return {name: numpy.array(tensor) for name, tensor in model.state_dict().items()}


def adjacent(rows, heads):
    """From halves to adjacent pairs, as torchtitan's `_reverse_permute` does for Llama."""
    return rows.reshape(heads, 2, -1, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def in_groups(q, k, v, width):
    """The rows of each kv head together: those of its queries, its key, its value."""
    groups = len(k) // width
    parts = [part.reshape(groups, -1, *part.shape[1:]) for part in (q, k, v)]
    return numpy.concatenate(parts, 1).reshape(-1, *q.shape[1:])


# Models of transformers as the libraries hold them, by the rules of their sources: these need no library.


def renamed(tensors, names):
    def of(name):
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    return {of(name): tensor for name, tensor in tensors.items()}


def of_torchtitan(tensors, config):
    """torchtitan 0.3.0, models/*/state_dict_adapter.py"""
    state = renamed(
        tensors,
        {
            "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "model.layers": "layers", "input_layernorm": "attention_norm",
            "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attention.wo", "self_attn.q_norm": "attention.q_norm",
            "self_attn.k_norm": "attention.k_norm", "self_attn.q_proj": "attention.qkv_linear.wq", "self_attn.k_proj": "attention.qkv_linear.wk",
            "self_attn.v_proj": "attention.qkv_linear.wv", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
            "mlp.down_proj": "feed_forward.w2", "mlp.gate.": "moe.router.gate.",
        },
    )  # fmt: skip
    heads = {"wq": config["num_attention_heads"], "wk": config["num_key_value_heads"]}
    for name in [name for name in state if ".experts.0." in name]:
        at, part = name.split("mlp.experts.0.")
        experts = [state.pop(f"{at}mlp.experts.{i}.{part}") for i in range(config.get("num_experts") or config["num_local_experts"])]
        stacked = {"gate": "w1_EFD", "up": "w3_EFD", "down": "w2_EDF"}[part.split("_")[0]]
        state[f"{at}moe.routed_experts.inner_experts.{stacked}"] = numpy.stack(experts)
    if config["model_type"] == "llama":
        for name in state:
            if name.split(".")[-2] in heads:
                state[name] = adjacent(state[name], heads[name.split(".")[-2]])
    return state


def of_olmo_core(tensors, config):
    """OLMo-core 3.0.0, nn/hf/convert.py, and nn/moe/mlp.py for experts (DroplessMoEMLP), which its converter takes for transposed ones"""
    behind = config["model_type"].startswith(("olmo2", "olmo3"))
    state = renamed(
        tensors,
        {
            "model.embed_tokens": "embeddings", "model.norm": "lm_head.norm", "lm_head.weight": "lm_head.w_out.weight", "model.layers": "blocks",
            **({"post_feedforward_layernorm": "feed_forward_norm", "post_attention_layernorm": "attention_norm"} if behind
               else {"input_layernorm": "attention_norm", "post_attention_layernorm": "feed_forward_norm"}),
            "self_attn.o_proj": "attention.w_out", "self_attn.q_norm": "attention.q_norm", "self_attn.k_norm": "attention.k_norm",
            "self_attn.q_proj": "attention.w_q", "self_attn.k_proj": "attention.w_k", "self_attn.v_proj": "attention.w_v",
            "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3", "mlp.down_proj": "feed_forward.w2",
            "mlp.gate.": "feed_forward_moe.router.",
        },
    )  # fmt: skip
    for name in [name for name in state if ".experts.0." in name]:
        at, part = name.split("mlp.experts.0.")
        experts = [state.pop(f"{at}mlp.experts.{i}.{part}") for i in range(config.get("num_experts") or config["num_local_experts"])]
        stacked = {"gate": "w1", "up": "w3", "down": "w2"}[part.split("_")[0]]
        state[f"{at}feed_forward_moe.experts.mlp.{stacked}"] = numpy.concatenate([e.T if stacked == "w2" else e for e in experts])
    return {name: tensor.reshape(-1) if name.endswith("router.weight") else tensor for name, tensor in state.items()}


def of_litgpt(tensors, config, interleaved=False):
    """LitGPT 0.5.13, scripts/convert_hf_checkpoint.py; before its PR 1013 the rows of qkv were interleaved"""
    if config["model_type"] == "gpt_neox":
        state = renamed(
            tensors,
            {
                "gpt_neox.embed_in": "transformer.wte", "embed_out": "lm_head", "gpt_neox.final_layer_norm": "transformer.ln_f",
                "gpt_neox.layers": "transformer.h", "input_layernorm": "norm_1", "post_attention_layernorm": "norm_2",
                "attention.query_key_value": "attn.qkv", "attention.dense": "attn.proj", "mlp.dense_h_to_4h": "mlp.fc", "mlp.dense_4h_to_h": "mlp.proj",
            },
        )  # fmt: skip
        for name in [] if interleaved else [name for name in state if ".qkv." in name]:
            by_head = state[name].reshape(config["num_attention_heads"], 3, -1, *state[name].shape[1:])
            state[name] = numpy.ascontiguousarray(by_head.swapaxes(0, 1)).reshape(state[name].shape)
        return state
    behind = "model.layers.0.post_feedforward_layernorm.weight" in tensors
    state = renamed(
        tensors,
        {
            "model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "model.layers": "transformer.h", "input_layernorm": "norm_1",
            "post_attention_layernorm": "post_attention_norm" if behind else "norm_2", "pre_feedforward_layernorm": "norm_2",
            "post_feedforward_layernorm": "post_mlp_norm", "self_attn.o_proj": "attn.proj", "self_attn.q_norm": "attn.norm_q",
            "self_attn.k_norm": "attn.norm_k", "gate_proj": "fc_1", "up_proj": "fc_2", "down_proj": "proj",
        },
    )  # fmt: skip
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    for name in [name for name in state if ".self_attn.q_proj." in name]:
        q, k, v = (state.pop(name.replace("q_proj", part)) for part in ("q_proj", "k_proj", "v_proj"))
        state[name.replace("self_attn.q_proj", "attn.qkv")] = in_groups(q, k, v, width) if interleaved else numpy.concatenate([q, k, v])
    return state


HOLDS = {"torchtitan": of_torchtitan, "olmo_core": of_olmo_core, "litgpt": of_litgpt}


@pytest.mark.parametrize(
    "layout, family",
    [
        *(("torchtitan", family) for family in ("llama", "qwen3", "qwen3_moe")),
        *(("olmo_core", family) for family in ("olmo2", "olmo3", "olmoe", "llama", "qwen3")),
        *(("litgpt", family) for family in ("llama", "mistral", "gemma", "gemma2", "qwen2", "qwen3", "qwen3_moe", "olmo2", "gpt_neox")),
    ],
)
def test_what_a_library_holds_is_the_model(layout, family):
    model = regauge.open(FIXTURES / family)
    state = HOLDS[layout](held(model), model.config)
    assert regauge.diff(model, regauge.from_state_dict(state, model.config, layout=layout)).statement == "identical"
    name = next(name for name in state if "1.attention.wo." in name or "1.attention.w_out." in name or "1.attn.proj." in name)
    state[name] = state[name][::-1].copy()  # a control
    assert not regauge.diff(model, regauge.from_state_dict(state, model.config, layout=layout)).same


@pytest.mark.parametrize("layout, family", [("torchtitan", "qwen3"), ("torchtitan", "qwen3_moe"), ("olmo_core", "olmoe"), ("litgpt", "gpt_neox")])
def test_what_a_library_saves_is_the_model(tmp_path, layout, family):
    """A folder of torch.distributed.checkpoint, of which a tensor is read when it is needed."""
    torch, checkpoints = (pytest.importorskip(name) for name in ("torch", "torch.distributed.checkpoint"))
    model = regauge.open(FIXTURES / family)
    state = HOLDS[layout](held(model), model.config)
    checkpoints.save({name: torch.tensor(tensor) for name, tensor in state.items()}, checkpoint_id=tmp_path / "saved", no_dist=True)
    found = regauge.diff(model, regauge.from_checkpoint(tmp_path / "saved", model.config, layout=layout))
    assert found.statement == "identical"


def told(model, state, layout):
    """What `diff` calls the state, beside the model that it should be; a control is that nothing is said without the mistake."""
    found = regauge.diff(model, regauge.from_state_dict(state, model.config, layout=layout))
    return found.statement, {cause.mistake for cause in found.diagnosis.causes}


@pytest.mark.parametrize("mistake, named", [("missing", "rotary-missing"), ("doubled", "rotary-doubled")])
def test_the_permutation_of_torchtitan(mistake, named):
    """pytorch/torchtitan PR 1441: what was written for Hugging Face, beside what was trained."""
    model = regauge.open(FIXTURES / "llama")
    trained = of_torchtitan(held(model), model.config)
    written = held(model)
    heads = {"q_proj": model.config["num_attention_heads"], "k_proj": model.config["num_key_value_heads"]}
    for name in written:
        part = name.split(".")[-2]
        if part in heads and mistake == "missing":
            written[name] = adjacent(written[name], heads[part])
        elif part in heads:
            written[name] = written[name].reshape(heads[part], -1, 2, written[name].shape[1]).swapaxes(1, 2).reshape(written[name].shape)
    found = regauge.diff(regauge.from_state_dict(trained, model.config, layout="torchtitan"), regauge.from_state_dict(written, model.config))
    assert found.statement == "not-the-same" and {cause.mistake for cause in found.diagnosis.causes} == {named}


def exchanged(first, second):
    def change(state):
        for name in [name for name in state if first in name]:
            other = name.replace(first, second)
            state[name], state[other] = state[other], state[name]

    return change


def norm_of_the_other(state):
    """What OLMo-core 3.0.0 makes of OLMoE: both norms of a layer are written into one, and the other is as it was made."""
    for name in [name for name in state if ".feed_forward_norm." in name]:
        state[name.replace("feed_forward", "attention")] = state[name]
        state[name] = numpy.ones_like(state[name])


@pytest.mark.parametrize(
    "family, change, named",
    [
        ("olmo2", exchanged(".attention_norm.", ".feed_forward_norm."), "tensors-exchanged"),
        ("olmo2", exchanged(".feed_forward.w1.", ".feed_forward.w3."), "gate-up-swapped"),
        ("olmoe", norm_of_the_other, "tensors-exchanged"),
        ("qwen3", exchanged(".q_norm.", ".k_norm."), None),
    ],
)
def test_mistakes_on_the_way_to_olmo_core(family, change, named):
    """allenai/OLMo-core#484 and #502"""
    model = regauge.open(FIXTURES / family)
    state = of_olmo_core(held(model), model.config)
    assert told(model, state, "olmo_core") == ("identical", set())
    change(state)
    if named is None:  # gains of q and k of one width: a product of both is what counts
        assert told(model, state, "olmo_core")[0] != "identical"
    else:
        assert told(model, state, "olmo_core") == ("not-the-same", {named})


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gpt_neox"])
def test_interleaved_rows_of_litgpt(family):
    """Lightning-AI/litgpt PR 1013: a state of before it, read as one of today; and read as what it is, with the layout changed."""
    model = regauge.open(FIXTURES / family)
    old = of_litgpt(held(model), model.config, interleaved=True)
    assert told(model, old, "litgpt") == ("not-the-same", {"qkv-order"})
    rules = regauge._engines._layout("litgpt")
    for rule in rules["tensors"]:
        if rule.get("split") == "heads":
            rule["split"] = "groups"
        rule.pop("rearrange", None)
    assert told(model, old, rules) == ("identical", set())


@pytest.mark.parametrize(
    "layout, family, change, said",
    [
        ("torchtitan", "qwen2", lambda s: None, "torchtitan's names are known for llama, qwen3, qwen3_moe, and not for qwen2"),
        ("torchtitan", "llama", lambda s: s.update(more=numpy.ones(3)), "torchtitan is not known to hold more"),
        ("torchtitan", "llama", lambda s: s.update({"layers.0.attention.qkv_linear.wq.weight": numpy.ones((7, 16), "f4")}), "wq.weight has 7 of num_attention"),
        ("olmo_core", "olmoe", lambda s: s.update({"blocks.0.feed_forward_moe.experts.mlp.w1": numpy.ones((7, 16), "f4")}), "w1 has 7 of num_experts x inter"),
    ],
)
def test_what_does_not_fit_is_named(layout, family, change, said):
    model = regauge.open(FIXTURES / family)
    state = HOLDS[layout](held(model), model.config)
    change(state)
    with pytest.raises(regauge.UsageError, match=said):
        regauge.from_state_dict(state, model.config, layout=layout)


# The libraries themselves, where they are installed.


def library(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return pytest.importorskip("torch"), pytest.importorskip("transformers")


def drawn(model):
    """Every gain is random, and every other number, too."""
    import torch

    generator = torch.Generator().manual_seed(1)
    for name, tensor in model.named_parameters():
        if "norm" in name or "ln_f" in name:
            tensor.data.uniform_(0.5, 1.5, generator=generator)
        else:
            tensor.data.normal_(0, 0.2, generator=generator)
    return model.eval()


def computes(model, theirs, folder, within=5e-5):
    """Whether transformers computes of what was read what the library computes of what it holds; a control differs."""
    import torch
    import transformers

    regauge.convert(model, folder / "hf")
    judge = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf", dtype=torch.float32).eval()
    with torch.no_grad():
        ours = judge(torch.arange(12)[None]).logits
        judge.get_input_embeddings().weight[3] *= -1
        assert (judge(torch.arange(12)[None]).logits - theirs).abs().max() > 1e-3 * theirs.abs().max()
    return (ours - theirs).abs().max() < within * theirs.abs().max()


def torchtitan_model(family, fused):
    from torchtitan.models import llama3, qwen3
    from torchtitan.models.common import ComplexRoPE, CosSinRoPE, Embedding, Linear
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.common.nn_modules import RMSNorm

    rope = dict(dim=8, max_seq_len=32, theta=10000.0)
    shape = dict(n_layers=2, dim=32, n_heads=4, n_kv_heads=2, hidden_dim=48, fuse_qkv=fused, attn_backend="flex")
    if family == "llama":
        layers = llama3._build_llama3_layers(**shape, rope=ComplexRoPE.Config(**rope))
        kind, adapter = llama3.Llama3Model, llama3.Llama3StateDictAdapter
    elif family == "qwen3_moe":
        shape = {"moe_hidden_dim": shape.pop("hidden_dim") // 2, **shape, "num_experts": 4, "top_k": 2, "moe_comm_backend": "standard"}
        layers = qwen3._build_qwen3_moe_layers(**shape, head_dim=8, rope=CosSinRoPE.Config(**rope))
        kind, adapter = qwen3.Qwen3Model, qwen3.Qwen3StateDictAdapter
    else:
        layers = qwen3._build_qwen3_layers(**shape, head_dim=8, rope=CosSinRoPE.Config(**rope))
        kind, adapter = qwen3.Qwen3Model, qwen3.Qwen3StateDictAdapter
    for layer in layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()  # flex attention is compiled for GPUs
    config = kind.Config(
        dim=32, vocab_size=64, layers=layers, norm=RMSNorm.Config(normalized_shape=32, eps=layers[0].attention_norm.eps),
        tok_embeddings=Embedding.Config(num_embeddings=64, embedding_dim=32), lm_head=Linear.Config(in_features=32, out_features=64),
    )  # fmt: skip
    return drawn(config.build()), adapter(config, None)


@pytest.mark.parametrize("family, architecture, fused", [("llama", "LlamaForCausalLM", True), ("llama", "LlamaForCausalLM", False), ("qwen3", "Qwen3ForCausalLM", True)])
def test_torchtitans_own_model(tmp_path, family, architecture, fused):
    torch, _ = library("torchtitan")
    theirs, adapter = torchtitan_model(family, fused)
    state = theirs.state_dict()
    fields = {**SIZES, "model_type": family, "architectures": [architecture], "rms_norm_eps": theirs.norm.eps}
    model = regauge.from_state_dict(state, fields, layout="torchtitan")
    assert regauge.diff(model, regauge.from_state_dict(adapter.to_hf(state), fields)).statement == "identical"
    with torch.no_grad():
        assert computes(model, theirs(torch.arange(12)[None], torch.arange(12)[None]), tmp_path)


def test_torchtitans_own_experts(tmp_path):
    """Its experts multiply in bfloat16, also on the CPU."""
    torch, _ = library("torchtitan")
    theirs, adapter = torchtitan_model("qwen3_moe", True)
    state = theirs.state_dict()
    fields = {
        **SIZES, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "rms_norm_eps": 1e-6, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
    }  # fmt: skip
    model = regauge.from_state_dict(state, fields, layout="torchtitan")
    written = regauge.from_state_dict(adapter.to_hf(state), fields)
    assert regauge.diff(model, written).statement == "identical"
    with torch.no_grad():
        assert computes(model, theirs(torch.arange(12)[None], torch.arange(12)[None]), tmp_path, within=2e-2)
    # A bias that balances the load, which Qwen3 of transformers does not have and the adapter drops, is not ignored.
    biased = {name: tensor + 0.1 if name.endswith("expert_bias_E") else tensor for name, tensor in state.items()}
    found = regauge.diff(regauge.from_state_dict(biased, fields, layout="torchtitan"), written)
    assert found.statement == "undecided" and any("e_score_correction_bias" in reason for reason in found.reasons)


OLMO_CORE = {
    "olmo2": (dict(block_name="reordered_norm", qk_norm=True), "Olmo2ForCausalLM"),
    "olmo3": (dict(block_name="reordered_norm", qk_norm=True), "Olmo3ForCausalLM"),  # all layers without a window, which needs a GPU there
    "llama": (dict(), "LlamaForCausalLM"),
    "qwen3": (dict(qk_norm=True, use_head_qk_norm=True), "Qwen3ForCausalLM"),
}


@pytest.mark.parametrize("family", OLMO_CORE)
def test_olmo_cores_own_model(tmp_path, family):
    torch, transformers = library("olmo_core")
    from olmo_core.nn.hf.convert import convert_state_from_hf, convert_state_to_hf
    from olmo_core.nn.transformer import TransformerBlockType, TransformerConfig

    settings, architecture = OLMO_CORE[family]
    settings = {**settings, "block_name": TransformerBlockType(settings.get("block_name", "default"))}
    config = TransformerConfig.llama_like(d_model=32, vocab_size=64, n_layers=2, n_heads=4, n_kv_heads=2, rope_theta=10000, layer_norm_eps=1e-6, **settings)
    theirs = drawn(config.build(init_device="cpu"))
    state = theirs.state_dict()
    width = len(state["blocks.0.feed_forward.w1.weight"])
    fields = {**SIZES, "model_type": family, "architectures": [architecture], "rms_norm_eps": 1e-6, "intermediate_size": width}
    if family == "olmo3":
        fields["layer_types"] = ["full_attention"] * 2
    model = regauge.from_state_dict(state, fields, layout="olmo_core")
    written = convert_state_to_hf(transformers.AutoConfig.for_model(**fields), state)
    assert regauge.diff(model, regauge.from_state_dict(written, fields)).statement == "identical"
    back = convert_state_from_hf(transformers.AutoConfig.for_model(**fields), written, model_type=family)
    assert regauge.diff(model, regauge.from_state_dict(back, fields, layout="olmo_core")).statement == "identical"
    with torch.no_grad():
        assert computes(model, theirs(torch.arange(12)[None]), tmp_path)


def test_olmo_cores_own_experts(tmp_path, monkeypatch):
    """OLMoE, which OLMo-core 3.0.0 cannot bring to Hugging Face or back: its own model computes what is read, and what its
    converter makes of that is told. Two kernels for GPUs, which move rows to experts and back, are said in torch."""
    torch, transformers = library("olmo_core")
    from olmo_core.nn.hf.convert import convert_state_from_hf
    from olmo_core.nn.moe import MoEConfig, MoERouterConfig, MoEType
    from olmo_core.nn.transformer import TransformerBlockType, TransformerConfig
    from olmo_core.nn.transformer.config import TransformerType
    from olmo_core.ops import moe as ops

    def scatter(x, indices, bin_ids, weights, bins, top_k):
        out = torch.empty_like(x)
        out[indices.long()] = x
        return (out * weights.reshape(-1, 1)).reshape(-1, top_k, x.shape[-1]).sum(1)

    monkeypatch.setattr(ops, "gather", lambda x, indices, bin_ids, bins, top_k: x[indices.long() // top_k])
    monkeypatch.setattr(ops, "scatter", scatter)
    experts = MoEConfig(name=MoEType.dropless, num_experts=4, hidden_size=24, router=MoERouterConfig(top_k=2))
    config = TransformerConfig.llama_like(
        d_model=32, vocab_size=64, n_layers=2, n_heads=4, rope_theta=10000, layer_norm_eps=1e-6, qk_norm=True,
        name=TransformerType.moe, block_name=TransformerBlockType.moe, feed_forward_moe=experts,
    )  # fmt: skip
    theirs = drawn(config.build(init_device="cpu"))
    state = theirs.state_dict()
    fields = {
        **SIZES, "model_type": "olmoe", "architectures": ["OlmoeForCausalLM"], "rms_norm_eps": 1e-6, "num_key_value_heads": 4,
        "intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False, "clip_qkv": None,
    }  # fmt: skip
    model = regauge.from_state_dict(state, fields, layout="olmo_core")
    with torch.no_grad():
        assert computes(model, theirs(torch.arange(12)[None]), tmp_path)

    held_by_transformers = {name: torch.from_numpy(numpy.array(tensor)) for name, tensor in model.state_dict().items()}
    theirs_again = convert_state_from_hf(transformers.AutoConfig.for_model(**fields), held_by_transformers, model_type="olmoe")
    if "blocks.0.feed_forward_norm.weight" in theirs_again:
        pytest.skip("this OLMo-core converts OLMoE")
    with pytest.raises(regauge.UsageError, match="w1 has 128 of num_experts x intermediate_size, and the config says 96"):
        regauge.from_state_dict(theirs_again, fields, layout="olmo_core")
    loaded = {**state, **{name: theirs_again[name] for name in theirs_again if ".experts." not in name}}
    found = regauge.diff(model, regauge.from_state_dict(loaded, fields, layout="olmo_core"))
    assert found.statement == "not-the-same"
    assert {one.tensor for one in found.residuals if not one.agrees} == {"layers.0.attn.norm.gain", "layers.1.attn.norm.gain"}


ROTATED = {"rope_base": 10000}
GROUPED = {"n_query_groups": 2, "intermediate_size": 48}
GEMMA = {"hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "query_pre_attn_scalar": 8}
# name in LitGPT, what is smaller of it; what is another config of transformers, its class
LITGPT = {
    "llama": ("Llama-2-7b-hf", GROUPED, {"rms_norm_eps": 1e-5}, "LlamaForCausalLM"),
    "mistral": ("Mistral-7B-v0.1", GROUPED, {"rms_norm_eps": 1e-5, "sliding_window": 4096}, "MistralForCausalLM"),
    "mixtral": ("Mixtral-8x7B-v0.1", {**GROUPED, **ROTATED, "n_expert": 4}, {"rms_norm_eps": 1e-5, "num_local_experts": 4, "num_experts_per_tok": 2}, "MixtralForCausalLM"),
    "gemma": ("Gemma-7b", {**GROUPED, "head_size": 8}, GEMMA, "GemmaForCausalLM"),
    "gemma2": ("Gemma-2-2b", {**GROUPED, "head_size": 8, "attention_scores_scalar": 8}, {**GEMMA, "sliding_window": 4096}, "Gemma2ForCausalLM"),
    "gemma3_text": ("Gemma-3-1b-it", {**GROUPED, **ROTATED, "head_size": 8, "attention_scores_scalar": 8, "rope_local_base_freq": 10000},
                    {**GEMMA, "sliding_window": 512, "rope_local_base_freq": 10000.0}, "Gemma3ForCausalLM"),
    "qwen2": ("Qwen2.5-1.5B", {**GROUPED, **ROTATED}, {"rms_norm_eps": 1e-6}, "Qwen2ForCausalLM"),
    "qwen3": ("Qwen3-4B", {**GROUPED, **ROTATED, "head_size": 8}, {"rms_norm_eps": 1e-6}, "Qwen3ForCausalLM"),
    "qwen3_moe": ("Qwen3-30B-A3B", {**GROUPED, **ROTATED, "head_size": 8, "moe_intermediate_size": 24, "n_expert": 4, "n_expert_per_token": 2},
                  {"rms_norm_eps": 1e-6, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True,
                   "decoder_sparse_step": 1, "mlp_only_layers": []}, "Qwen3MoeForCausalLM"),
    "olmo2": ("OLMo-2-1124-7B", {**ROTATED, "n_query_groups": 4, "intermediate_size": 48}, {"num_key_value_heads": 4, "rms_norm_eps": 1e-6}, "Olmo2ForCausalLM"),
    "phi": ("phi-2", {"intermediate_size": 48, "rotary_percentage": 0.5},
            {"num_key_value_heads": 4, "partial_rotary_factor": 0.5, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5}, "PhiForCausalLM"),
    "gpt_neox": ("pythia-160m", {"intermediate_size": 48}, {"rotary_pct": 0.25, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}, "GPTNeoXForCausalLM"),
}  # fmt: skip


@pytest.mark.parametrize("family", LITGPT)
def test_litgpts_own_model(tmp_path, family):
    torch, _ = library("litgpt")
    from litgpt import GPT, Config
    from litgpt.scripts.convert_lit_checkpoint import convert_lit_checkpoint
    from litgpt.utils import save_config

    name, smaller, other, architecture = LITGPT[family]
    config = Config.from_name(name, n_layer=2, n_embd=32, n_head=4, block_size=32, vocab_size=60, padded_vocab_size=64, **smaller)
    theirs = drawn(GPT(config))
    fields = {**SIZES, **other, "model_type": family, "architectures": [architecture]}
    if fields["tie_word_embeddings"]:
        theirs.lm_head.weight.data = theirs.transformer.wte.weight.data.clone()
    state = theirs.state_dict()
    model = regauge.from_state_dict(state, fields, layout="litgpt")
    with torch.no_grad():
        assert computes(model, theirs(torch.arange(12)[None]), tmp_path)
    if family == "olmo2":
        return  # its converter of LitGPT 0.5.13 does not know post_attention_norm, which its model has
    torch.save({"model": state}, tmp_path / "lit_model.pth")
    save_config(config, tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        convert_lit_checkpoint(tmp_path, tmp_path / "written")
    written = torch.load(tmp_path / "written" / "model.pth")
    assert regauge.diff(regauge.from_state_dict(written, fields), model).statement == "identical"
    # A vocabulary that is padded, as LitGPT's is unless it is told otherwise.
    cut = regauge.from_state_dict(state, {**fields, "vocab_size": 60}, layout="litgpt")
    assert cut.parameters["embed.tokens"].shape == (60, 32)
    assert (cut.parameters["embed.tokens"] == model.parameters["embed.tokens"][:60]).all()
