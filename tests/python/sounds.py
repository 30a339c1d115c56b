"""Small models that hear, and inputs of such models."""

import torch
import transformers as tf

WHISPER = dict(
    vocab_size=61, d_model=20, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=5,
    encoder_ffn_dim=27, decoder_ffn_dim=23, num_mel_bins=6, max_source_positions=11, max_target_positions=48,
    pad_token_id=1, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2,
)  # fmt: skip
WAVES = dict(
    vocab_size=13, hidden_size=20, intermediate_size=27, num_hidden_layers=2, num_attention_heads=4, conv_dim=[7, 6, 9],
    conv_kernel=[5, 3, 2], conv_stride=[3, 2, 2], num_conv_pos_embeddings=6, num_conv_pos_embedding_groups=4,
)  # fmt: skip
STABLE = dict(do_stable_layer_norm=True, feat_extract_norm="layer", conv_bias=True)
MODELS_THAT_HEAR = {
    "whisper: gelu": (tf.WhisperForConditionalGeneration, tf.WhisperConfig(**WHISPER)),
    "whisper: relu": (tf.WhisperForConditionalGeneration, tf.WhisperConfig(
        **{**WHISPER, "d_model": 24, "decoder_attention_heads": 3, "decoder_layers": 3, "num_mel_bins": 3},
        activation_function="relu")),
    "wav2vec2: letters": (tf.Wav2Vec2ForCTC, tf.Wav2Vec2Config(**WAVES)),
    "wav2vec2: a layer norm behind every convolution": (tf.Wav2Vec2Model, tf.Wav2Vec2Config(
        **WAVES, feat_extract_norm="layer", hidden_act="relu")),
    "wav2vec2-stable: letters": (tf.Wav2Vec2ForCTC, tf.Wav2Vec2Config(**WAVES, **STABLE)),
    "hubert: no norm in front of the map": (tf.HubertModel, tf.HubertConfig(**WAVES, feat_proj_layer_norm=False)),
    "hubert-stable: an odd kernel": (tf.HubertForCTC, tf.HubertConfig(
        **{**WAVES, "num_conv_pos_embeddings": 5, "num_conv_pos_embedding_groups": 5}, **STABLE)),
}  # fmt: skip


def sound_of(config, count, seed):
    """What a model hears, by the name of its input: spectra, [count, bins, frames], as many as Whisper wants, or
    samples; None for models that are deaf."""
    generator = torch.Generator().manual_seed(seed)
    if config.model_type == "whisper":
        shape = (count, config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.randn(shape, generator=generator, dtype=torch.float64).round(decimals=3)}
    if config.model_type in ("wav2vec2", "hubert"):
        samples = torch.randn((count, 150), generator=generator, dtype=torch.float64)
        return {"input_values": samples.round(decimals=3)}
    return None
