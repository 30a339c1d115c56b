"""transformers itself says whether a rewritten folder is the same function."""

import pytest
import safetensors.torch
import torch
import transformers
from conftest import FIXTURES
from declared import declared_outputs
from pictures import reads_pictures_in_text, reads_tokens, text_of, with_picture
from sounds import sound_of
from towers import ended, ends_with_eos, has_towers, image_of

HF = sorted(
    path.name
    for path in FIXTURES.iterdir()
    if (path / "config.json").exists() and "gguf" not in path.name
)


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    loader = getattr(transformers, config.architectures[0])
    model, problems = loader.from_pretrained(
        folder, dtype=torch.float64, output_loading_info=True, attn_implementation="eager",
        experts_implementation="eager",
    )
    assert not problems["missing_keys"] and not problems["unexpected_keys"], problems
    return model.eval()


def outputs(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    sound = sound_of(config, 4, seed)
    with torch.no_grad():
        if sound is not None and not config.is_encoder_decoder:
            return declared_outputs(model, **sound)
        if not reads_tokens(config):
            shape = (3, config.num_channels, config.image_size, config.image_size)
            return declared_outputs(model, torch.randn(shape, generator=generator, dtype=torch.float64))
        # 0 and 1 may be padding, whose rows of a position table are nobody's business.
        length = 22 if reads_pictures_in_text(config) else 12
        tokens = torch.randint(2, text_of(config).vocab_size, (4, length), generator=generator)
        if ends_with_eos(config):
            tokens = ended(config, tokens)
        if has_towers(config):
            return declared_outputs(model, input_ids=tokens, pixel_values=image_of(config, 4))
        if reads_pictures_in_text(config):
            return declared_outputs(model, **with_picture(config, tokens))
        behind = {"decoder_input_ids": tokens.flip(1)[:, :10]} if model.config.is_encoder_decoder else {}
        if sound is not None:
            return declared_outputs(model, **sound, **behind)
        return declared_outputs(model, input_ids=tokens, **behind)


def relative_change(before, after):
    return ((after - before).norm() / (before - before.mean()).norm()).item()


def weights(folder):
    tensors = {}
    for file in folder.glob("*.safetensors"):
        tensors.update(safetensors.torch.load_file(file))
    return tensors


def share_moved(before, after):
    towers = ("vision_tower.", "model.vision_tower.", "model.audio_tower.", "visual.", "multi_modal_projector.", "head.", "vision_model.head.")  # but for their last map they stay as they are
    moved = {
        name: not torch.allclose(tensor.double(), after[name].double(), rtol=1e-3, atol=1e-6)
        for name, tensor in before.items()
        if not name.startswith(towers)
    }
    return sum(moved.values()) / len(moved)


def is_tied(folder):
    # Only a language model's head is tied; a bare encoder has none.
    model = load(folder)
    output = model.get_output_embeddings()
    return output is not None and output.weight is model.get_input_embeddings().weight


def untying(folder):
    """The flag for a head that can be told from the token table: transformers wants the bias of some heads under a
    second name then, and the table of two streams holds them together."""
    two_names = any(name.endswith(("predictions.bias", "lm_head.bias")) for name in weights(folder))
    two_streams = any(name.startswith("model.encoder.") for name in weights(folder))
    return ["--untie"] if is_tied(folder) and not two_names and not two_streams else []


def tolerance(folder):
    if folder.name.startswith(("qwen3_next", "qwen3_5")):
        return 1e-4  # transformers computes the delta rule in float
    return 2e-2 if "bf16" in folder.name else 1e-5


@pytest.mark.parametrize("name", HF)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_element_keeps_the_function(regauge, tmp_path, name, seed):
    source = FIXTURES / name
    out = tmp_path / "out"
    regauge("act", source, "-o", out, "--random", seed, *untying(source))
    change = relative_change(outputs(load(source)), outputs(load(out)))
    assert change < tolerance(source)
    assert share_moved(weights(source), weights(out)) > 0.5


@pytest.mark.parametrize("name", [name for name in HF if "bf16" not in name])
def test_tied_models_keep_to_the_smaller_group(regauge, tmp_path, name):
    source = FIXTURES / name
    if not is_tied(source):
        pytest.skip("not tied")
    out = tmp_path / "out"
    regauge("act", source, "-o", out, "--random", 3)
    assert is_tied(out)
    assert relative_change(outputs(load(source)), outputs(load(out))) < tolerance(source)


@pytest.mark.parametrize("name", HF)
def test_folding_keeps_the_function(regauge, tmp_path, name):
    source = FIXTURES / name
    out = tmp_path / "folded"
    regauge("fold", source, "-o", out)
    assert relative_change(outputs(load(source)), outputs(load(out))) < tolerance(source)
    regauge("inspect", out)


def test_the_judge_sees_a_wrong_rewrite(regauge, tmp_path):
    """A negative control: one tensor taken from another gauge breaks the function."""
    source = FIXTURES / "llama"
    out = tmp_path / "out"
    regauge("act", source, "-o", out, "--random", 1)
    tensors = weights(out)
    name = "model.layers.1.self_attn.q_proj.weight"
    tensors[name] = weights(source)[name]
    safetensors.torch.save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    assert relative_change(outputs(load(source)), outputs(load(out))) > 1e-2
