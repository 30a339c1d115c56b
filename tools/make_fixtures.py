#!/usr/bin/env python3
"""Makes tests/fixtures/<name>/: tiny random checkpoints, written by the programs whose files Regauge reads.

  *               transformers' save_pretrained (config.json, model.safetensors), and reference.json: an input
                  with the model's outputs in double precision
  *-gguf          the same models through llama.cpp's convert_hf_to_gguf.py, fetched at run time; gpt2-gguf, for
                  which the converter knows the real tokenizer only, by gguf's GGUFWriter as the converter would

Needs torch, transformers, safetensors, gguf, sentencepiece; pip and a network for the converter.
Usage: make_fixtures.py [--only NAME ...] [--converter PATH/convert_hf_to_gguf.py]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers as tf  # noqa: E402

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS / "python"))
from declared import declared_outputs  # noqa: E402
from fixture_models import SHIFTED, models  # noqa: E402
from pictures import reads_tokens, text_of  # noqa: E402
from sounds import sound_of  # noqa: E402
from towers import ended, ends_with_eos, has_towers  # noqa: E402

FIXTURES = TESTS / "fixtures"
CONVERTER = "llama-cpp-python==0.3.36"  # its source archive carries llama.cpp's converter

# GGUF files made from the fixtures above. The converter wants max_position_embeddings etc. as they are.
GGUF = ["llama", "llama-tied-biased", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma", "gpt2"]


def randomise(model, name):
    """All parameters generic: gains away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    for key, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() == 1 and key.endswith(("weight", "lambda1", "lambda_1", "lambda_2", "router.scale", "per_expert_scale")):
            # Multiples of 2^-10: 1 + w is exact in float32, so Gemma's two spellings of a gain agree.
            noise = torch.round(noise * 256) / 1024 + 0.0  # and no -0
            less_one = name.startswith(("gemma", "vaultgemma", "qwen3_5", "qwen3_next", "nemotron")) and "linear_attn" not in key and not name.startswith("gemma4")
            noise = noise if less_one else 1 + noise
        else:
            noise = noise * (0.3 if value.dim() <= 1 else value.shape[-1] ** -0.5)
        value.data.copy_(noise)
    for key, value in sorted(model.named_buffers()):
        if key.endswith(("e_score_correction_bias", "final_logits_bias")):
            value.copy_(torch.randn(value.shape, generator=generator) * 0.3)
        elif key.endswith("layer_scalar"):
            value.copy_(0.5 + torch.rand(value.shape, generator=generator))


def save_transformers(name, folder):
    cls, config = models()[name]
    torch.manual_seed(0)
    model = cls(config)
    if name in ("t5", "mt5"):
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    randomise(model, name)
    if name.endswith("bf16"):
        model = model.to(torch.bfloat16)
    shards = dict(max_shard_size="9KB") if name.endswith("sharded") else {}
    model.save_pretrained(folder, **shards)
    (folder / "generation_config.json").unlink(missing_ok=True)
    routed = any(hasattr(text_of(config), key) for key in ("num_experts_per_tok", "top_k_experts"))
    experts = dict(experts_implementation="eager") if routed else {}  # others know no double
    save_reference(cls.from_pretrained(folder, dtype=torch.float64, **experts).eval(), folder)


def save_reference(model, folder):
    """reference.json: an input and the model's output, computed in double precision."""
    generator = torch.Generator().manual_seed(7)

    def unpadded(tokens):
        if model.config.model_type in SHIFTED:
            tokens[tokens == model.config.pad_token_id] += 1  # they do not count padding as a position
        return tokens

    sound = sound_of(model.config, 1, 7) or {}
    if "input_values" in sound:
        inputs = sound["input_values"]
        given = dict(samples=inputs[0].tolist())
    elif reads_tokens(model.config):
        inputs = unpadded(torch.randint(0, text_of(model.config).vocab_size, (1, 19), generator=generator))
        if hasattr(model.config, "text_config"):
            inputs[inputs > 50] -= 20  # the last ones stand for pictures
        if ends_with_eos(model.config):
            inputs = ended(model.config, inputs)
        given = dict(tokens=inputs[0].tolist())
    else:
        size = model.config.image_size
        inputs = torch.rand(1, model.config.num_channels, size, size, generator=generator).double().round(decimals=3)
        given = dict(image=inputs[0].tolist())
    further = {}
    if "input_features" in sound:
        further["decoder_input_ids"], inputs = inputs, sound["input_features"]
        given["frames"] = inputs[0].T.tolist()
    elif model.config.is_encoder_decoder and not type(model).__name__.endswith("EncoderModel"):
        given["source"] = unpadded(torch.randint(0, model.config.vocab_size, (13,), generator=generator)).tolist()
        inputs, further["decoder_input_ids"] = torch.tensor([given["source"]]), inputs
    if has_towers(model.config):
        vision = model.config.vision_config
        shape = (1, vision.num_channels, vision.image_size, vision.image_size)
        further["pixel_values"] = torch.rand(shape, generator=generator).double().round(decimals=3)
        given["image"] = further["pixel_values"][0].tolist()
    with torch.no_grad():
        values = declared_outputs(model, inputs, **further)
    record = {**given, "output": torch.round(values[0], decimals=9).tolist()}
    (folder / "reference.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


def save_tokenizer(folder, vocabulary):
    """A sentencepiece model of exactly that many pieces, which the converter insists on."""
    import sentencepiece as spm
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = folder / "text.txt"
    text.write_text("\n".join(" ".join(a + b + c for c in letters[:13]) for a in letters for b in letters))
    spm.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "tokenizer"), vocab_size=vocabulary, model_type="bpe",
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, minloglevel=2, hard_vocab_limit=True)
    text.unlink()


def fetch_converter(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                    "llama-cpp-python", "--dest", str(folder), CONVERTER], check=True)
    archive = next(folder.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, members=[m for m in tar if "/vendor/llama.cpp/" in m.name and (
            "/gguf-py/" in m.name or "/conversion/" in m.name or m.name.endswith(".py"))], filter="data")
    return next(folder.glob("*/vendor/llama.cpp/convert_hf_to_gguf.py"))


def save_gguf(name, converter, target):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work) / name  # the converter writes the folder's name into the file
        work.mkdir()
        save_transformers(name, work)
        save_tokenizer(work, 61)
        subprocess.run([sys.executable, str(converter), str(work), "--outtype", "f32",
                        "--outfile", str(target / "model.gguf")], check=True)


def save_gpt2_gguf(target):
    """Names, transposes and metadata of llama.cpp's converter (conversion/gpt2.py)."""
    import gguf
    cls, config = models()["gpt2"]
    model = cls(config)
    randomise(model, "gpt2")
    writer = gguf.GGUFWriter(str(target / "model.gguf"), "gpt2")
    writer.add_name("gpt2")
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(config.n_inner)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, config.n_layer)
    for key, value in model.transformer.state_dict().items():
        if key.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            value = value.T
        writer.add_tensor(names.get_name(f"transformer.{key}", (".weight", ".bias")), value.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def save_qwen3_moe_gguf(target):
    """Names, stacked experts and metadata of llama.cpp's converter (conversion/qwen.py), which asks for a tokenizer it knows."""
    import gguf
    cls, config = models()["qwen3_moe"]
    model = cls(config)
    randomise(model, "qwen3_moe")
    writer = gguf.GGUFWriter(str(target / "model.gguf"), "qwen3moe")
    writer.add_name("qwen3_moe")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3MOE, config.num_hidden_layers)
    width = config.moe_intermediate_size
    for key, value in model.state_dict().items():
        if key.endswith("experts.gate_up_proj"):  # [experts, 2 widths, hidden]
            stem = key.removesuffix("gate_up_proj")
            parts = {stem + "gate_proj": value[:, :width], stem + "up_proj": value[:, width:]}
        else:
            parts = {key.removesuffix(".weight"): value}
        for name, part in parts.items():
            writer.add_tensor(names.get_name(name) + ".weight", part.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of fixtures")
    parser.add_argument("--converter", type=pathlib.Path, help="convert_hf_to_gguf.py; fetched if not given")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as downloads:
        for name in [*models(), *(f"{name}-gguf" for name in GGUF)]:
            if arguments.only and name not in arguments.only:
                continue
            target = FIXTURES / name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            if name == "gpt2-gguf":
                save_gpt2_gguf(target)
            elif name == "qwen3_moe-gguf":
                save_qwen3_moe_gguf(target)
            elif name.endswith("-gguf"):
                if arguments.converter is None:
                    arguments.converter = fetch_converter(pathlib.Path(downloads))
                save_gguf(name.removesuffix("-gguf"), arguments.converter, target)
            else:
                save_transformers(name, target)
            print(name, sum(f.stat().st_size for f in target.iterdir()), file=sys.stderr)


if __name__ == "__main__":
    main()
