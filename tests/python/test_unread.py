"""What `diff` does not understand it names, and does not call the same: keys of configs and of GGUF metadata, tensors
that no parameter claims, vocabularies of another length. `test_keys.py` has what `inspect` says of the same files.
(attack: config_fields, ignored_tensors, forged_terminal)"""

import json
import shutil

import numpy as np
import pytest
import torch
import transformers
from conftest import FIXTURES
from doctored import DROPPED, doctored, doctored_gguf, llama, other_tokens, refused, said, saved
from test_keys import outputs

LINEAR = dict(rope_type="linear", factor=4.0)
BASE_500 = dict(rope_type="default", rope_theta=500.0)
CONFIGS = [
    ("llama", dict(is_causal=False)),
    # transformers takes null for false.
    ("llama", dict(is_causal=None)),
    ("gpt2", dict(is_causal=None)),
    ("gpt_neox", dict(is_causal=None)),
    ("deepseek_v3", dict(norm_topk_prob=None)),
    ("deepseek_v3", dict(rope_interleave=None)),
    ("t5-tied", dict(scale_decoder_outputs=None)),
    ("mistral", dict(is_causal=False)),
    ("qwen2", dict(is_causal=False)),
    ("qwen3", dict(is_causal=False)),
    ("gemma", dict(is_causal=False)),
    ("gpt2", dict(is_causal=False)),
    ("gpt_neox", dict(is_causal=False)),
    ("llama", dict(rope_parameters=BASE_500)),
    ("llama", dict(rope_scaling=LINEAR)),
    ("llama", dict(rope_parameters={"type": "linear", "factor": 4.0, "rope_theta": 10000.0})),
    ("llama", dict(rope_theta=10000.0, rope_parameters=DROPPED, rope_scaling=LINEAR)),
    ("llama", dict(rope_theta=DROPPED, rope_scaling=BASE_500)),
    ("llama", dict(hidden_act="gelu")),
    ("gpt2", dict(scale_attn_by_inverse_layer_idx=True)),
    ("gpt2", dict(scale_attn_weights=False)),
    ("gpt_neox", dict(use_parallel_residual=False)),
    ("mistral", dict(sliding_window=4)),
]


@pytest.mark.parametrize(("name", "keys"), CONFIGS, ids=lambda case: case if isinstance(case, str) else "+".join(case))
def test_a_key_that_changes_the_outputs(tmp_path, name, keys):
    """The tensors are A's own. Spellings that disagree are refused: test_keys.py."""
    b = doctored(FIXTURES / name, tmp_path / "b", **keys)
    after = outputs(b)
    assert after is None or not torch.equal(after, outputs(FIXTURES / name))
    if refused(FIXTURES / name, b) is None:
        answer = said(FIXTURES / name, b)
        assert answer["statement"] in ("not-the-same", "undecided")
        assert answer["reasons"] or answer["diagnosis"]["causes"]


@pytest.mark.parametrize("name", ["bert-classes", "bert-words", "roberta-classes", "distilbert-classes"])
def test_names_of_the_classes(tmp_path, name):
    """The logits are equal, and every prediction is called otherwise."""
    labels = json.loads((FIXTURES / name / "config.json").read_text())["id2label"]
    rolled = dict(zip(labels, [*list(labels.values())[1:], labels["0"]]))
    b = doctored(FIXTURES / name, tmp_path / "b", id2label=rolled)
    answer = said(FIXTURES / name, b)
    assert answer["statement"] == "undecided"
    assert "class 0 is" in answer["reasons"][0]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("llama", dict(use_cache=False, _name_or_path="x", attention_dropout=0.5)),
        ("llama", dict(is_causal=True, pretraining_tp=1)),
        ("gpt2", dict(resid_pdrop=0.0, summary_type="mean")),
        ("bert-mlm", dict(gradient_checkpointing=True)),
    ],
)
def test_a_key_that_changes_nothing(tmp_path, name, keys):
    assert said(FIXTURES / name, doctored(FIXTURES / name, tmp_path / "b", **keys))["statement"] == "identical"


def test_a_key_that_is_not_understood_but_equal(regauge, tmp_path):
    """In place the function is the same whatever it means; of a moved copy nobody can say."""
    a = doctored(FIXTURES / "llama", tmp_path / "a", is_causal=False)
    b = shutil.copytree(a, tmp_path / "b")
    assert said(a, b)["statement"] == "identical"
    regauge("act", a, "-o", tmp_path / "moved", "--random", 1)
    answer = said(a, tmp_path / "moved")
    assert answer["statement"] == "undecided"
    assert "is_causal" in json.dumps(answer["reasons"])


GGUF = FIXTURES / "llama-gguf" / "model.gguf"
METADATA = {
    "llama.rope.scaling.attn_factor": 2.0,
    "llama.attention.scale": 0.5,
    "llama.logit_scale": 0.25,
    "llama.attn_logit_softcapping": 5.0,
    "llama.attention.causal": False,
    "llama.expert_weights_scale": 3.0,
    "llama.residual_scale": 0.5,
    "llama.embedding_scale": 4.0,
    "llama.rope.scaling.yarn_ext_factor": 1.0,
    "llama.attention.clamp_kqv": 0.5,
    "llama.use_parallel_residual": True,
    "llama.rope.freq_base_swa": 3.0,
    "llama.attention.temperature_scale": 2.0,
}


@pytest.mark.parametrize("key", METADATA)
def test_metadata_of_one_file_alone(tmp_path, key):
    b = doctored_gguf(GGUF, tmp_path / "b.gguf", fields={key: METADATA[key]})
    for one, other in ((GGUF, b), (b, GGUF)):
        answer = said(one, other)
        assert answer["verdict"] != "same" and key in json.dumps(answer["reasons"])
    c = doctored_gguf(b, tmp_path / "c.gguf")
    assert said(b, c)["statement"] == "identical"


def test_a_rope_factor_without_a_type(tmp_path):
    for number, fields in enumerate(({}, {"llama.rope.scaling.type": "linear"})):
        b = doctored_gguf(GGUF, tmp_path / f"{number}.gguf", fields={"llama.rope.scaling.factor": 4.0, **fields})
        answer = said(GGUF, b)
        assert answer["statement"] == "not-the-same"
        assert [cause["mistake"] for cause in answer["diagnosis"]["causes"]] == ["rope"]
    assert said(tmp_path / "0.gguf", tmp_path / "1.gguf")["statement"] == "identical"


WIDTH = 24  # of all query heads of the fixture
EXTRA = {
    "a query bias in one layer": {"blk.1.attn_q.bias": np.full(WIDTH, 3, np.float32)},
    "frequencies of one layer": {"blk.1.rope_freqs.weight": np.full(3, 4, np.float32)},
    "frequencies": {"rope_freqs.weight": np.full(3, 4, np.float32)},
}


@pytest.mark.parametrize("extra", EXTRA)
def test_a_tensor_of_one_file_alone(tmp_path, extra):
    b = doctored_gguf(GGUF, tmp_path / "b.gguf", tensors=EXTRA[extra])
    answer = said(GGUF, b)
    assert answer["verdict"] != "same"
    if extra != "frequencies":
        assert next(iter(EXTRA[extra])) in json.dumps(answer["reasons"])


def test_a_tensor_that_no_parameter_claims(tmp_path):
    """Equal in both it changes nothing; another one does."""
    extra = EXTRA["a query bias in one layer"]
    b = doctored_gguf(GGUF, tmp_path / "b.gguf", tensors=extra)
    equal = doctored_gguf(GGUF, tmp_path / "c.gguf", tensors=extra)
    other = doctored_gguf(GGUF, tmp_path / "d.gguf", tensors={name: -data for name, data in extra.items()})
    assert said(b, equal)["statement"] == "identical"
    answer = said(b, other)
    assert answer["verdict"] != "same" and "blk.1.attn_q.bias" in json.dumps(answer["reasons"])


BERT = dict(vocab_size=48, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4)


@pytest.mark.parametrize(
    ("loader", "part", "parameter"),
    [
        (transformers.BertModel, "pooler", "head.pooler.weight"),
        (transformers.BertForPreTraining, "seq_relationship", "head.classes.weight"),
    ],
)
def test_another_pooler_or_head(tmp_path, loader, part, parameter):
    torch.manual_seed(0)
    made = saved(loader(transformers.BertConfig(**BERT, max_position_embeddings=32)), tmp_path / "made")
    known = "BertModel" if loader is transformers.BertModel else "BertForMaskedLM"
    a = doctored(made, tmp_path / "a", architectures=[known])
    changed = []

    def change(tensors):
        for name in tensors:
            if part in name:
                tensors[name] = torch.randn_like(tensors[name])
                changed.append(name)

    b = doctored(a, tmp_path / "b", change)
    assert changed
    answer = said(a, b, "--certificate", tmp_path / "proof.safetensors")
    assert answer["verdict"] != "same" and parameter in json.dumps(answer)
    assert not (tmp_path / "proof.safetensors").exists()
    assert said(a, shutil.copytree(a, tmp_path / "c"))["statement"] == "identical"


# Vocabularies of another length.

TABLES = ("model.embed_tokens.weight", "lm_head.weight")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return llama(tmp_path_factory.mktemp("words") / "a")


def with_tokens(rows):
    def change(tensors):
        for name in TABLES:
            tensors[name] = torch.cat([tensors[name], rows * (name == "lm_head.weight")])

    return change


@pytest.mark.parametrize("count", [1, 8])
def test_tokens_that_win(words, tmp_path, count):
    rows = 30 * torch.randn(count, 32, generator=torch.Generator().manual_seed(2)) / 32**0.5
    b = doctored(words, tmp_path / "b", with_tokens(rows), vocab_size=128 + count)
    assert other_tokens(words, b) > 0.1
    for one, other in ((words, b), (b, words)):
        answer = said(one, other, "--certificate", tmp_path / "proof.safetensors")
        assert answer["verdict"] != "same"
        assert not (tmp_path / "proof.safetensors").exists()


def test_half_of_the_vocabulary(words, tmp_path):
    halved = lambda tensors: tensors.update({name: tensors[name][:64] for name in TABLES})  # noqa: E731
    b = doctored(words, tmp_path / "b", halved, vocab_size=64)
    for one, other in ((words, b), (b, words)):
        answer = said(one, other)
        assert answer["verdict"] != "same" and "64" in json.dumps(answer["reasons"] + answer["declarations"])


def test_rows_of_zero_are_not_silently_padding(words, tmp_path):
    """A token whose logit is always 0 takes its share of the softmax."""
    b = doctored(words, tmp_path / "b", with_tokens(torch.zeros(8, 32)), vocab_size=136)
    answer = said(words, b)
    assert answer["verdict"] != "same" or answer["declarations"]


# An index, and what stands beside the weights.


def test_an_index_that_names_a_tensor_in_two_files(tmp_path):
    """Two files hold each tensor, and the index takes them from here and there."""
    a = FIXTURES / "llama-sharded"
    b = shutil.copytree(a, tmp_path / "b")
    index = json.loads((b / "model.safetensors.index.json").read_text())
    first, second = sorted(set(index["weight_map"].values()))[:2]
    moved = next(name for name, file in index["weight_map"].items() if file == first)
    index["weight_map"][moved] = second
    (b / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refused(a, b)


def test_what_was_not_compared_is_said(regauge, tmp_path):
    a = FIXTURES / "llama"
    assert said(a, a)["not_compared"] == []
    b = shutil.copytree(a, tmp_path / "b")
    beside = ("tokenizer.json", "generation_config.json", "modeling_llama.py", "chat_template.jinja",
              "pytorch_model.bin", "model.safetensors.index.json", "adapter_model.safetensors")  # fmt: skip
    for name in beside:
        (b / name).write_text("{}")
    answer = said(a, b)
    assert answer["statement"] == "identical"
    text = " ".join(answer["not_compared"])
    assert all(name in text for name in beside), text
    assert "not compared" in regauge("diff", a, b)


def test_attention_from_elsewhere(tmp_path):
    """transformers loads the code of another repository for it."""
    a = FIXTURES / "llama"
    answer = said(a, doctored(a, tmp_path / "b", _attn_implementation_internal="someone/kernel"))
    assert answer["statement"] == "undecided" and "someone/kernel" in json.dumps(answer["reasons"])
    assert said(a, doctored(a, tmp_path / "c", attn_implementation="sdpa"))["statement"] == "identical"


def test_generation_settings_of_a_config(tmp_path):
    a = FIXTURES / "llama"
    answer = said(a, doctored(a, tmp_path / "b", bad_words_ids=[[7]], custom_pipelines={}))
    assert answer["statement"] == "identical"
    text = " ".join(answer["not_compared"])
    assert "generation settings of the configs" in text and "custom_pipelines (code) (in B)" in text


def test_the_type_that_a_model_is_loaded_in_is_said(tmp_path):
    """transformers loads the same numbers as float16, unless it is told otherwise."""
    a = doctored(FIXTURES / "llama", tmp_path / "a", dtype="float32")
    b = doctored(FIXTURES / "llama", tmp_path / "b", dtype="float16")
    loaded = [transformers.AutoModelForCausalLM.from_pretrained(folder).dtype for folder in (a, b)]
    assert loaded == [torch.float32, torch.float16]
    answer = said(a, b)
    assert answer["statement"] == "identical"
    assert "the dtype that A is loaded in (float32) and that of B (float16)" in " ".join(answer["not_compared"])
    assert said(a, a)["not_compared"] == []


def test_a_tensor_more_is_in_the_text_and_on_the_page(regauge, tmp_path):
    name = "model.layers.0.backdoor.weight"
    b = doctored(FIXTURES / "llama", tmp_path / "b", lambda tensors: tensors.update({name: torch.ones(4)}))
    assert name in regauge("diff", FIXTURES / "llama", b, "--html", tmp_path / "page.html", expect=1)
    assert name in (tmp_path / "page.html").read_text()


def test_act_names_what_it_does_not_understand(regauge, tmp_path):
    odd = doctored(FIXTURES / "llama", tmp_path / "odd", final_logit_squeezing=30.0)
    assert "'final_logit_squeezing' is not understood" in regauge.messages("act", odd, "-o", tmp_path / "moved", "--random", 1)
    assert regauge.messages("act", FIXTURES / "llama", "-o", tmp_path / "plain", "--random", 1).count("understood") == 0
