"""A checkpoint larger than the memory it is rewritten in, and what is left when the work is stopped."""

import importlib.util
import json
import math
import os
import pathlib
import signal
import subprocess

import pytest
import safetensors.torch
import torch
import transformers
from conftest import stopped
from test_transformers_judge import relative_change

# The benchmark's own checkpoint, small: docs/streaming.md has the figures of the large one.
spec = importlib.util.spec_from_file_location(
    "streaming", pathlib.Path(__file__).parents[2] / "bench" / "streaming.py"
)
streaming = importlib.util.module_from_spec(spec)
spec.loader.exec_module(streaming)

BOUND = 100_000_000
PROGRAM_ITSELF = 50_000_000


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streaming") / "source"
    size = streaming.make_checkpoint(
        folder, 4, layers=24, width=512, ffn=2816, vocabulary=4000, heads=16, kv_heads=4
    )
    assert size > 1.5 * (BOUND + PROGRAM_ITSELF)
    return folder


def logits(folder):
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = torch.randint(0, 4000, (2, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return model(input_ids=tokens).logits.double()


@pytest.mark.parametrize("verb", ["act", "fold", "convert"])
def test_memory_stays_within_the_bound(checkpoint, tmp_path, verb):
    arguments = {"act": ["--random", "1"], "fold": [], "convert": ["--to", "gguf"]}[verb]
    out = tmp_path / "out"
    _, _, peak, _ = streaming.run_measured(
        [os.environ["REGAUGE"], verb, checkpoint, "-o", out, "--max-memory", f"{BOUND}B",
         *arguments]
    )
    assert peak < BOUND + PROGRAM_ITSELF
    if verb == "act":
        assert len(list(out.glob("*.safetensors"))) == len(list(checkpoint.glob("*.safetensors")))
        # 16-bit numbers in 24 layers of noise; a wrong element changes the outputs by more than 1.
        assert relative_change(logits(checkpoint), logits(out)) < 0.1


def test_centring_stays_within_the_bound(regauge, tmp_path):
    """Token table and head, 61 MB each as stored, are by far the largest tensors."""
    config = transformers.GPT2Config(
        vocab_size=60000, n_embd=512, n_layer=1, n_head=8, n_positions=64,
        tie_word_embeddings=False,
    )
    transformers.GPT2LMHeadModel(config).half().save_pretrained(tmp_path / "source")
    arguments = ["fold", tmp_path / "source", "--centre", "-o", tmp_path / "out"]
    bound = json.loads(regauge(*arguments, "--dry-run", "--json"))["peak_memory"]
    _, _, peak, _ = streaming.run_measured([os.environ["REGAUGE"], *arguments])
    assert peak < bound + PROGRAM_ITSELF


def test_a_tied_head_is_compared_piece_by_piece(tmp_path):
    """Two tensors of 256 MB, of which the file system holds no byte."""
    shapes = streaming.tensor_shapes(1, width=64, ffn=64, vocabulary=2_000_000, heads=4, kv_heads=4)
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
              "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 2_000_000,
              "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    _, _, peak, _ = streaming.run_measured([os.environ["REGAUGE"], "inspect", tmp_path])
    assert peak < 100_000_000


# Of many tokens, so that a table is by far the largest tensor, and more than is held as a whole.
TABLE = {"vocab_size": 40_000, "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
TABLE_IN_DOUBLE = 8 * 40_000 * 128


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_moved_table_is_compared_piece_by_piece(regauge, tmp_path, family):
    """Turned, as rows of the embedding and columns of the head; or permuted, one by one."""
    torch.manual_seed(0)
    if family == "llama":
        config = transformers.LlamaConfig(**TABLE, tie_word_embeddings=False)
        model = transformers.LlamaForCausalLM(config).bfloat16()
    else:
        config = transformers.BertConfig(**TABLE, max_position_embeddings=16)
        model = transformers.BertModel(config, add_pooling_layer=False)
    a, b, proof = tmp_path / "a", tmp_path / "b", tmp_path / "proof.safetensors"
    model.save_pretrained(a)
    regauge("act", a, "-o", b, "--random", 1)
    for verb in (["diff", a, b, "--certificate", proof], ["verify", a, b, proof]):
        _, _, peak, _ = streaming.run_measured([os.environ["REGAUGE"], *verb])
        assert peak < TABLE_IN_DOUBLE + PROGRAM_ITSELF
    # A change of one token's row, a twentieth of its size, is still told.
    tensors = safetensors.torch.load_file(b / "model.safetensors")
    table = next(table for name, table in tensors.items() if "embed" in name and len(table) == 40_000)
    table[33_333] *= 1.05
    safetensors.torch.save_file(tensors, b / "model.safetensors", metadata={"format": "pt"})
    said = json.loads(regauge("verify", a, b, proof, "--json", expect=1))
    assert [tensor["tensor"] for tensor in said["tensors"] if not tensor["agrees"]] == ["embed.tokens"]


def stopped_writing(checkpoint, out, number):
    """`act`, once its hidden folder is there."""
    start = lambda: subprocess.Popen(  # noqa: E731
        [os.environ["REGAUGE"], "act", checkpoint, "-o", out, "--random", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    return stopped(start, number, out, lambda: any(out.parent.glob(".out.partial-*")), pause=0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_work_leaves_nothing(checkpoint, tmp_path, number):
    status, printed, said = stopped_writing(checkpoint, tmp_path / "out", number)
    assert status == 130
    assert "nothing was written" in said and printed == ""
    assert not list(tmp_path.iterdir())


def test_killed_work_is_never_under_the_final_name(regauge, checkpoint, tmp_path):
    stopped_writing(checkpoint, tmp_path / "out", signal.SIGKILL)
    assert not (tmp_path / "out").exists()
    # What is left is hidden, and does not stand in the way of another attempt.
    assert all(path.name.startswith(".out.partial-") for path in tmp_path.iterdir())
    regauge("act", checkpoint, "-o", tmp_path / "out", "--random", 1, "--only", "heads")
