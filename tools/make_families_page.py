#!/usr/bin/env python3
"""Makes docs/families.md: every family that is read, with the group of a published model's shape.

    make_families_page.py --regauge build/release/regauge [--only FAMILY ...] [-o docs/families.md]

transformers says the shape: a config with its default values, which the class documents as similar to a published model's, or
the settings below for the largest ones. The checkpoint has names and shapes as transformers would save them, and a hole
where the numbers would be; `regauge inspect` does the rest. Needs the packages of tools/python-requirements.txt.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors import safe_open  # noqa: E402
from transformers.core_model_loading import revert_weight_conversion  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from many_tensors import write_sparse  # noqa: E402

ARCHITECTURES = ROOT / "data" / "architectures"
AUTO = ["AutoModelForSpeechSeq2Seq", "AutoModelForCTC", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM", "AutoModelForImageTextToText", "AutoModelForCausalLM", "AutoModel"]

# The default values are ELECTRA small's, whose embedding is narrower than its stream.
ELECTRA_BASE = dict(hidden_size=768, embedding_size=768, num_attention_heads=12, intermediate_size=3072)
GEMMA4_26B = dict(
    hidden_size=2816, intermediate_size=2112, num_hidden_layers=30, num_attention_heads=16, num_key_value_heads=8, head_dim=256,
    global_head_dim=512, num_global_key_value_heads=2, attention_k_eq_v=True, hidden_size_per_layer_input=0, sliding_window=1024,
    enable_moe_block=True, num_experts=128, top_k_experts=8, moe_intermediate_size=704)
# ESM-2 of 650 million parameters; the default values are ESM-1b's.
ESM2 = dict(
    vocab_size=33, hidden_size=1280, num_hidden_layers=33, num_attention_heads=20, intermediate_size=5120, pad_token_id=1,
    mask_token_id=32, position_embedding_type="rotary", emb_layer_norm_before=False)
# What a family needs beside the default values, which do not make a model by themselves, or one that is not read.
SETTINGS = {
    "deepseek_v2": dict(num_experts_per_tok=6),
    "deepseek_v2-direct": dict(num_experts_per_tok=6),
    "deepseek_v2-grouped": dict(num_experts_per_tok=6, n_group=8, topk_group=3),
    "beit": dict(use_relative_position_bias=True, use_mean_pooling=False),  # a bare model counts as it is
    "beit-absolute": dict(use_absolute_position_embeddings=True, use_mean_pooling=False),
    "beit-shared": dict(use_shared_relative_position_bias=True, use_mean_pooling=False),
    "electra": ELECTRA_BASE,
    "electra-discriminator": ELECTRA_BASE,
    "gemma4_text-experts": GEMMA4_26B,
    "gemma4-audio": dict(vision_config={}, audio_config={}),
    "gemma4-experts": dict(text_config=GEMMA4_26B, vision_config={}),
    "esm": ESM2,
    "esm-dropout": dict(**ESM2, token_dropout=True),
    "dots1": dict(hidden_size=4096, n_routed_experts=128, num_experts_per_tok=6, n_shared_experts=2, first_k_dense_replace=1),
    "glm4_moe": dict(head_dim=128),
    "nemotron": dict(num_key_value_heads=8),
    "qwen3_5": dict(vision_config=dict(out_hidden_size=4096)),
    "qwen3_5_moe": dict(vision_config=dict(out_hidden_size=2048)),
    "qwen3_vl": dict(vision_config=dict(out_hidden_size=4096)),
    "qwen3_vl_moe": dict(vision_config=dict(out_hidden_size=2048)),
    "qwen2_5_vl": dict(vision_config=dict(out_hidden_size=8192)),
    "qwen2_vl": dict(vision_config=dict(hidden_size=8192)),
}

# Published shapes that are not a default: title -> (model_type, settings).
LARGEST = {
    "DeepSeek-V3": ("deepseek_v3", {}),
    "Qwen3-235B-A22B": ("qwen3_moe", dict(
        hidden_size=4096, moe_intermediate_size=1536, num_hidden_layers=94, num_attention_heads=64, num_key_value_heads=4,
        head_dim=128, num_experts=128, num_experts_per_tok=8, norm_topk_prob=True, vocab_size=151936)),
    "gpt-oss-120b": ("gpt_oss", {}),
    "Llama 4 Maverick (text)": ("llama4_text", dict(num_hidden_layers=48, num_local_experts=128, interleave_moe_layer_step=2)),
    "Gemma 3 27B (text)": ("gemma3_text", dict(
        hidden_size=5376, intermediate_size=21504, num_hidden_layers=62, num_attention_heads=32, num_key_value_heads=16,
        head_dim=128, query_pre_attn_scalar=168, sliding_window=1024, vocab_size=262208)),
    "Gemma 4 26B-A4B (text)": ("gemma4_text", GEMMA4_26B),
    "Llama 3.1 405B": ("llama", dict(
        hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8,
        vocab_size=128256)),
}  # fmt: skip

# Millions of downloads a month on the public hub, late 2026: an estimate, of which single rows may be off by a factor of
# two and sums by about 8 points. (what, millions, whether language models, families)
USE = [
    ("BERT (MiniLM, bge, e5) with and without task heads", 410, False, ["bert"]),
    ("RoBERTa, XLM-RoBERTa, CamemBERT", 150, False, ["roberta", "xlm-roberta", "camembert"]),
    ("DistilBERT, ELECTRA", 75, False, ["distilbert", "electra"]),
    ("MPNet", 35, False, ["mpnet"]),
    ("DeBERTa v2, ModernBERT, Nomic, GTE, EuroBERT, ALBERT, ESM", 70, False,
     ["deberta-v2", "modernbert", "nomic_bert", "gte", "eurobert", "albert", "esm"]),
    ("ViT", 130, False, ["vit"]),
    ("CLIP, SigLIP", 105, False, ["clip", "siglip"]),
    ("DINOv2 and v3, DeiT, BEiT, Swin, SAM, SegFormer", 75, False,
     ["dinov2", "dinov3_vit", "deit", "beit", "swin", "sam", "segformer"]),
    ("wav2vec2, HuBERT, WavLM", 75, False, ["wav2vec2", "hubert", "wavlm"]),
    ("Whisper", 30, False, ["whisper"]),
    ("T5, mT5, UMT5", 60, False, ["t5", "mt5", "umt5"]),
    ("BART, Marian, NLLB, mBART, Pegasus", 40, False, ["bart", "marian", "m2m_100", "mbart", "pegasus"]),
    ("Qwen3, dense", 95, True, ["qwen3"]),
    ("Qwen2, dense", 68, True, ["qwen2"]),
    ("Llama and its kin", 56, True, ["llama"]),
    ("Mistral 7B, Gemma 1, GPT-2, Pythia", 37, True, ["mistral", "gemma", "gpt2", "gpt_neox"]),
    ("the same in FP8, AWQ, GPTQ, bitsandbytes, MLX, compressed-tensors, and rare GGUF types", 50, True,
     ["fp8 numbers", "awq numbers", "gptq numbers", "bitsandbytes numbers", "mlx numbers", "compressed-tensors numbers", "IQ numbers"]),
    ("Qwen2-VL, Qwen2.5-VL, Qwen3-VL", 70, True, ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"]),
    ("Qwen3 MoE, Qwen3-Next, Qwen3.5", 110, True, ["qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe"]),
    ("Gemma 2, 3, 3n, 4", 95, True, ["gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_text-experts", "gemma4-audio"]),
    ("gpt-oss, Mixtral", 35, True, ["gpt_oss", "mixtral"]),
    ("Mistral 3, Ministral 3", 15, True, ["mistral3", "ministral3"]),
    ("DeepSeek V2 to V3.2, Kimi, GLM MoE, MiniMax", 47, True, ["deepseek_v2", "deepseek_v3", "deepseek_v32", "glm4_moe", "minimax_m2"]),
    ("Phi-3, OPT, StarCoder2, BLOOM, StableLM, GLM, Seed-OSS, ERNIE", 30, True,
     ["phi3", "opt", "starcoder2", "bloom", "stablelm", "glm", "seed_oss", "ernie4_5"]),
    ("Granite, OLMo, SmolLM3, Cohere, Nemotron, EXAONE, Phi, Falcon", 30, True,
     ["granite", "olmo2", "smollm3", "cohere", "nemotron", "exaone4", "phi", "falcon"]),
    ("Nemotron-H, Falcon-H1, LFM2, Granite 4, Mamba, Jamba", 15, True,
     ["nemotron_h", "falcon_h1", "lfm2", "granitemoehybrid", "mamba", "jamba"]),
    ("GGUF of Llama, Qwen2, Qwen3, Gemma 1", 15, True, ["llama.gguf", "qwen2.gguf", "qwen3.gguf", "gemma.gguf"]),
    ("GGUF of Qwen3 MoE and Qwen3.5", 24, True, ["qwen3_moe.gguf", "qwen3_5_text.gguf", "qwen3_5_moe_text.gguf"]),
    ("GGUF of Gemma 2 to 4", 18, True, ["gemma2.gguf", "gemma3_text.gguf", "gemma4_text.gguf", "gemma4_text-experts.gguf"]),
    ("GGUF of gpt-oss, DeepSeek and others", 18, True, ["gpt_oss.gguf", "deepseek_v3.gguf", "granite.gguf"]),
    ("InternVL, LLaVA, Florence, SmolVLM", 20, True, ["internvl", "llava", "florence2", "smolvlm"]),
]  # fmt: skip


def families():
    """name -> {"formats": [...], "match": settings by which a config is recognised}, of the files with a config.json"""
    result = {}
    for file in sorted(ARCHITECTURES.glob("*.json")):
        form = file.name.split(".")[1]
        data = json.loads(file.read_text())
        entry = result.setdefault(data["family"], {"formats": [], "match": {}})
        entry["formats"].append(form)
        if form == "safetensors":
            entry["match"] = data["match"]
    return result


def sparse_checkpoint(folder, model_type, settings):
    """Names and shapes as transformers saves them; returns what its default values are those of."""
    config = transformers.AutoConfig.for_model(model_type, **settings)
    mappings = {name: getattr(transformers, name)._model_mapping for name in AUTO}
    auto = next(name for name in AUTO if type(config) in mappings[name])
    with torch.device("meta"):
        model = getattr(transformers, auto).from_config(config, dtype=torch.bfloat16)
    config = model.config
    config.architectures = [type(model).__name__]
    tied = set(model.all_tied_weights_keys)
    saved = revert_weight_conversion(model, {n: t for n, t in model.state_dict().items() if n not in tied})
    folder.mkdir(parents=True)
    config.save_pretrained(folder)
    write_sparse(folder / "model.safetensors", {name: list(tensor.shape) for name, tensor in saved.items()})
    found = re.search(r"similar configuration to that of(?: the)?\s+\[([^\]]+)\]", type(config).__doc__ or "")
    return found[1].split("/")[-1] if found else ""


def group_of(factors, category):
    """Of the last layer, or of the whole model."""
    layers = [f for f in factors if f["category"] == category and f["group"] not in ("1",) and not f["group"].startswith("1^")]
    if not layers:
        return ""
    last = re.match(r"layers\.\d+\.", layers[-1]["name"])
    chosen = [f["group"] for f in layers if not last or f["name"].startswith(last[0])]
    return " · ".join(dict.fromkeys(chosen))


def stored_numbers():
    """Ways to store numbers of which the tests hold what a tool wrote beside what its own reader makes of it."""
    result = set()
    io = ROOT / "tests" / "fixtures" / "io"
    for file in (io / "packed").glob("*.safetensors"):
        with safe_open(file, "np") as tensors:
            config = json.loads(tensors.metadata()["config"])
        result.add(config.get("quantization_config", {}).get("quant_method", "mlx") + " numbers")
    with safe_open(io / "quants.safetensors", "np") as tensors:
        result |= {"IQ numbers" for name in tensors.keys() if name.startswith("IQ")}
    return result


def row_of(regauge, model_type, settings, work):
    """The shape's name, and what inspect says of it."""
    folder = pathlib.Path(work) / "model"
    shape = sparse_checkpoint(folder, model_type, settings)
    answer = subprocess.run([regauge, "inspect", folder, "--json"], capture_output=True, text=True)
    if answer.returncode:
        return shape, None, answer.stderr.strip().splitlines()[-1]
    said = json.loads(answer.stdout)
    factors = said["factors"]
    return shape, [
        f"{said['parameters']:,}",
        f"{said['redundant']:,} ({100 * said['redundant'] / said['parameters']:.2f} %)",
        *(group_of(factors, category) for category in ("residual", "qk", "vo", "ffn")),
    ], ""


COLUMNS = ["parameters", "redundant", "stream", "queries and keys", "values", "feed-forward"]


def table(heading, rows):
    return ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|", *("| " + " | ".join(row) + " |" for row in rows)]


def use_table(known):
    """How much of what people download is read."""
    known = known | stored_numbers()
    rows, sums = [], {True: [0, 0], False: [0, 0]}
    for what, millions, language, names in USE:
        read = [name for name in names if name in known]
        lacking = [name for name in names if name and name not in known]
        share = len(read) / len(names)
        sums[language][0] += share * millions
        sums[language][1] += millions
        rows.append([what, str(millions), f"{100 * share:.0f} %", ", ".join(lacking)])
    read, everything = (sum(s[i] for s in sums.values()) for i in (0, 1))
    language = 100 * sums[True][0] / sums[True][1]
    return f"{100 * read / everything:.0f} % of Transformer checkpoints, {language:.0f} % of language models", table(
        ["models", "millions a month", "read", "families that are not read"], rows)


def page(regauge, only):
    known = families()
    formats = {f"{name}.{form}" for name, entry in known.items() for form in entry["formats"]}
    rows, refused = [], []
    for name, entry in known.items():
        model_type = entry["match"].get("model_type", "").replace("{family}", name)
        if (only and name not in only) or name == "regauge":
            continue
        if not model_type:  # a layout of llama.cpp alone
            rows.append([f"`{name}`", ", ".join(entry["formats"]), *[""] * (1 + len(COLUMNS))])
            continue
        settings = {}
        for key, value in entry["match"].items():
            part, _, rest = key.partition("/")
            if part == "text_config":
                settings[part] = {rest: value}
            elif key != "model_type" and not rest:
                settings[key] = value
        settings |= SETTINGS.get(name, {})
        with tempfile.TemporaryDirectory() as work:
            try:
                shape, row, problem = row_of(regauge, model_type, settings, work)
            except Exception as error:  # transformers has no such model, or none with default values
                shape, row, problem = "", None, f"{type(error).__name__}: {error}".splitlines()[0][:100]
        if "hidden_size" in settings or "hidden_size" in settings.get("text_config", {}):
            shape = ""
        print(name, shape, row or problem, flush=True, file=sys.stderr)
        rows.append([f"`{name}`", ", ".join(entry["formats"]), shape, *(row or ["", "", "", "", "", ""])])
        if problem:
            refused.append((name, problem))
    largest = []
    for title, (model_type, settings) in LARGEST.items():
        if only and model_type not in only:
            continue
        with tempfile.TemporaryDirectory() as work:
            _, row, problem = row_of(regauge, model_type, settings, work)
        largest.append([title, f"`{model_type}`", *(row or ["not read", "", "", "", "", ""])])
        if problem:
            refused.append((title, problem))
    share, use = use_table(set(known) | formats)
    return share, largest, rows, use, refused


TEXT = """# Families

Made by `tools/make_families_page.py`. A family is a data file of `data/architectures/`; [how to add one](adding-an-architecture.md).

**How much that is.** By an estimate of downloads, {share}. [Below](#share-of-use) is what it rests on.

**What is verified of each.** A tiny model that transformers wrote, with random gains and biases: what Regauge reads computes what transformers computes,
in float and in double; `act` and `fold` keep all declared outputs; `diff` recognises a moved copy and refuses a damaged one; `canon` brings both to one form;
`align` finds a planted element; every change of a single key of the config that changes transformers' output changes what is read, or is refused.
`tools/check_family.sh FAMILY` runs all of it. The notions that a family is composed of have their dimensions confirmed by the rank of the outputs' derivative
([table](adding-an-architecture.md#the-notions-and-what-tests-them)). A GGUF file in the column *formats* was written by llama.cpp's own converter.

**How to read the tables.** *redundant*: the dimension of the group, the directions in which the numbers can change and the function cannot. *O*: rotations; *GL*: invertible
matrices; *R\\**, *C\\**: nonzero numbers; *±1*: signs; *S(n)*: permutations, *wr S*: permuted. The groups are those of the last layer. Shapes are the default values of
transformers' config, which it documents as similar to those of the model in the third column; the parameters are counted, not quoted.

## The largest
{largest}

## All
{rows}

## Share of use
Millions of downloads a month on the public hub, late 2026. This is an estimate from published statistics of the most downloaded models; single rows may be off by a factor of two,
sums by about 8 points. Of a row with several families each counts alike.

{use}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regauge", default=os.environ.get("REGAUGE", "regauge"))
    parser.add_argument("--only", nargs="*", help="families; prints the page instead of writing it")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "docs" / "families.md")
    options = parser.parse_args()
    share, largest, rows, use, refused = page(options.regauge, options.only)
    text = TEXT.format(
        share=share,
        largest="\n".join(table(["model", "family", *COLUMNS], largest)),
        rows="\n".join(table(["family", "formats", "shape of", *COLUMNS], rows)),
        use="\n".join(use),
    )
    if options.only:
        print(text)
    else:
        options.output.write_text(text)
    for name, problem in refused:
        print(f"{name}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
