"""Models that hear: what their groups leave out is not called the same, and not called different."""

import json
import shutil

import pytest
import safetensors.torch
import torch
import transformers as tf
from conftest import FIXTURES
from sounds import sound_of


def logits(folder):
    model = tf.Wav2Vec2ForCTC.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        return model(**sound_of(model.config, 2, 3)).logits


def with_other_places(tensors, places, share):
    """Every tensor that lives in the stream, its coordinates in this order; a group's stay together."""
    moved = {}
    for name, tensor in tensors.items():
        reads = ("q_proj.weight", "k_proj.weight", "v_proj.weight", "intermediate_dense.weight", "lm_head.weight")
        writes = ("projection.weight", "projection.bias", "out_proj.weight", "out_proj.bias", "output_dense.weight")
        norms = (".layers.0.", ".layers.1.", "encoder.layer_norm")
        if name.endswith(reads):
            tensor = tensor[:, places]
        elif name.endswith((*writes, "output_dense.bias", "pos_conv_embed.conv.bias", "original1")):
            tensor = tensor[places]
        elif "layer_norm" in name and any(part in name for part in norms) and "extractor" not in name:
            tensor = tensor[places]
        if name.endswith("original1"):
            first = places // share * share
            inside = (places % share).view(-1, share)  # of each group
            tensor = torch.stack([row[inside[n // share]] for n, row in enumerate(tensor)])
            assert (first == first.view(-1, share)[:, :1].expand(-1, share).flatten()).all()
        moved[name] = tensor.contiguous()
    return moved


@pytest.mark.parametrize("name", ["wav2vec2", "wav2vec2-stable"])
def test_a_stream_in_another_order_is_not_judged(regauge, tmp_path, name):
    source, target = FIXTURES / name, tmp_path / "moved"
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text())
    share = config["hidden_size"] // config["num_conv_pos_embedding_groups"]
    generator = torch.Generator().manual_seed(1)
    groups = torch.randperm(config["num_conv_pos_embedding_groups"], generator=generator)
    places = torch.cat([n * share + torch.randperm(share, generator=generator) for n in groups])
    tensors = safetensors.torch.load_file(source / "model.safetensors")
    safetensors.torch.save_file(
        with_other_places(tensors, places, share), target / "model.safetensors", metadata={"format": "pt"}
    )
    before, after = logits(source), logits(target)
    assert (before - after).abs().max() < 1e-5 * before.abs().max()
    said = regauge("diff", source, target, expect={1, 2})
    assert "could not decide" in said
    assert "changed places" in said


def with_other_signs(name, tensors):
    """What a weight norm, or the layer norm behind a convolution, does not see."""
    if name == "wav2vec2":  # length and kernel of one position
        for tensor in ("original0", "original1"):
            (key,) = (key for key in tensors if key.endswith(tensor))
            tensors[key][:, :, 1] *= -1
    else:  # all channels in front of a layer norm, and its gains
        for key, tensor in tensors.items():
            if "conv_layers.1." in key and not key.endswith("layer_norm.bias"):
                tensors[key] = -tensor
    return tensors


@pytest.mark.parametrize("name", ["wav2vec2", "wav2vec2-stable"])
def test_signs_that_a_norm_does_not_see_are_not_judged(regauge, tmp_path, name):
    source, target = FIXTURES / name, tmp_path / "moved"
    shutil.copytree(source, target)
    tensors = with_other_signs(name, safetensors.torch.load_file(source / "model.safetensors"))
    safetensors.torch.save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    before, after = logits(source), logits(target)
    assert (before - after).abs().max() < 1e-5 * before.abs().max()
    said = regauge("diff", source, target, expect={1, 2})
    assert "could not decide" in said and "other signs" in said
