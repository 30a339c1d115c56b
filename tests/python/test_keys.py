"""Nothing of a file is skipped in silence: what changes the output of transformers, or what llama.cpp reads, is read,
refused, or named by `regauge inspect`."""

import copy
import json
import os
import shutil
import subprocess

import gguf
import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES
from declared import declared_outputs
from pictures import reads_pictures_in_text, reads_tokens, text_of, with_picture
from sounds import sound_of
from towers import ended, ends_with_eos, has_towers, image_of

transformers.utils.logging.set_verbosity(50)
transformers.utils.logging.disable_progress_bar()

FAMILIES = [
    "llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3", "gemma4_text", "gemma4_text-experts", "gemma4_text-tables", "olmo2", "phi", "cohere", "gpt2",
    "qwen3_moe", "qwen3_moe-dense", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "glm4_moe", "dots1", "deepseek_v3", "deepseek_v3-direct", "deepseek_v3-yarn", "mixtral", "olmoe", "qwen2_moe", "gpt_oss",
    "t5", "t5-tied", "t5-encoder", "mt5", "bart", "marian", "marian-separate", "mbart", "pegasus", "m2m_100", "whisper", "wav2vec2", "wav2vec2-stable", "hubert", "hubert-stable",
    "olmo3", "glm4", "exaone4", "exaone4-full", "cohere2", "vaultgemma",
    "deepseek_v2", "deepseek_v2-direct", "deepseek_v2-grouped", "granitemoe", "ernie4_5_moe", "minimax_m2",
    "gpt_neox", "bert-mlm", "vit", "phi3", "bert-pretraining", "bert-classes", "bert-words", "roberta-classes",
    "dinov3_vit", "dinov3_vit-gated", "deit", "deit-hidden", "beit", "beit-shared", "beit-absolute",
    "distilbert-classes", "vit-hidden", "dinov2", "dinov2-swiglu", "dinov2_with_registers", "dinov2_with_registers-swiglu",
    "llava", "idefics3", "smolvlm", "gemma3-vision", "gemma4", "gemma4-experts", "gemma4-audio", "qwen2_5_vl", "qwen3_5", "qwen2_vl", "mistral3", "internvl", "internvl-qwen3", "clip_text_model",
    "clip_text_model-projected", "clip", "siglip", "siglip_text_model", "siglip_vision_model",
    "starcoder2", "stablelm", "seed_oss", "ernie4_5", "helium", "ministral", "qwen2-sliding", "qwen3-sliding",
    "granite", "glm", "opt", "bloom", "mpt", "gpt_bigcode", "roberta", "xlm-roberta", "camembert", "distilbert",
    "modernbert", "modernbert-classes", "modernbert-hidden", "esm", "esm-dropout", "esm-dropout-hidden", "albert", "albert-pretraining", "albert-hidden",
    "albert-classes",
    "mpnet", "roberta-prelayernorm", "xlm-roberta-xl", "megatron-bert", "electra-discriminator",
    "electra", "eurobert", "nomic_bert", "gte", "jina_embeddings_v3", "biogpt", "openai-gpt", "ernie", "data2vec-text",
    "gptj", "codegen", "falcon", "falcon-grouped", "falcon-grouped-one-norm",
    "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe", "umt5", "umt5-encoder", "ministral3", "nemotron", "arcee",
]  # fmt: skip
DROPPED = "(dropped)"


def looked_at(folder):
    """What `inspect` says, or None with the message where it refuses the file."""
    done = subprocess.run(
        [os.environ["REGAUGE"], "inspect", str(folder), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        assert done.returncode == 2, done.stderr
        return None, done.stderr
    return json.loads(done.stdout), ""


def outputs(folder):
    """What transformers computes; None where it refuses the folder."""
    try:
        with torch.no_grad():
            config = transformers.AutoConfig.from_pretrained(folder)
            loader = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0])
            model, problems = loader.from_pretrained(
                folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager",
                output_loading_info=True,
            )
            if problems["missing_keys"] or problems["mismatched_keys"]:
                return None
            model.eval()
            generator = torch.Generator().manual_seed(1)
            sound = sound_of(config, 2, 1)
            if sound is not None and not config.is_encoder_decoder:
                return declared_outputs(model, **sound)
            if not reads_tokens(config):
                shape = (2, config.num_channels, config.image_size, config.image_size)
                return declared_outputs(model, torch.randn(shape, generator=generator, dtype=torch.float64))
            given = {"input_ids": torch.randint(0, text_of(config).vocab_size, (2, 40), generator=generator)}
            if ends_with_eos(config):
                given["input_ids"] = ended(config, given["input_ids"])
            if has_towers(config):
                given["pixel_values"] = image_of(config, 2)
            if reads_pictures_in_text(config):
                given = with_picture(config, given["input_ids"])
            if model.config.is_encoder_decoder:
                given["decoder_input_ids"] = given["input_ids"].flip(1)[:, :30]
            if sound is not None:
                given = {**sound, "decoder_input_ids": given["decoder_input_ids"]}
            return declared_outputs(model, **given)
    except Exception:  # whatever a config that makes no sense leads to
        return None


class Original:
    def __init__(self, name, folder):
        self.folder = folder / name
        shutil.copytree(FIXTURES / name, self.folder)
        self.config = json.loads((self.folder / "config.json").read_text())
        self.outputs = outputs(self.folder)
        assert self.outputs is not None
        self.read, _ = looked_at(self.folder)

    def changed(self, changes, even_if_told=True):
        """Is the change told, and does it change the output? (The last is None where transformers refuses, or where
        nobody asks.)"""
        config = copy.deepcopy(self.config)
        for key, value in changes.items():
            if value == DROPPED:
                config.pop(key, None)
            else:
                config[key] = value
        (self.folder / "config.json").write_text(json.dumps(config))
        read, message = looked_at(self.folder)
        told = (
            read is None
            or read["architecture"] != self.read["architecture"]
            or read["not_understood"] != self.read["not_understood"]
            or read["apart_keys"] != self.read["apart_keys"]
        )
        after = outputs(self.folder) if even_if_told or not told else None
        (self.folder / "config.json").write_text(json.dumps(self.config))
        if after is None:
            return told, None, message
        same = after.shape == self.outputs.shape and (after - self.outputs).abs().max() < 1e-9
        return told, not same, message


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    known = {}

    def get(name):
        if name not in known:
            known[name] = Original(name, tmp_path_factory.mktemp("keys"))
        return known[name]

    return get


# Keys that some family, fork or version reads.
FOREIGN = dict(
    attention_bias=True,
    mlp_bias=True,
    qkv_bias=False,
    use_qk_norm=True,
    sliding_window=8,
    use_sliding_window=True,
    layer_types=["sliding_attention", "full_attention"],
    partial_rotary_factor=0.5,
    rotary_pct=0.5,
    rope_theta=77.0,
    rotary_emb_base=77,
    rope_scaling=dict(rope_type="linear", factor=3.0),
    rope_parameters=dict(rope_type="linear", rope_theta=77.0, factor=3.0),
    attention_multiplier=0.3,
    embedding_multiplier=3.0,
    logits_scaling=3.0,
    attn_logit_softcapping=2.0,
    final_logit_softcapping=2.0,
    query_pre_attn_scalar=7,
    no_rope_layers=[0, 1],
    tie_word_embeddings=True,
    is_causal=False,
    use_bidirectional_attention=True,
    scale_attn_by_inverse_layer_idx=True,
    scale_attn_weights=False,
    reorder_and_upcast_attn=True,
    add_cross_attention=True,
    is_decoder=True,
    use_parallel_residual=False,
    clip_qkv=0.1,
    head_dim=8,
    hidden_act="relu",
    hidden_activation="relu",
    activation_function="relu",
    activation="relu",
    afn="relu",
    layer_norm_eps=0.1,
    rms_norm_eps=0.1,
    layer_norm_epsilon=0.1,
    logit_scale=0.3,
    position_embedding_type="relative_key",
    pooler_act="relu",
    num_key_value_heads=1,
    pruned_heads={"0": [1]},
    per_layer_config={"0": {"hidden_act": "relu"}},
    original_max_position_embeddings=8,
)


def variations(value):
    yield DROPPED
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value * 2
    elif isinstance(value, float):
        yield value * 3 + 0.01
    elif value is None:
        yield 2
    elif isinstance(value, dict):
        for key, part in value.items():
            for other in variations(part):
                yield {k: v for k, v in {**value, key: other}.items() if v != DROPPED}
        yield {**value, "rope_type": "linear", "factor": 3.0}
        yield {**value, "type": "linear", "factor": 3.0}
        yield {**value, "partial_rotary_factor": 0.5}
        yield {**value, "attention_factor": 3.0}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_changes_the_output_is_told(original, name):
    """One key of a config at a time, dropped or changed."""
    base = original(name)
    tries = [(key, new) for key, value in base.config.items() for new in variations(value)]
    tries += [(key, new) for key, new in FOREIGN.items() if base.config.get(key) != new]
    if text := base.config.get("text_config"):
        tries += [("text_config", {**text, key: new}) for key, new in FOREIGN.items() if text.get(key) != new]
    if name in ("clip", "siglip"):
        vision = base.config["vision_config"]
        tries += [("vision_config", {**vision, key: new}) for key, new in FOREIGN.items() if vision.get(key) != new]
        tries += [("vision_config_dict", {}), ("text_config_dict", {}), ("vision_config_dict", {**vision, "hidden_act": "relu"})]
    changed, silent = 0, []
    for key, new in tries:
        if key in ("architectures", "model_type", "dtype", "transformers_version", "id2label", "label2id"):
            continue
        if key.endswith("_config") and new == DROPPED:  # a model of the real size, and in the file's tensors another one
            continue
        told, other, _ = base.changed({key: new}, even_if_told=changed < 5)
        changed += bool(other)
        if other and not told:
            silent.append((key, new))
    assert not silent
    assert changed >= 2  # else nothing was tried


OLD_LLAMA = dict(rope_parameters=DROPPED, rope_theta=10000.0)
OLD_NEOX = dict(rope_parameters=DROPPED, rotary_pct=0.5, rotary_emb_base=10000)
BASE_500 = dict(rope_type="default", rope_theta=500.0)
TWO_TYPES = dict(type="linear", rope_type="default", factor=4.0)
LINEAR = dict(rope_type="linear", factor=4.0)
# Two spellings, each of which is named by the refusal, with what transformers makes of them.
DISAGREEING = [
    ("llama", dict(rope_theta=500.0), "rope_theta", "rope_parameters/rope_theta"),
    ("llama", {**OLD_LLAMA, "rope_scaling": BASE_500}, "rope_theta", "rope_scaling/rope_theta"),
    ("llama", dict(rope_scaling=LINEAR), "rope_scaling/rope_type", "rope_parameters/rope_type"),
    ("llama", {**OLD_LLAMA, "rope_scaling": TWO_TYPES}, "rope_scaling/type", "rope_scaling/rope_type"),
    ("llama", dict(rope_parameters=TWO_TYPES), "rope_parameters/type", "rope_parameters/rope_type"),
    ("llama", dict(rope_scaling=dict(rope_type="default")), "rope_parameters/rope_theta", "rope_scaling"),
    ("gpt_neox", dict(rotary_pct=1.0), "rotary_pct", "rope_parameters/partial_rotary_factor"),
    ("gpt_neox", dict(rotary_emb_base=500), "rotary_emb_base", "rope_parameters/rope_theta"),
    ("gpt_neox", {**OLD_NEOX, "rope_theta": 500.0}, "rope_theta", "10000"),
    ("gpt_neox", {**OLD_NEOX, "partial_rotary_factor": 0.25}, "partial_rotary_factor", "0.5"),
]


@pytest.mark.parametrize(("name", "changes", "first", "second"), DISAGREEING)
def test_spellings_that_disagree_are_refused(original, name, changes, first, second):
    told, _, message = original(name).changed(changes)
    assert told
    assert f"'{first}'" in message and second in message and "transformers" in message


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {}),
        ("llama", dict(rope_theta=10000.0)),
        ("llama", dict(rope_scaling=None, torch_dtype="bfloat16", use_cache=False, _name_or_path="x")),
        ("llama", dict(is_causal=True, pretraining_tp=1, attention_dropout=0.5)),
        ("gemma", dict(hidden_act="gelu", hidden_activation=None)),
        ("gpt2", dict(n_ctx=48, task_specific_params={"a": 1}, resid_pdrop=0.0)),
        ("bert-mlm", dict(gradient_checkpointing=False, position_embedding_type="absolute")),
    ],
)
def test_what_transformers_writes_is_understood(original, name, changes):
    told, changed, message = original(name).changed(changes)
    assert not changed
    assert not told, message


def test_another_file_of_weights_is_refused(original):
    told, _, message = original("llama").changed(dict(transformers_weights="other.safetensors"))
    assert told and "other.safetensors" in message


def test_a_head_beside_a_tie_is_refused(original, tmp_path):
    """transformers 5 does not tie two tensors that differ; 4 took the table for both."""
    told, changed, message = original("llama").changed(dict(tie_word_embeddings=True))
    assert told and not changed
    assert "lm_head.weight" in message and "transformers 5" in message


def rewritten(source, target, fields=(), tensors=()):
    """A GGUF file with other metadata and more tensors."""
    reader = gguf.GGUFReader(str(source))
    writer = gguf.GGUFWriter(str(target), reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, field.contents())
        else:
            writer.add_key_value(key, field.contents(), field.types[0])
    for key, value in dict(fields).items():
        kinds = {bool: gguf.GGUFValueType.BOOL, float: gguf.GGUFValueType.FLOAT32, str: gguf.GGUFValueType.STRING}
        writer.add_key_value(key, value, kinds[type(value)])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    for name, data in dict(tensors).items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


GGUF = FIXTURES / "llama-gguf" / "model.gguf"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.rope.scaling.attn_factor", 2.0),
        ("llama.attention.scale", 0.5),
        ("llama.logit_scale", 0.25),
        ("llama.attn_logit_softcapping", 5.0),
        ("llama.attention.causal", False),
        ("llama.expert_weights_scale", 3.0),
        ("llama.residual_scale", 0.5),
        ("llama.embedding_scale", 4.0),
        ("llama.rope.scaling.yarn_ext_factor", 1.0),
        ("llama.attention.clamp_kqv", 0.5),
        ("llama.use_parallel_residual", True),
        ("llama.rope.freq_base_swa", 3.0),
        ("llama.attention.temperature_scale", 2.0),
    ],
)
def test_metadata_that_is_not_understood_is_named(tmp_path, key, value):
    read, _ = looked_at(rewritten(GGUF, tmp_path / "b.gguf", {key: value}))
    assert read["not_understood"] == {key: value}


def test_a_factor_without_a_type_is_linear(tmp_path):
    before, _ = looked_at(GGUF)
    for key in ("llama.rope.scaling.factor", "llama.rope.scale_linear"):
        after, _ = looked_at(rewritten(GGUF, tmp_path / f"{key}.gguf", {key: 4.0}))
        wanted = [f / 4 for f in before["architecture"]["rotary_frequencies"]]
        assert after["architecture"]["rotary_frequencies"] == pytest.approx(wanted)


def test_tensors_that_no_parameter_claims_are_named(tmp_path):
    width = looked_at(GGUF)[0]["architecture"]["width"]
    assert looked_at(GGUF)[0]["unread"] == []
    for name in ("blk.1.attn_q.bias", "blk.1.rope_freqs.weight"):
        b = rewritten(GGUF, tmp_path / f"{name}.gguf", tensors={name: np.ones(width, np.float32)})
        assert looked_at(b)[0]["unread"] == [name]
    # The divisors of the frequencies are read.
    pairs = len(looked_at(GGUF)[0]["architecture"]["rotary_frequencies"])
    b = rewritten(GGUF, tmp_path / "f.gguf", tensors={"rope_freqs.weight": np.full(pairs, 4, np.float32)})
    assert looked_at(b)[0]["unread"] == []
    assert looked_at(b)[0]["architecture"]["rotary_frequencies"][0] == 0.25


def test_buffers_that_transformers_ignores_are_dead(tmp_path):
    """Tensors that older versions stored; transformers computes the same whatever they hold."""
    dead = {
        "llama": ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"],
        "gpt2": ["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"],
        "gpt_neox": ["gpt_neox.layers.0.attention.bias", "gpt_neox.layers.0.attention.rotary_emb.inv_freq"],
        "bert-mlm": ["bert.embeddings.position_ids"],
    }
    for name, tensors in dead.items():
        folder = shutil.copytree(FIXTURES / name, tmp_path / name)
        before = outputs(folder)
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        weights |= {tensor: torch.full((1, 4), 3.0) for tensor in tensors}
        safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        assert torch.equal(before, outputs(folder))
        read, _ = looked_at(folder)
        assert read["unread"] == [] and sorted(read["unclaimed"]) == sorted(tensors)


def test_convert_says_which_keys_it_leaves_behind(regauge, tmp_path):
    folder = shutil.copytree(FIXTURES / "llama", tmp_path / "a")
    assert "not carried over" not in regauge.messages("convert", folder, "--to", "gguf", "-o", tmp_path / "a.gguf")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "is_causal": False}))
    said = regauge.messages("convert", folder, "--to", "gguf", "-o", tmp_path / "b.gguf")
    assert "'is_causal' is not understood and is not carried over" in said
