"""BASE+ADAPTER, judged by PEFT: its own merges, its own forward pass, and merges that went wrong."""

import contextlib
import json
import logging
import shutil
import types

import peft
import pytest
import safetensors.torch
import torch
import transformers

SIZES = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}  # fmt: skip
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def configs():
    return {
        "llama": transformers.LlamaConfig(**SIZES, tie_word_embeddings=False),
        "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=False),
        "phi3": transformers.Phi3Config(**SIZES, pad_token_id=0, tie_word_embeddings=False),
        "gpt2": transformers.GPT2Config(vocab_size=96, n_positions=64, n_embd=32, n_layer=2, n_head=4),
        "qwen3_moe": transformers.Qwen3MoeConfig(
            **SIZES, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2, head_dim=8, tie_word_embeddings=False
        ),
        "mixtral": transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False),
        "gemma4_text": transformers.Gemma4TextConfig(
            **SIZES, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24, head_dim=8, global_head_dim=16,
            num_global_key_value_heads=1, hidden_size_per_layer_input=0, num_kv_shared_layers=0, attention_k_eq_v=True, sliding_window=8,
            layer_types=["sliding_attention", "full_attention"],
        ),
    }


CASES = {
    "dense": ("llama", {"target_modules": ALL}),
    "rslora": ("llama", {"target_modules": ALL, "use_rslora": True}),
    "patterns": (
        "llama",
        {
            "target_modules": ALL,
            "rank_pattern": {"layers.0.self_attn.q_proj": 2, "down_proj": 6},
            "alpha_pattern": {r"^model\.layers\.1\.mlp\.up_proj": 20, "v_proj": 3},
        },
    ),
    "head and embedding": ("llama", {"target_modules": ["q_proj", "embed_tokens", "lm_head"]}),
    "a head of its own": ("llama", {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}),
    "biases": ("qwen2", {"target_modules": ["q_proj", "v_proj"], "bias": "lora_only"}),
    "a bias that is added": ("qwen2", {"target_modules": ["q_proj", "v_proj"], "lora_bias": True}),
    "dora": ("llama", {"target_modules": ALL, "use_dora": True}),
    "fused": ("phi3", {"target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}),
    "transposed": ("gpt2", {"target_modules": ["c_attn", "c_proj", "c_fc"], "fan_in_fan_out": True}),
    "transposed dora": ("gpt2", {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True, "use_dora": True}),
    "experts": ("qwen3_moe", {"target_modules": ["q_proj"], "target_parameters": [*EXPERTS, "mlp.gate.weight"]}),
    "experts of mixtral": ("mixtral", {"target_modules": ["q_proj"], "target_parameters": EXPERTS}),
    "experts of another rank": ("qwen3_moe", {"target_modules": ["q_proj"], "target_parameters": EXPERTS, "rank_pattern": {name: 2 for name in EXPERTS}}),
    "experts of gemma 4": ("gemma4_text", {"target_modules": ["q_proj"], "target_parameters": ["experts.gate_up_proj", "experts.down_proj"]}),
}


@contextlib.contextmanager
def quiet():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def merge(base, adapter, out, dtype, **options):
    """As PEFT does it from the two folders."""
    with quiet():
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        of = peft.PeftModel.from_pretrained(model, adapter, autocast_adapter_dtype=options.pop("autocast", True))
        of.merge_and_unload(**options).save_pretrained(out)
    return out


def make(folder, family, options, dtype=torch.float32, rank=3, alpha=12):
    """A base, and an adapter that PEFT made for it; nothing of it is zero."""
    torch.manual_seed(3)
    with quiet():
        model = transformers.AutoModelForCausalLM.from_config(configs()[family], dtype=dtype)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
        model.save_pretrained(folder / "base")
        wrapped = peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=alpha, **options), autocast_adapter_dtype=False)
        for name, parameter in wrapped.named_parameters():
            trained = "lora_" in name or "modules_to_save" in name or parameter.requires_grad
            if trained:
                parameter.data += 0.1 * torch.randn_like(parameter)
        wrapped.save_pretrained(folder / "adapter")
    return types.SimpleNamespace(
        base=folder / "base", adapter=folder / "adapter", both=f"{folder}/base+{folder}/adapter", dtype=dtype, folder=folder
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The models of a case, made once."""
    held = {}

    def get(case, dtype=torch.float32, **more):
        key = (case, dtype, tuple(more.items()))
        if key not in held:
            family, options = CASES[case]
            held[key] = make(tmp_path_factory.mktemp("adapter"), family, options, dtype, **more)
        return held[key]

    return get


def diff(regauge, a, b, same):
    return json.loads(regauge("diff", a, b, "--json", expect=0 if same else 1))


def logits(model):
    tokens = torch.arange(24).reshape(2, 12)
    with torch.no_grad():
        return model.eval()(tokens).logits.float()


def tensors_of(folder):
    return safetensors.torch.load_file(folder / "model.safetensors")


def save(folder, tensors, like):
    shutil.copytree(like, folder)
    safetensors.torch.save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_peft_merges_to_the_same_numbers(regauge, made, tmp_path, case, dtype):
    m = made(case, getattr(torch, dtype))
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    found = diff(regauge, m.both, merged, same=True)
    assert found["statement"] == "same-numbers", found
    # The base alone is another model.
    assert diff(regauge, m.base, merged, same=False)["statement"] == "not-the-same"


@pytest.mark.parametrize("case", ["dense", "fused", "experts", "dora", "a bias that is added"])
def test_written_as_one_it_computes_what_peft_computes(regauge, made, tmp_path, case):
    m = made(case)
    regauge("convert", m.both, "--to", "safetensors", "-o", tmp_path / "out")
    with quiet():
        base = transformers.AutoModelForCausalLM.from_pretrained(m.base)
        alone = logits(base)
        wanted = logits(peft.PeftModel.from_pretrained(base, m.adapter))
        found = logits(transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out"))
    assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert (found - alone).abs().max() > 0.05 * wanted.abs().max()
    assert not list((tmp_path / "out").glob("adapter*"))


@pytest.mark.parametrize("options", [{"safe_merge": True}, {"autocast": False}, {"autocast": False, "safe_merge": True}])
@pytest.mark.parametrize("alpha", [8, 12])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_peft_rounds_on_the_way_is_allowed_for(regauge, made, tmp_path, options, alpha, dtype):
    m = made("dense", getattr(torch, dtype), alpha=alpha)
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype, **options)
    assert diff(regauge, m.both, merged, same=True)["statement"] == "same-numbers"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_more_than_that(regauge, made, tmp_path, dtype):
    """Two units of one number of a merged matrix are told."""
    m = made("dense", getattr(torch, dtype))
    tensors = tensors_of(merge(m.base, m.adapter, tmp_path / "merged", m.dtype))
    changed = tensors["model.layers.1.self_attn.q_proj.weight"]
    unit = torch.finfo(m.dtype).eps
    at = changed.abs().argmax().item() // changed.shape[1], changed.abs().argmax().item() % changed.shape[1]
    changed[at] *= 1 + (4 if dtype == "bfloat16" else 64) * unit
    wrong = save(tmp_path / "wrong", tensors, tmp_path / "merged")
    assert diff(regauge, m.both, wrong, same=False)["statement"] == "not-the-same"


def test_a_name_with_a_plus_keeps_its_meaning(regauge, made, tmp_path):
    m = made("dense")
    shutil.copytree(m.base, tmp_path / "a+b")
    assert diff(regauge, tmp_path / "a+b", m.base, same=True)["statement"] == "identical"
    shutil.copytree(m.adapter, tmp_path / "c+d")
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    assert diff(regauge, f"{tmp_path}/a+b+{tmp_path}/c+d", merged, same=True)["statement"] == "same-numbers"


def test_adapters_add_up(regauge, made, tmp_path):
    m = made("dense")
    merged = merge(m.base, m.adapter, tmp_path / "once", m.dtype)
    merged = merge(merged, m.adapter, tmp_path / "twice", m.dtype)
    assert diff(regauge, f"{m.both}+{m.adapter}", merged, same=True)["statement"] == "same-numbers"


def test_experts_as_peft_wrote_them_before_0_19(regauge, made, tmp_path):
    """lora_A then had the columns of the transposed map; the sum is the same."""

    def before(tensors):
        result = dict(tensors)
        for name in [n for n in tensors if ".experts." in n and "lora_A" in n]:
            a, b = tensors[name], tensors[name.replace("lora_A", "lora_B")]
            result[name] = b.reshape(b.shape[0], -1, 4).permute(2, 1, 0).reshape(-1, b.shape[0])
            result[name.replace("lora_A", "lora_B")] = a.reshape(4, -1, a.shape[1]).permute(2, 1, 0).reshape(a.shape[1], -1)
        return result

    m = made("experts")
    adapter = edited(m, tmp_path / "edited", {"peft_version": "0.18.1"}, before)
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    assert diff(regauge, f"{m.base}+{adapter}", merged, same=True)["statement"] == "same-numbers"


def edited(m, folder, config=None, tensors=None):
    """The adapter with some keys of its config, or some tensors, changed."""
    shutil.copytree(m.adapter, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | (config or {})))
    if tensors:
        held = safetensors.torch.load_file(folder / "adapter_model.safetensors")
        safetensors.torch.save_file({k: v.contiguous() for k, v in tensors(held).items()}, folder / "adapter_model.safetensors")
    return folder


def on_delta(m, tmp_path, change):
    """The merged model, with what was added to each tensor changed."""
    merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    wide = tensors_of(merge(m.base, m.adapter, tmp_path / "wide", torch.float32))
    base = {name: value.float() for name, value in tensors_of(m.base).items()}
    wrong = {name: (base[name] + change(name, wide[name] - base[name])).to(m.dtype) for name in base}
    return save(tmp_path / "wrong", wrong, tmp_path / "merged")


def not_applied(m, tmp_path):
    return m.base


def twice(m, tmp_path):
    return merge(merge(m.base, m.adapter, tmp_path / "once", m.dtype), m.adapter, tmp_path / "wrong", m.dtype)


def some_layers(m, tmp_path):
    return on_delta(m, tmp_path, lambda name, d: d if "layers.0" in name else 0 * d)


def rank_stabilised(m, tmp_path):
    return merge(m.base, edited(m, tmp_path / "edited", {"use_rslora": True}), tmp_path / "wrong", m.dtype)


def alpha_ignored(m, tmp_path):
    return merge(m.base, edited(m, tmp_path / "edited", {"lora_alpha": 3}), tmp_path / "wrong", m.dtype)


def other_scale(m, tmp_path):
    return merge(m.base, edited(m, tmp_path / "edited", {"lora_alpha": 5}), tmp_path / "wrong", m.dtype)


def on_its_side(m, tmp_path):
    return on_delta(m, tmp_path, lambda name, d: d.T if name.endswith(("q_proj.weight", "o_proj.weight")) else d)


def halves(m, tmp_path):
    swap = lambda d: torch.cat(d.chunk(2)[::-1])  # noqa: E731
    return on_delta(m, tmp_path, lambda name, d: swap(d) if "gate_up_proj" in name else d)


def expert_major(m, tmp_path):
    def repack(tensors):
        experts = [n for n in tensors if ".experts." in n and "lora_B" in n]
        turn = lambda b: b.reshape(b.shape[0], 4, -1).transpose(1, 2).reshape(b.shape)  # noqa: E731
        return tensors | {n: turn(tensors[n]) for n in experts}

    return merge(m.base, edited(m, tmp_path / "edited", tensors=repack), tmp_path / "wrong", m.dtype)


def dropped_experts(m, tmp_path):
    return on_delta(m, tmp_path, lambda name, d: 0 * d if any(f"experts.{e}." in name for e in (0, 2, 3)) else d)


def no_experts(m, tmp_path):
    return on_delta(m, tmp_path, lambda name, d: 0 * d if ".experts." in name else d)


def all_but_one(m, tmp_path):
    """Of the stacked experts' tensors the first gets its sum, the others fall back to the base."""
    return on_delta(m, tmp_path, lambda name, d: 0 * d if ".experts." in name and "layers.0.experts.gate_up" not in name else d)


def scaled_by_the_rank_of_the_others(m, tmp_path):
    return on_delta(m, tmp_path, lambda name, d: d * 2 / 3 if ".experts." in name else d)


def another_base(m, tmp_path):
    torch.manual_seed(5)
    tensors = {n: t + 0.02 * t.std() * torch.randn_like(t) for n, t in tensors_of(m.base).items()}
    return merge(save(tmp_path / "other", tensors, m.base), m.adapter, tmp_path / "wrong", m.dtype)


MISTAKES = [
    ("dense", not_applied, "adapter-missing", "layers.*.attn.q.weight"),
    ("dense", twice, "adapter-doubled", "twice"),
    ("dense", some_layers, "adapter-missing", "layers.1.attn.q.weight"),
    ("dense", rank_stabilised, "adapter-scale", "rsLoRA"),
    ("dense", alpha_ignored, "adapter-scale", "alpha and r ignored"),
    ("dense", other_scale, "adapter-scale", "0.42 times"),
    ("dense", on_its_side, "adapter-transposed", "transposed"),
    ("fused", halves, "adapter-halves", "gate and to up"),
    ("transposed", not_applied, "adapter-missing", "not applied"),
    ("experts", expert_major, "adapter-experts", "lora_B"),
    ("experts", dropped_experts, "adapter-missing", "3 of 4 experts: 0, 2-3"),
    ("experts of mixtral", no_experts, "adapter-missing", "ffn.down.weight"),
    ("experts of another rank", scaled_by_the_rank_of_the_others, "adapter-scale", "0.67 times"),
    ("experts of gemma 4", expert_major, "adapter-experts", "lora_B"),
    ("experts of gemma 4", all_but_one, "adapter-missing", "layers.*.ffn.down.weight"),
    ("experts of gemma 4", no_experts, "adapter-missing", "ffn.down.weight"),
    ("dora", not_applied, "adapter-missing", "not applied"),
]


@pytest.mark.parametrize("case, mistake, name, words", MISTAKES, ids=[f"{m[0]} {m[1].__name__}" for m in MISTAKES])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_wrong_merge_is_named_and_put_right(regauge, made, tmp_path, case, mistake, name, words, dtype):
    m = made(case, getattr(torch, dtype))
    wrong = mistake(m, tmp_path)
    found = diff(regauge, m.both, wrong, same=False)
    causes = found["diagnosis"]["causes"]
    assert {cause["mistake"] for cause in causes} == {name}, causes
    assert any(words in cause["sentence"] for cause in causes), causes
    # To undo these in 16 bits takes a number that was rounded from one that was rounded.
    assert found["diagnosis"]["certain"] or (mistake in (twice, expert_major) and dtype == "bfloat16"), found["diagnosis"]
    if dtype == "float32":
        regauge("diff", m.both, wrong, "--repair", "-o", tmp_path / "repaired", expect=1)
        right = merge(m.base, m.adapter, tmp_path / "right", m.dtype)
        for n, value in tensors_of(right).items():
            assert (tensors_of(tmp_path / "repaired")[n] - value).abs().max() < 1e-6


def test_another_base_is_named(regauge, made, tmp_path):
    m = made("dense")
    diagnosis = diff(regauge, m.both, another_base(m, tmp_path), same=False)["diagnosis"]
    assert "adapter-other-base" in {cause["mistake"] for cause in diagnosis["causes"]}, diagnosis
    assert not diagnosis["certain"] and not diagnosis["repairable"]


def test_a_right_merge_has_no_mistake(regauge, made, tmp_path):
    """Negative control: a trained copy of a right merge is not taken for any of them."""
    m = made("dense")
    torch.manual_seed(6)
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    tensors = {n: t + 0.02 * t.std() * torch.randn_like(t) for n, t in tensors_of(merged).items()}
    wrong = save(tmp_path / "wrong", tensors, merged)
    causes = diff(regauge, m.both, wrong, same=False)["diagnosis"]["causes"]
    assert {cause["mistake"] for cause in causes} <= {"adapter-other-base", "damaged"}


def test_two_merges_are_each_compared_with_their_parts(regauge, made, tmp_path):
    """PEFT and `convert` round differently: each merge is right, and neither explains the other."""
    m = made("dense")
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    regauge("convert", m.both, "--to", "safetensors", "-o", tmp_path / "converted")
    ours, theirs = tensors_of(tmp_path / "converted"), tensors_of(merged)
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)
    for copy in (merged, tmp_path / "converted"):
        assert diff(regauge, m.both, copy, same=True)["statement"] == "same-numbers"
    answer = diff(regauge, merged, tmp_path / "converted", same=False)
    assert answer["statement"] == "not-the-same"
    assert any("BASE+ADAPTER" in reason for reason in answer["reasons"]), answer["reasons"]


REFUSED = {
    "another method": ({"peft_type": "IA3"}, "merge_and_unload"),
    "a start that changes the base": ({"init_lora_weights": "pissa"}, "pissa"),
    "an unknown option": ({"use_something": True}, "use_something"),
    "a rank that is not that of the tensors": ({"r": 5}, "rank"),
    "no alpha": ({"lora_alpha": None}, "lora_alpha"),
    "a pattern that takes long": ({"alpha_pattern": {"(a+)+b": 2}}, "pattern"),
    "patterns that disagree": ({"alpha_pattern": {"q_proj": 2, ".*q_proj": 3}}, "alpha_pattern"),
}


def test_experts_with_a_rank_of_their_own(regauge, made, tmp_path):
    """The config of the whole says another rank: refused with both; with `rank_pattern` it is the adapter that PEFT merges."""
    m = made("experts of another rank")
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    assert diff(regauge, m.both, merged, same=True)["statement"] == "same-numbers"
    adapter = edited(m, tmp_path / "edited", {"rank_pattern": {}})
    with pytest.raises(AssertionError, match="of rank 2, and the config says 3 for each of 4 experts"):
        regauge("diff", f"{m.base}+{adapter}", merged)


@pytest.mark.parametrize("what", REFUSED)
def test_refused_with_a_way_out(regauge, made, tmp_path, what):
    config, words = REFUSED[what]
    m = made("dense")
    adapter = edited(m, tmp_path / "edited", config)
    with pytest.raises(AssertionError, match=words):
        regauge("inspect", f"{m.base}+{adapter}")


def one_factor(tensors):
    return {n: t for n, t in tensors.items() if "layers.0.self_attn.q_proj.lora_A" not in n}


def unknown_module(tensors):
    return {n.replace("layers.1.", "layers.7."): t for n, t in tensors.items()}


def other_width(tensors):
    return {n: t[:, :-1] if "lora_A" in n else t for n, t in tensors.items()}


def foreign(tensors):
    return tensors | {"base_model.model.model.layers.0.mlp.up_proj.hada_w1": torch.zeros(2, 2)}


@pytest.mark.parametrize("change, words", [(one_factor, "only one"), (unknown_module, "counterpart"), (other_width, "make a matrix"), (foreign, "counterpart")])
def test_tensors_that_do_not_fit_are_named(regauge, made, tmp_path, change, words):
    m = made("dense")
    adapter = edited(m, tmp_path / "edited", tensors=change)
    with pytest.raises(AssertionError, match=words):
        regauge("inspect", f"{m.base}+{adapter}")


def test_a_folder_that_is_no_adapter(regauge, made, tmp_path):
    m = made("dense")
    with pytest.raises(AssertionError, match="adapter_config.json"):
        regauge("inspect", f"{m.base}+{m.base}")
    with pytest.raises(AssertionError, match="no such folder"):
        regauge("inspect", f"{m.base}+{tmp_path}/missing")


def test_a_certificate_holds_both(regauge, made, tmp_path):
    m = made("dense")
    merged = merge(m.base, m.adapter, tmp_path / "merged", m.dtype)
    regauge("diff", m.both, merged, "--certificate", tmp_path / "certificate.safetensors")
    regauge("verify", m.both, merged, tmp_path / "certificate.safetensors")
    other = edited(m, tmp_path / "edited", {"lora_alpha": 5})
    regauge("verify", f"{m.base}+{other}", merged, tmp_path / "certificate.safetensors", expect=1)


@pytest.mark.parametrize("case", ["fused", "a head of its own", "biases", "a bias that is added"])
def test_the_adapter_follows_its_base(regauge, made, tmp_path, case):
    m = made(case)
    regauge("act", m.base, "--random", "4", "-o", tmp_path / "moved", "--adapter", m.adapter, "--adapter-output", tmp_path / "adapter")
    with quiet():
        load = transformers.AutoModelForCausalLM.from_pretrained
        wanted = logits(peft.PeftModel.from_pretrained(load(m.base), m.adapter))
        found = logits(peft.PeftModel.from_pretrained(load(tmp_path / "moved"), tmp_path / "adapter"))
        stayed = logits(peft.PeftModel.from_pretrained(load(tmp_path / "moved"), m.adapter))
    assert (found - wanted).abs().max() < 1e-4 * wanted.abs().max()
    assert (stayed - wanted).abs().max() > 1e-2 * wanted.abs().max()


def merged_logits(base, adapter, dtype):
    """By PEFT's merge, with as many digits as both were stored with or more."""
    with quiet():
        model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
        return logits(peft.PeftModel.from_pretrained(model, adapter).merge_and_unload())


@pytest.mark.parametrize("case", ["dense", "rslora", "patterns", "transposed"])
@pytest.mark.parametrize("dtype, digits", [("float32", 1e-4), ("float64", 1e-6), ("bfloat16", 5e-2)])
def test_all_layers_of_an_adapter_follow(regauge, made, tmp_path, case, dtype, digits):
    m = made(case, getattr(torch, dtype))
    followable = ["--only", "residual,scales,norms,heads,qk,vo,ffn"] if case == "transposed" else []
    regauge("act", m.base, "--random", "4", *followable, "-o", tmp_path / "moved",
            "--adapter", m.adapter, "--adapter-output", tmp_path / "adapter")  # fmt: skip
    wide = torch.float64 if dtype == "float64" else torch.float32
    wanted = merged_logits(m.base, m.adapter, wide)
    assert (merged_logits(tmp_path / "moved", tmp_path / "adapter", wide) - wanted).abs().max() < digits * wanted.abs().max()
    assert (merged_logits(tmp_path / "moved", m.adapter, wide) - wanted).abs().max() > 1e-1 * wanted.abs().max()


def test_shifts_that_depend_on_the_sum_are_refused(regauge, made, tmp_path):
    m = made("transposed")
    with pytest.raises(AssertionError, match="depends on the sum"):
        regauge("act", m.base, "--random", "4", "--only", "shifts", "-o", tmp_path / "moved", "--adapter", m.adapter, "--adapter-output", tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize("case, words", [("dora", "DoRA"), ("experts", "experts")])
def test_an_adapter_that_cannot_follow_is_refused(regauge, made, tmp_path, case, words):
    m = made(case)
    with pytest.raises(AssertionError, match=words):
        regauge("act", m.base, "--random", "4", "-o", tmp_path / "moved", "--adapter", m.adapter, "--adapter-output", tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()
    assert not (tmp_path / "moved").exists()
