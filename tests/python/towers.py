"""Models of two towers, text and pictures side by side, and inputs of such models."""

import torch
import transformers as tf

TEXT = dict(
    vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4,
    max_position_embeddings=48, bos_token_id=59, eos_token_id=60, pad_token_id=60,
)  # fmt: skip
VISION = dict(
    hidden_size=18, intermediate_size=23, num_hidden_layers=2, num_attention_heads=3, image_size=13, patch_size=4,
)  # fmt: skip
MODELS_OF_TOWERS = {
    "clip: two towers": (tf.CLIPModel, tf.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=11)),
    "clip: gelu in one": (tf.CLIPModel, tf.CLIPConfig(
        text_config=TEXT, vision_config={**VISION, "hidden_act": "gelu", "num_channels": 2}, projection_dim=24)),
    "clip_text_model: projected": (tf.CLIPTextModelWithProjection, tf.CLIPTextConfig(**TEXT, projection_dim=11)),
    "siglip: two towers": (tf.SiglipModel, tf.SiglipConfig(text_config=TEXT, vision_config={**VISION, "hidden_size": 20, "num_attention_heads": 4})),
    "siglip_text_model: projected": (tf.SiglipTextModel, tf.SiglipTextConfig(**TEXT, projection_size=11)),
    "siglip_vision_model: hidden states": (tf.SiglipVisionModel, tf.SiglipVisionConfig(**VISION)),
}  # fmt: skip


def has_towers(config):
    return config.model_type in ("clip", "siglip")


def ends_with_eos(config):
    """CLIP reads a text at its first end token; all others here would be at the first token without one."""
    return config.model_type in ("clip", "clip_text_model")


def ended(config, tokens):
    """The tokens with the end token behind them, and nowhere else."""
    text = getattr(config, "text_config", config)
    tokens = tokens.clone()
    tokens[tokens == text.eos_token_id] += 3 if text.eos_token_id < 3 else -3
    tokens[:, -1] = text.eos_token_id
    return tokens


def declared_of_towers(model, *inputs, **named):
    """What counts of the models here, as in declared.py, or None: text, then picture, as they are before they are
    brought to length one; of SigLIP's pictures the hidden states, which its pooling head reads."""
    name = type(model).__name__
    if name not in ("CLIPModel", "SiglipModel", "CLIPTextModelWithProjection", "SiglipTextModel"):
        return None
    result = model(*inputs, **named)
    if name == "CLIPTextModelWithProjection":
        found = [result.text_embeds, result.last_hidden_state]
    elif name == "SiglipTextModel":
        found = [result.pooler_output, result.last_hidden_state]
    elif name == "CLIPModel":
        found = [result.text_model_output.pooler_output, result.vision_model_output.pooler_output]
    else:
        found = [result.text_model_output.pooler_output, result.vision_model_output.last_hidden_state]
    return torch.cat([output.flatten(1) for output in found], 1)


def patches_of(config, images):
    """As `regauge-lab forward` takes them: what is left of a side that is no whole number of patches is not read."""
    return torch.nn.functional.unfold(images, config.patch_size, stride=config.patch_size).transpose(1, 2).contiguous()


def image_of(config, count, seed=5):
    vision = config.vision_config
    shape = (count, vision.num_channels, vision.image_size, vision.image_size)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
