"""Small models that read text and pictures, and inputs of such models."""

import torch
import transformers as tf
from towers import has_towers

SIZES = dict(
    vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=48, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
TOWER = dict(
    hidden_size=12, intermediate_size=18, num_hidden_layers=2, num_attention_heads=3, image_size=8, patch_size=2,
)  # fmt: skip
QWEN_TOWER = dict(depth=2, hidden_size=8, intermediate_size=11, num_heads=2, patch_size=2)
MROPE = dict(rope_type="default", rope_theta=1000.0, mrope_section=[1, 1, 1])
MODELS_WITH_PICTURES = {
    "llava: two biases, linear": (tf.LlavaForConditionalGeneration, tf.LlavaConfig(
        text_config=dict(**SIZES, head_dim=6, model_type="llama", attention_bias=True, rope_parameters=dict(
            rope_type="linear", rope_theta=500.0, factor=2.0)),
        vision_config=dict(**TOWER, model_type="clip_vision_model"), image_token_index=60)),
    "idefics3: tied": (tf.Idefics3ForConditionalGeneration, tf.Idefics3Config(
        text_config=dict(**SIZES, head_dim=6, model_type="llama", rms_norm_eps=1e-5), scale_factor=2,
        vision_config=dict(**TOWER), image_token_id=60, tie_word_embeddings=True)),
    "smolvlm: untied": (tf.SmolVLMForConditionalGeneration, tf.SmolVLMConfig(
        text_config=dict(**SIZES, head_dim=6, model_type="llama", rms_norm_eps=1e-5), scale_factor=2,
        vision_config=dict(**TOWER), image_token_id=60, tie_word_embeddings=False)),
    "mistral3: tied": (tf.Mistral3ForConditionalGeneration, tf.Mistral3Config(
        text_config=dict(**SIZES, head_dim=6, model_type="mistral", sliding_window=None),
        vision_config=dict(**TOWER, head_dim=4, model_type="pixtral"), image_token_index=60)),
    "internvl: untied": (tf.InternVLForConditionalGeneration, tf.InternVLConfig(
        text_config=dict(**{**SIZES, "hidden_size": 24}, model_type="qwen2"), tie_word_embeddings=False,
        vision_config={**TOWER, "image_size": [8, 8], "patch_size": [2, 2]}, image_token_id=60)),
    "internvl-qwen3: tied": (tf.InternVLForConditionalGeneration, tf.InternVLConfig(
        text_config=dict(**SIZES, head_dim=6, model_type="qwen3"),
        vision_config={**TOWER, "image_size": [8, 8], "patch_size": [2, 2]}, image_token_id=60)),
    "qwen2_vl: tied": (tf.Qwen2VLForConditionalGeneration, tf.Qwen2VLConfig(
        text_config=dict(**{**SIZES, "hidden_size": 24}, rope_parameters=MROPE), tie_word_embeddings=True,
        vision_config=dict(depth=2, embed_dim=8, hidden_size=24, mlp_ratio=2, num_heads=2, patch_size=2),
        image_token_id=60)),
    "qwen2_5_vl: untied": (tf.Qwen2_5_VLForConditionalGeneration, tf.Qwen2_5_VLConfig(
        text_config=dict(**{**SIZES, "hidden_size": 24}, rope_parameters=MROPE), image_token_id=60,
        vision_config=dict(**QWEN_TOWER, out_hidden_size=24, fullatt_block_indexes=[1], window_size=8))),
    "qwen3_5: untied": (tf.Qwen3_5ForConditionalGeneration, tf.Qwen3_5Config(
        text_config=dict(
            **SIZES, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5,
            linear_value_head_dim=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
            rope_parameters=dict(**MROPE, mrope_interleaved=True, partial_rotary_factor=0.75)),
        vision_config=dict(**QWEN_TOWER, out_hidden_size=20, num_position_embeddings=16), image_token_id=60)),
    "qwen3_5_moe: untied": (tf.Qwen3_5MoeForConditionalGeneration, tf.Qwen3_5MoeConfig(
        text_config=dict(
            **SIZES, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=5,
            linear_value_head_dim=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
            moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2, shared_expert_intermediate_size=6,
            rope_parameters=dict(**MROPE, mrope_interleaved=True, partial_rotary_factor=0.75)),
        vision_config=dict(**QWEN_TOWER, out_hidden_size=20, num_position_embeddings=16), image_token_id=60)),
    "qwen3_vl: untied": (tf.Qwen3VLForConditionalGeneration, tf.Qwen3VLConfig(
        text_config=dict(**SIZES, head_dim=6, rope_parameters=dict(**MROPE, mrope_interleaved=True)),
        vision_config=dict(
            **{**QWEN_TOWER, "depth": 3}, out_hidden_size=20, num_position_embeddings=16, deepstack_visual_indexes=[0, 2]),
        image_token_id=60)),
    "qwen3_vl: tied": (tf.Qwen3VLForConditionalGeneration, tf.Qwen3VLConfig(
        text_config=dict(**SIZES, head_dim=6, rope_parameters=MROPE), tie_word_embeddings=True,
        vision_config=dict(**QWEN_TOWER, out_hidden_size=20, num_position_embeddings=16, deepstack_visual_indexes=[1]),
        image_token_id=60)),
    "qwen3_vl_moe: untied": (tf.Qwen3VLMoeForConditionalGeneration, tf.Qwen3VLMoeConfig(
        text_config=dict(
            **SIZES, head_dim=6, moe_intermediate_size=7, num_experts=5, num_experts_per_tok=2,
            rope_parameters=dict(**MROPE, mrope_interleaved=True)),
        vision_config=dict(**QWEN_TOWER, out_hidden_size=20, num_position_embeddings=16, deepstack_visual_indexes=[1]),
        image_token_id=60)),
}  # fmt: skip


def text_of(config):
    """The part of a config that says how tokens are read: the whole of it, but for a model of pictures and text."""
    return getattr(config, "text_config", config)


def reads_tokens(config):
    """BEiT has a vocabulary, too, of what it once predicted."""
    return hasattr(text_of(config), "vocab_size") and config.model_type != "beit"


def reads_pictures_in_text(config):
    return hasattr(config, "text_config") and hasattr(config, "vision_config") and not has_towers(config)


def token_of_pictures(config):
    return config.image_token_id if hasattr(config, "image_token_id") else config.image_token_index


def with_picture(config, tokens, seed=3):
    """One small picture in each of the sequences, from the third token on, as the model's processor would give it."""
    vision = config.vision_config
    generator = torch.Generator().manual_seed(seed)
    tokens = tokens.clone()
    here = torch.zeros_like(tokens)
    given = {}
    if config.model_type.startswith("qwen"):
        count = 4  # of 4 x 4 patches, merged by two in each direction
        width = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
        given["pixel_values"] = torch.randn(16 * len(tokens), width, generator=generator, dtype=torch.float64)
        given["image_grid_thw"] = torch.tensor([[1, 4, 4]] * len(tokens))
        given["mm_token_type_ids"] = here
    elif config.model_type == "gemma4":
        count = 4  # of 4 x 4 patches, pooled by two in each direction
        patches = (len(tokens), 16, 3 * vision.patch_size**2)
        given["pixel_values"] = torch.rand(patches, generator=generator, dtype=torch.float64)
        places = torch.tensor([[x, y] for y in range(4) for x in range(4)])
        given["image_position_ids"] = places.expand(len(tokens), -1, -1)
        given["mm_token_type_ids"] = here
    else:
        side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
        patch = vision.patch_size if isinstance(vision.patch_size, int) else vision.patch_size[0]
        shape = (len(tokens), vision.num_channels, side, side)
        given["pixel_values"] = torch.randn(shape, generator=generator, dtype=torch.float64)
        count = (side // patch) ** 2
        if config.model_type == "gemma3":
            count = config.mm_tokens_per_image
            given["token_type_ids"] = here
        elif config.model_type == "mistral3":
            count //= config.spatial_merge_size**2
            given["image_sizes"] = torch.tensor([[side, side]] * len(tokens))
        elif config.model_type in ("smolvlm", "idefics3"):
            count //= config.scale_factor**2
            given["pixel_values"] = given["pixel_values"][:, None]  # one picture of each sequence
        elif config.model_type == "internvl":
            count = int(count * config.downsample_ratio**2)
        elif config.vision_feature_select_strategy == "full":
            count += 1
    tokens[tokens == token_of_pictures(config)] = 3
    tokens[:, 2 : 2 + count] = token_of_pictures(config)
    here[:, 2 : 2 + count] = 1
    return {"input_ids": tokens, **given}
