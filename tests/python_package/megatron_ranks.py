"""Megatron-Core's own models on the CPU, a process for each rank."""

import importlib.util
import json
import pathlib
import socket
import subprocess
import sys

import pytest

import regauge

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

HERE = pathlib.Path(__file__).parent
SHAPE = dict(num_layers=2, hidden_size=32, num_attention_heads=4, num_query_groups=2, ffn_hidden_size=48, add_bias_linear=False, layernorm_epsilon=1e-5)
FIELDS = dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48, head_dim=8,
    rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=32, tie_word_embeddings=False, hidden_act="silu",
)  # fmt: skip
EXPERTS = {**SHAPE, "num_moe_experts": 4, "moe_router_topk": 2, "moe_ffn_hidden_size": 24, "moe_token_dispatcher_type": "allgather", "qk_layernorm": True}
MOE_FIELDS = {
    **FIELDS, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 24, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def megatron_models(folder, world, models):
    """Of each model what each rank, a process of its own, holds and computes: [[(state, answer)]]."""
    if importlib.util.find_spec("megatron") is None:
        pytest.skip("megatron-core is not installed")
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps([{"seed": 1, "vocabulary": 64, **settings} for settings in models]))
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, HERE / "megatron_rank.py", folder / "settings.json", folder / f"{i}.pt", str(i), str(world), port],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        for i in range(world)
    ]
    for rank in ranks:
        said = rank.communicate(timeout=600)[0]
        assert rank.returncode == 0, said
    saved = [torch.load(folder / f"{i}.pt") for i in range(world)]
    return [[(one["state"], one["answer"]) for one in of_model] for of_model in zip(*saved)]


def transformers_answer(model, folder):
    regauge.convert(model, folder)
    judge = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return judge(torch.arange(12)[None] % 64).logits
