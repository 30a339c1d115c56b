"""`regauge demo`: a trained model, a broken conversion and a rotated copy, judged by transformers."""

import pytest
import torch
import transformers


@pytest.fixture(scope="module")
def demo(regauge, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "demo"
    said = regauge("demo", folder)
    assert f"regauge diff {folder}/original {folder}/converted" in said
    return folder


def run(folder, tokens):
    load = transformers.AutoModelForCausalLM.from_pretrained
    with torch.no_grad():
        return load(folder, dtype=torch.float64)(tokens).logits


def test_what_the_models_compute(demo):
    """The original was trained, the rotated copy computes the same, the converted one does not."""
    load = transformers.AutoModelForCausalLM.from_pretrained
    story = load(demo / "original", dtype=torch.float64).generate(
        torch.tensor([[1]]), do_sample=False, max_new_tokens=60, pad_token_id=0
    )
    original = run(demo / "original", story)
    assert original.softmax(-1).max(-1).values.mean() > 0.4  # an untrained one: near 1 / 512
    scale = original.std()
    rotated = (run(demo / "rotated", story) - original).square().mean().sqrt() / scale
    converted = (run(demo / "converted", story) - original).square().mean().sqrt() / scale
    assert rotated < 1e-5
    assert converted > 0.1


def test_no_number_of_the_rotated_copy_is_the_originals(demo):
    load = transformers.AutoModelForCausalLM.from_pretrained
    a, b = (dict(load(demo / name, dtype=torch.float32).named_parameters()) for name in ("original", "rotated"))
    matrices = [name for name in a if a[name].ndim == 2]
    assert max(torch.isclose(a[name], b[name]).float().mean().item() for name in matrices) < 0.05


def test_the_answers(regauge, demo, tmp_path):
    assert regauge("diff", demo / "original", demo / "rotated").startswith("the same function, in other coordinates")
    broken = regauge("diff", demo / "original", demo / "converted", "--repair", "-o", tmp_path / "fixed", expect=1)
    assert broken.startswith("not the same function") and "rotary-missing" in broken
    assert regauge("diff", demo / "original", tmp_path / "fixed").startswith("identical")


def test_it_is_there_whole_or_not_at_all(regauge, demo, tmp_path):
    regauge("demo", demo, expect=2)
    regauge("demo", tmp_path / "no" / "folder", expect=2)
    assert not list(tmp_path.iterdir())
    assert "Copyright (c) 2023 Andrej Karpathy" in (demo / "README.txt").read_text()
