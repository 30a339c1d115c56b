"""Inputs of models that read text and pictures."""

import torch


def text_of(config):
    """The part of a config that says how tokens are read: the whole of it, but for a model of pictures and text."""
    return getattr(config, "text_config", config)


def reads_pictures_in_text(config):
    return hasattr(config, "text_config") and hasattr(config, "vision_config")


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
        elif config.model_type == "internvl":
            count = int(count * config.downsample_ratio**2)
        elif config.vision_feature_select_strategy == "full":
            count += 1
    tokens[tokens == token_of_pictures(config)] = 3
    tokens[:, 2 : 2 + count] = token_of_pictures(config)
    here[:, 2 : 2 + count] = 1
    return {"input_ids": tokens, **given}
