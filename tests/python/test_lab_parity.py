"""The lab's forward pass against transformers': every family that transformers writes, in float and double.

`pytest -s` prints the table of errors in docs/lab.md.
"""

import contextlib
import pathlib

import pytest
import safetensors.torch
import torch
import transformers as tf
from declared import declared_outputs
from in_double import make_double, no_float
from pictures import MODELS_WITH_PICTURES, reads_tokens, text_of
from sounds import MODELS_THAT_HEAR, sound_of
from sparse_models import DELTA, GQA, SIZES, SPARSE, YARN
from towers import MODELS_OF_TOWERS, ended, ends_with_eos, has_towers, patches_of

DATA = pathlib.Path(__file__).parent.parent.parent / "data" / "architectures"
MQA = dict(num_key_value_heads=1)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=256,
)  # fmt: skip
GPT2 = dict(vocab_size=61, n_embd=20, n_inner=27, n_layer=3, n_head=4, n_positions=48)
OPT = dict(
    vocab_size=61, hidden_size=20, ffn_dim=27, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=48,
)  # fmt: skip
FALCON = dict(
    vocab_size=61, hidden_size=24, ffn_hidden_size=27, num_hidden_layers=3, num_attention_heads=4,
    max_position_embeddings=48,
)  # fmt: skip
ENCODER = dict(
    vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4,
    max_position_embeddings=48, type_vocab_size=3,
)  # fmt: skip
MPNET = {key: value for key, value in ENCODER.items() if key != "type_vocab_size"}
T5 = dict(
    vocab_size=61, d_model=20, d_kv=6, d_ff=27, num_layers=2, num_decoder_layers=3, num_heads=4,
    relative_attention_num_buckets=8, relative_attention_max_distance=12,
)  # fmt: skip
BART = dict(
    vocab_size=61, d_model=20, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=5,
    encoder_ffn_dim=27, decoder_ffn_dim=23, max_position_embeddings=48,
    pad_token_id=1, decoder_start_token_id=2,
)  # fmt: skip
WINDOWS = dict(sliding_window=5, layer_types=["full_attention", "sliding_attention", "full_attention"])
IMAGE = dict(
    hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=4, image_size=12,
    patch_size=4, num_channels=3,
)  # fmt: skip
SQUARE = {**IMAGE, "hidden_size": 16, "num_attention_heads": 2}
MODERN = dict(
    vocab_size=61, hidden_size=20, intermediate_size=27, num_hidden_layers=4, num_attention_heads=5, local_attention=4,
    max_position_embeddings=48, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
)  # fmt: skip
PROTEIN = dict(
    vocab_size=33, hidden_size=20, intermediate_size=27, num_hidden_layers=3, num_attention_heads=5,
    max_position_embeddings=48, pad_token_id=1, mask_token_id=32, position_embedding_type="rotary",
)  # fmt: skip
DINOV2 = {**{key: value for key, value in IMAGE.items() if key != "intermediate_size"}, "mlp_ratio": 2}


def rope(**settings):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, **settings))


def llama(**settings):
    return tf.LlamaConfig(**{**SIZES, "head_dim": 6, **settings})


def neox(width, fraction, **settings):
    return tf.GPTNeoXConfig(**{**SIZES, "hidden_size": width}, **rope(partial_rotary_factor=fraction), **settings)


# name -> (class, config)
MODELS = {
    **SPARSE,
    **MODELS_THAT_HEAR,
    "llama: one kv head per head": (tf.LlamaForCausalLM, llama(num_key_value_heads=4)),
    "llama: GQA": (tf.LlamaForCausalLM, llama(**GQA)),
    "llama: MQA, tied": (tf.LlamaForCausalLM, llama(**MQA, tie_word_embeddings=True)),
    "llama: biases, llama3 frequencies": (tf.LlamaForCausalLM, llama(
        **GQA, attention_bias=True, mlp_bias=True, rope_parameters=LLAMA3)),
    "llama: linear frequencies, gelu": (tf.LlamaForCausalLM, llama(
        **GQA, hidden_act="gelu", rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
    "llama: no head": (tf.LlamaModel, llama(**GQA)),
    "mistral: GQA, window 5": (tf.MistralForCausalLM, tf.MistralConfig(
        **SIZES, **GQA, head_dim=6, sliding_window=5)),
    "mistral: no window, tied": (tf.MistralForCausalLM, tf.MistralConfig(
        **SIZES, **GQA, head_dim=6, sliding_window=None, tie_word_embeddings=True)),
    "qwen2: GQA, biases": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**{**SIZES, **GQA, "hidden_size": 24})),
    "qwen2: tied": (tf.Qwen2ForCausalLM, tf.Qwen2Config(
        **{**SIZES, **GQA, "hidden_size": 24}, tie_word_embeddings=True)),
    "qwen3: GQA, norms on q and k, tied": (tf.Qwen3ForCausalLM, tf.Qwen3Config(
        **SIZES, **GQA, head_dim=10, tie_word_embeddings=True)),
    "qwen3: MQA, biases": (tf.Qwen3ForCausalLM, tf.Qwen3Config(
        **SIZES, **MQA, head_dim=10, attention_bias=True)),
    "qwen3_5_text: delta nets, output gates": (tf.Qwen3_5ForCausalLM, tf.Qwen3_5TextConfig(**SIZES, **GQA, **DELTA)),
    "qwen3_5_text: tied": (tf.Qwen3_5ForCausalLM, tf.Qwen3_5TextConfig(
        **SIZES, **GQA, **DELTA, tie_word_embeddings=True)),
    "gemma: GQA, tied": (tf.GemmaForCausalLM, tf.GemmaConfig(**SIZES, **GQA, head_dim=6)),
    "gemma: MQA, untied": (tf.GemmaForCausalLM, tf.GemmaConfig(
        **SIZES, **MQA, head_dim=6, tie_word_embeddings=False)),
    "phi3: window 5, 4 of 8 rotate": (tf.Phi3ForCausalLM, tf.Phi3Config(
        **{**SIZES, **GQA, "hidden_size": 32}, sliding_window=5, **rope(partial_rotary_factor=0.5))),
    "starcoder2: GQA, window 5": (tf.Starcoder2ForCausalLM, tf.Starcoder2Config(
        **{**SIZES, **GQA, "hidden_size": 24}, sliding_window=5)),
    "stablelm: biases of q, k, v, 4 of 8 rotate": (tf.StableLmForCausalLM, tf.StableLmConfig(
        **{**SIZES, **GQA, "hidden_size": 32}, use_qkv_bias=True, **rope(partial_rotary_factor=0.5))),
    "stablelm: one norm for two branches": (tf.StableLmForCausalLM, tf.StableLmConfig(
        **{**SIZES, **GQA, "hidden_size": 32}, use_parallel_residual=True)),
    "seed_oss: biases": (tf.SeedOssForCausalLM, tf.SeedOssConfig(
        **SIZES, **GQA, head_dim=6, attention_out_bias=True, mlp_bias=True)),
    "ernie4_5: adjacent pairs, biases": (tf.Ernie4_5ForCausalLM, tf.Ernie4_5Config(
        **SIZES, **GQA, head_dim=6, use_bias=True)),
    "helium: adjacent pairs": (tf.HeliumForCausalLM, tf.HeliumConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, head_dim=6)),
    "glm: adjacent pairs, 4 of 8 rotate": (tf.GlmForCausalLM, tf.GlmConfig(**SIZES, **GQA, head_dim=8)),
    "ministral: a window in some layers": (tf.MinistralForCausalLM, tf.MinistralConfig(
        **SIZES, **GQA, head_dim=6, **WINDOWS)),
    "qwen2-sliding: a window in some layers": (tf.Qwen2ForCausalLM, tf.Qwen2Config(
        **{**SIZES, **GQA, "hidden_size": 24}, use_sliding_window=True, **WINDOWS)),
    "qwen3-sliding: a window in some layers": (tf.Qwen3ForCausalLM, tf.Qwen3Config(
        **SIZES, **GQA, head_dim=10, use_sliding_window=True, **WINDOWS)),
    "granite: scaled embedding, attention and branches": (tf.GraniteForCausalLM, tf.GraniteConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, embedding_multiplier=3.0, attention_multiplier=0.4, logits_scaling=5.0,
        residual_multiplier=0.7)),
    "opt: tied": (tf.OPTForCausalLM, tf.OPTConfig(**OPT)),
    "opt: no head, gelu": (tf.OPTModel, tf.OPTConfig(**OPT, activation_function="gelu")),
    "bloom: tied": (tf.BloomForCausalLM, tf.BloomConfig(vocab_size=61, hidden_size=20, n_layer=3, n_head=4)),
    "mpt: tied": (tf.MptForCausalLM, tf.MptConfig(
        vocab_size=61, d_model=20, n_layers=3, n_heads=4, max_seq_len=48)),
    "gpt_bigcode: MQA, tied": (tf.GPTBigCodeForCausalLM, tf.GPTBigCodeConfig(**GPT2)),
    "gptj: 4 of 10 rotate": (tf.GPTJForCausalLM, tf.GPTJConfig(**{**GPT2, "n_head": 2}, rotary_dim=4)),
    "codegen: 4 of 6 rotate": (tf.CodeGenForCausalLM, tf.CodeGenConfig(
        **{**GPT2, "n_embd": 48, "n_head": 8}, rotary_dim=4)),
    "falcon: MQA, tied": (tf.FalconForCausalLM, tf.FalconConfig(**FALCON)),
    "falcon-grouped: biases, tied": (tf.FalconForCausalLM, tf.FalconConfig(
        **FALCON, num_kv_heads=2, new_decoder_architecture=True, bias=True)),
    "falcon-grouped-one-norm: tied": (tf.FalconForCausalLM, tf.FalconConfig(
        **FALCON, num_kv_heads=2, new_decoder_architecture=True, num_ln_in_parallel_attn=1)),
    "biogpt: tied": (tf.BioGptForCausalLM, tf.BioGptConfig(**SIZES)),
    "openai-gpt: tied": (tf.OpenAIGPTLMHeadModel, tf.OpenAIGPTConfig(
        vocab_size=61, n_embd=20, n_layer=3, n_head=4, n_positions=48)),
    "ernie: masked words, tied": (tf.ErnieForMaskedLM, tf.ErnieConfig(**ENCODER)),
    "data2vec-text: hidden state and pooler": (tf.Data2VecTextModel, tf.Data2VecTextConfig(**ENCODER)),
    "roberta: masked words, tied": (tf.RobertaForMaskedLM, tf.RobertaConfig(**ENCODER)),
    "roberta: masked words, untied": (tf.RobertaForMaskedLM, tf.RobertaConfig(
        **ENCODER, tie_word_embeddings=False)),
    "xlm-roberta: hidden state and pooler": (tf.XLMRobertaModel, tf.XLMRobertaConfig(**ENCODER)),
    "modernbert: masked words, tied": (tf.ModernBertForMaskedLM, tf.ModernBertConfig(**MODERN)),
    "modernbert: masked words, untied, every bias": (tf.ModernBertForMaskedLM, tf.ModernBertConfig(
        **MODERN, tie_word_embeddings=False, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True)),
    "modernbert: classes of the first word": (tf.ModernBertForSequenceClassification, tf.ModernBertConfig(
        **MODERN, num_labels=7)),
    "modernbert: classes of the mean": (tf.ModernBertForSequenceClassification, tf.ModernBertConfig(
        **MODERN, num_labels=7, classifier_pooling="mean")),
    "modernbert: classes of words": (tf.ModernBertForTokenClassification, tf.ModernBertConfig(**MODERN, num_labels=7)),
    "modernbert: answers": (tf.ModernBertForQuestionAnswering, tf.ModernBertConfig(**MODERN)),
    "modernbert: hidden state": (tf.ModernBertModel, tf.ModernBertConfig(**MODERN, global_attn_every_n_layers=2)),
    "esm: masked words, tied, a norm of the embedding": (tf.EsmForMaskedLM, tf.EsmConfig(
        **PROTEIN, token_dropout=False, emb_layer_norm_before=True)),
    "esm: hidden state and pooler": (tf.EsmModel, tf.EsmConfig(**PROTEIN, token_dropout=False)),
    "esm-dropout: masked words, tied": (tf.EsmForMaskedLM, tf.EsmConfig(**PROTEIN, token_dropout=True)),
    "esm-dropout: masked words, untied": (tf.EsmForMaskedLM, tf.EsmConfig(
        **PROTEIN, token_dropout=True, tie_word_embeddings=False)),
    "esm-dropout: classes": (tf.EsmForSequenceClassification, tf.EsmConfig(**PROTEIN, token_dropout=True, num_labels=7)),
    "esm-dropout: classes of residues": (tf.EsmForTokenClassification, tf.EsmConfig(
        **PROTEIN, token_dropout=True, num_labels=7)),
    "albert: masked words, tied": (tf.AlbertForMaskedLM, tf.AlbertConfig(**ENCODER, embedding_size=11)),
    "albert: masked words, untied, two groups": (tf.AlbertForMaskedLM, tf.AlbertConfig(
        **{**ENCODER, "num_hidden_layers": 4}, embedding_size=11, num_hidden_groups=2, tie_word_embeddings=False)),
    "albert: masked words, order of sentences and pooler": (tf.AlbertForPreTraining, tf.AlbertConfig(
        **ENCODER, embedding_size=11)),
    "albert: hidden state and pooler": (tf.AlbertModel, tf.AlbertConfig(**ENCODER, embedding_size=11, hidden_act="relu")),
    "albert: classes of a sentence": (tf.AlbertForSequenceClassification, tf.AlbertConfig(
        **ENCODER, embedding_size=11, num_labels=7)),
    "albert: classes of words": (tf.AlbertForTokenClassification, tf.AlbertConfig(**ENCODER, embedding_size=11, num_labels=7)),
    "albert: answers": (tf.AlbertForQuestionAnswering, tf.AlbertConfig(**ENCODER, embedding_size=20)),
    "mpnet: hidden state and pooler": (tf.MPNetModel, tf.MPNetConfig(**MPNET)),
    "mpnet: masked words, tied": (tf.MPNetForMaskedLM, tf.MPNetConfig(**MPNET)),
    "mpnet: masked words, untied": (tf.MPNetForMaskedLM, tf.MPNetConfig(**MPNET, tie_word_embeddings=False)),
    "mpnet: classes of a sentence": (tf.MPNetForSequenceClassification, tf.MPNetConfig(**MPNET, num_labels=7)),
    "mpnet: one layer, answers": (tf.MPNetForQuestionAnswering, tf.MPNetConfig(**{**MPNET, "num_hidden_layers": 1})),
    "roberta-prelayernorm: masked words, untied": (tf.RobertaPreLayerNormForMaskedLM, tf.RobertaPreLayerNormConfig(
        **ENCODER, tie_word_embeddings=False)),
    "roberta-prelayernorm: classes of a sentence": (
        tf.RobertaPreLayerNormForSequenceClassification, tf.RobertaPreLayerNormConfig(**ENCODER, num_labels=7)),
    "xlm-roberta-xl: masked words, tied": (tf.XLMRobertaXLForMaskedLM, tf.XLMRobertaXLConfig(**ENCODER)),
    "xlm-roberta-xl: masked words, untied": (tf.XLMRobertaXLForMaskedLM, tf.XLMRobertaXLConfig(
        **ENCODER, tie_word_embeddings=False)),
    "xlm-roberta-xl: classes of words": (tf.XLMRobertaXLForTokenClassification, tf.XLMRobertaXLConfig(
        **ENCODER, num_labels=7)),
    "megatron-bert: hidden state and pooler": (tf.MegatronBertModel, tf.MegatronBertConfig(**ENCODER)),
    "megatron-bert: masked words, relu": (tf.MegatronBertForMaskedLM, tf.MegatronBertConfig(
        **ENCODER, hidden_act="relu")),
    "megatron-bert: masked words, next sentence and pooler": (
        tf.MegatronBertForPreTraining, tf.MegatronBertConfig(**ENCODER)),
    "camembert: hidden state and pooler": (tf.CamembertModel, tf.CamembertConfig(**ENCODER)),
    "distilbert: masked words, tied": (tf.DistilBertForMaskedLM, tf.DistilBertConfig(
        vocab_size=61, dim=20, hidden_dim=27, n_layers=3, n_heads=4, max_position_embeddings=48)),
    "electra: hidden state": (tf.ElectraModel, tf.ElectraConfig(**ENCODER, embedding_size=20)),
    "electra: masked words, tied": (tf.ElectraForMaskedLM, tf.ElectraConfig(**ENCODER, embedding_size=20)),
    "electra-discriminator: every word": (tf.ElectraForPreTraining, tf.ElectraConfig(**ENCODER, embedding_size=20)),
    "eurobert: masked words": (tf.EuroBertForMaskedLM, tf.EuroBertConfig(**SIZES, **GQA, head_dim=6)),
    "eurobert: hidden state": (tf.EuroBertModel, tf.EuroBertConfig(**SIZES, **GQA, head_dim=6)),
    "nomic_bert: masked words, tied": (tf.NomicBertForMaskedLM, tf.NomicBertConfig(
        **{**ENCODER, "hidden_size": 24})),
    "gte: hidden state": (tf.GteModel, tf.GteConfig(**{**ENCODER, "hidden_size": 24})),
    "gte: masked words, tied": (tf.GteForMaskedLM, tf.GteConfig(**{**ENCODER, "hidden_size": 24})),
    "jina_embeddings_v3: masked words, tied": (
        tf.JinaEmbeddingsV3ForMaskedLM, tf.JinaEmbeddingsV3Config(**{**ENCODER, "hidden_size": 24})),
    "gemma2: GQA, window 5 in some layers, caps, tied": (tf.Gemma2ForCausalLM, tf.Gemma2Config(
        **SIZES, **GQA, head_dim=6, query_pre_attn_scalar=7, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
        sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "olmo2: GQA, norms behind, joint norms on q and k": (tf.Olmo2ForCausalLM, tf.Olmo2Config(
        **{**SIZES, **GQA, "hidden_size": 24})),
    "glm4: norms on both sides, 4 of 8 rotate": (tf.Glm4ForCausalLM, tf.Glm4Config(**SIZES, **GQA, head_dim=8)),
    "exaone4: norms behind, layers without positions": (tf.Exaone4ForCausalLM, tf.Exaone4Config(
        **SIZES, **GQA, head_dim=6, **WINDOWS)),
    "exaone4-full: norms behind": (tf.Exaone4ForCausalLM, tf.Exaone4Config(
        **SIZES, **GQA, head_dim=6, sliding_window=None, layer_types=["full_attention"] * 3)),
    "cohere2: layers without positions, tied": (tf.Cohere2ForCausalLM, tf.Cohere2Config(
        **{**SIZES, **GQA, "hidden_size": 24}, logit_scale=0.3, **WINDOWS)),
    "vaultgemma: GQA, window 5 in some layers, caps, tied": (tf.VaultGemmaForCausalLM, tf.VaultGemmaConfig(
        **SIZES, **GQA, head_dim=6, query_pre_attn_scalar=7, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
        **WINDOWS)),
    "phi: one norm for two branches, 4 of 8 rotate": (tf.PhiForCausalLM, tf.PhiConfig(
        **{**SIZES, "hidden_size": 32}, **rope(partial_rotary_factor=0.5))),
    "cohere: adjacent pairs, scaled logits, tied": (tf.CohereForCausalLM, tf.CohereConfig(
        **{**SIZES, **GQA, "hidden_size": 24}, logit_scale=0.3)),
    "t5: gated, untied": (tf.T5ForConditionalGeneration, tf.T5Config(
        **T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "t5: relu, tied": (tf.T5ForConditionalGeneration, tf.T5Config(**T5, feed_forward_proj="relu")),
    "mt5: gated, untied": (tf.MT5ForConditionalGeneration, tf.MT5Config(**T5)),
    "t5-encoder: gated": (tf.T5EncoderModel, tf.T5Config(**T5, feed_forward_proj="gated-gelu")),
    "llama: yarn": (tf.LlamaForCausalLM, llama(**GQA, rope_parameters=dict(**YARN, attention_factor=1.3))),
    "bart: scaled, relu": (tf.BartForConditionalGeneration, tf.BartConfig(
        **BART, scale_embedding=True, activation_function="relu")),
    "marian: scaled, swish": (tf.MarianMTModel, tf.MarianConfig(
        **BART, scale_embedding=True, activation_function="swish")),
    "marian-separate: gelu": (tf.MarianMTModel, tf.MarianConfig(
        **BART, decoder_vocab_size=67, share_encoder_decoder_embeddings=False)),
    "mbart: gelu": (tf.MBartForConditionalGeneration, tf.MBartConfig(**BART)),
    "pegasus: scaled, relu": (tf.PegasusForConditionalGeneration, tf.PegasusConfig(
        **BART, scale_embedding=True, activation_function="relu")),
    "m2m_100: scaled, relu": (tf.M2M100ForConditionalGeneration, tf.M2M100Config(**BART)),
    "m2m_100: positions from 8 on": (tf.M2M100ForConditionalGeneration, tf.M2M100Config(
        **{**BART, "pad_token_id": 7}, scale_embedding=False)),
    "gpt2: tied": (tf.GPT2LMHeadModel, tf.GPT2Config(**GPT2)),
    "gpt2: untied, relu": (tf.GPT2LMHeadModel, tf.GPT2Config(
        **GPT2, tie_word_embeddings=False, activation_function="relu")),
    "gpt2: no head": (tf.GPT2Model, tf.GPT2Config(**GPT2)),
    "gpt_neox: parallel, 4 of 8 rotate": (tf.GPTNeoXForCausalLM, neox(32, 0.5)),
    "gpt_neox: sequential, 4 of 6 rotate, no biases": (tf.GPTNeoXForCausalLM, neox(
        24, 0.67, use_parallel_residual=False, attention_bias=False)),
    "gpt_neox: all rotate, tied": (tf.GPTNeoXForCausalLM, neox(24, 1.0, tie_word_embeddings=True)),
    "bert: hidden state and pooler": (tf.BertModel, tf.BertConfig(**SIZES, type_vocab_size=3)),
    "bert: masked words, tied": (tf.BertForMaskedLM, tf.BertConfig(**SIZES, type_vocab_size=3)),
    "bert: masked words, untied, gelu_new": (tf.BertForMaskedLM, tf.BertConfig(
        **SIZES, type_vocab_size=3, tie_word_embeddings=False, hidden_act="gelu_new")),
    "bert: masked words, next sentence and pooler": (tf.BertForPreTraining, tf.BertConfig(**SIZES, type_vocab_size=3)),
    "bert: classes of a sentence": (tf.BertForSequenceClassification, tf.BertConfig(
        **SIZES, type_vocab_size=3, num_labels=7)),
    "bert: classes of words": (tf.BertForTokenClassification, tf.BertConfig(**SIZES, type_vocab_size=3, num_labels=7)),
    "bert: answers": (tf.BertForQuestionAnswering, tf.BertConfig(**SIZES, type_vocab_size=3)),
    "roberta: classes of a sentence": (tf.RobertaForSequenceClassification, tf.RobertaConfig(**ENCODER, num_labels=7)),
    "xlm-roberta: classes of words": (tf.XLMRobertaForTokenClassification, tf.XLMRobertaConfig(
        **ENCODER, num_labels=7)),
    "camembert: answers": (tf.CamembertForQuestionAnswering, tf.CamembertConfig(**ENCODER)),
    "electra: classes of a sentence": (tf.ElectraForSequenceClassification, tf.ElectraConfig(
        **ENCODER, embedding_size=20, num_labels=7)),
    "distilbert: classes of a sentence": (tf.DistilBertForSequenceClassification, tf.DistilBertConfig(
        vocab_size=61, dim=20, hidden_dim=27, n_layers=3, n_heads=4, max_position_embeddings=48, num_labels=7)),
    "distilbert: answers": (tf.DistilBertForQuestionAnswering, tf.DistilBertConfig(
        vocab_size=61, dim=20, hidden_dim=27, n_layers=3, n_heads=4, max_position_embeddings=48)),
    "umt5: a table of distances in every layer": (tf.UMT5ForConditionalGeneration, tf.UMT5Config(**T5)),
    "umt5: relu": (tf.UMT5ForConditionalGeneration, tf.UMT5Config(**T5, feed_forward_proj="relu")),
    "umt5-encoder: hidden state": (tf.UMT5EncoderModel, tf.UMT5Config(
        **T5, is_encoder_decoder=False)),
    "ministral3: YaRN, temperatures": (tf.Ministral3ForCausalLM, tf.Ministral3Config(
        **SIZES, **GQA, head_dim=6, rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0,
            original_max_position_embeddings=7, llama_4_scaling_beta=0.3))),
    "nemotron: squared relu, half of each head rotates": (tf.NemotronForCausalLM, tf.NemotronConfig(
        **SIZES, **GQA, head_dim=8, attention_bias=True, mlp_bias=True)),
    "arcee: squared relu, tied": (tf.ArceeForCausalLM, tf.ArceeConfig(
        **SIZES, **GQA, head_dim=6, mlp_bias=True, tie_word_embeddings=True)),
    **MODELS_WITH_PICTURES,
    **MODELS_OF_TOWERS,
    "clip_text_model: hidden state": (tf.CLIPTextModel, tf.CLIPTextConfig(**SIZES)),
    "vit: classes": (tf.ViTForImageClassification, tf.ViTConfig(**IMAGE, num_labels=7)),
    "vit: hidden state and pooler, no biases of q, k, v": (tf.ViTModel, tf.ViTConfig(**IMAGE, qkv_bias=False)),
    "vit: hidden state and pooler of gelu": (tf.ViTModel, tf.ViTConfig(**IMAGE, pooler_act="gelu")),
    "dinov3_vit: hidden state": (tf.DINOv3ViTModel, tf.DINOv3ViTConfig(**SQUARE, num_register_tokens=2)),
    "dinov3_vit: gated, other biases, no registers": (tf.DINOv3ViTModel, tf.DINOv3ViTConfig(
        **SQUARE, use_gated_mlp=True, hidden_act="silu", query_bias=False, key_bias=True, value_bias=False, proj_bias=False,
        mlp_bias=False, rope_theta=20.0)),
    "deit: two heads of classes": (tf.DeiTForImageClassificationWithTeacher, tf.DeiTConfig(**IMAGE, num_labels=7)),
    "deit: classes": (tf.DeiTForImageClassification, tf.DeiTConfig(**IMAGE, num_labels=7, qkv_bias=False)),
    "deit: hidden state and pooler": (tf.DeiTModel, tf.DeiTConfig(**IMAGE)),
    "beit: tables of places, classes of the mean": (tf.BeitForImageClassification, tf.BeitConfig(
        **IMAGE, num_labels=7, use_relative_position_bias=True)),
    "beit: without positions, classes of the class token": (tf.BeitForImageClassification, tf.BeitConfig(
        **IMAGE, num_labels=7, use_mean_pooling=False)),
    "beit: hidden state": (tf.BeitModel, tf.BeitConfig(**IMAGE, use_mean_pooling=False, use_relative_position_bias=True)),
    "beit-shared: one table, no layer scales": (tf.BeitForImageClassification, tf.BeitConfig(
        **IMAGE, num_labels=7, use_shared_relative_position_bias=True, layer_scale_init_value=0.0)),
    "beit-absolute: classes of the mean": (tf.BeitForImageClassification, tf.BeitConfig(
        **IMAGE, num_labels=7, use_absolute_position_embeddings=True)),
    "dinov2: hidden state": (tf.Dinov2Model, tf.Dinov2Config(**DINOV2)),
    "dinov2-swiglu: no biases of q, k, v": (tf.Dinov2Model, tf.Dinov2Config(
        **DINOV2, use_swiglu_ffn=True, qkv_bias=False)),
    "dinov2_with_registers: gelu_new": (tf.Dinov2WithRegistersModel, tf.Dinov2WithRegistersConfig(
        **DINOV2, num_register_tokens=3, hidden_act="gelu_new")),
    "dinov2_with_registers-swiglu: one register": (tf.Dinov2WithRegistersModel, tf.Dinov2WithRegistersConfig(
        **{**DINOV2, "mlp_ratio": 3}, num_register_tokens=1, use_swiglu_ffn=True)),
}  # fmt: skip
GAIN_MINUS_ONE = ("gemma", "gemma2", "vaultgemma", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "qwen3_5", "qwen3_5_moe", "nemotron")  # as they store it
# Those that transformers writes, but for these, whose layers have rotary tables of their own.
FAMILIES = {path.name.split(".")[0] for path in DATA.glob("*.safetensors.json")} - {
    "regauge", "gemma3_text", "gemma3", "gemma4_text", "gemma4_text-experts", "gemma4", "gemma4-experts", "gemma4-audio", "smollm3", "olmo3",
}  # fmt: skip


def randomise(model, seed):
    """All parameters generic: gains away from 1, biases away from 0."""
    generator = torch.Generator().manual_seed(seed)
    less_one = model.config.model_type in GAIN_MINUS_ONE
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() <= 1:
            gain = 0.0 if less_one and "linear_attn" not in name else 1.0
            value.data = 0.3 * noise + (gain if name.endswith(("weight", "lambda1", "lambda_1", "lambda_2")) else 0.0)
        else:
            value.data = noise * value.shape[-1] ** -0.5
    for name, value in sorted(model.named_buffers()):
        if name.endswith(("e_score_correction_bias", "final_logits_bias")):
            value.copy_(0.3 * torch.randn(value.shape, generator=generator))
    for module in model.modules():  # one bias under two names, of which the file may hold both
        if hasattr(module, "bias") and hasattr(module, "decoder") and module.decoder.bias is not None:
            module.bias.data.copy_(module.decoder.bias.data)


def make(name, folder, seed=1):
    cls, config = MODELS[name]
    model = cls(config)
    if name.endswith("untied") and config.model_type in ("t5", "mt5"):  # transformers ties it whatever the config says
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    randomise(model, seed)
    model.save_pretrained(folder)
    return cls


def draw_inputs(config, seed):
    """transformers' inputs, and the same as `regauge lab forward` takes them."""
    generator = torch.Generator().manual_seed(seed)
    text = text_of(config)
    sound = sound_of(config, 5, seed)
    if sound is not None:
        sound = {name: value.float() for name, value in sound.items()}
        if "input_values" in sound:
            return sound, {"vectors": sound["input_values"].unsqueeze(2).contiguous()}
    if not reads_tokens(config):
        side = config.image_size
        images = torch.randn(5, config.num_channels, side, side, generator=generator)
        return {"pixel_values": images}, {"vectors": patches_of(config, images)}
    most = text.vocab_size - (4 if text is not config else 0)  # the last ones stand for pictures
    tokens = torch.randint(2, most, (5, 23), generator=generator)  # 0 and 1 may be padding
    if ends_with_eos(config):
        tokens = ended(config, tokens)
    if has_towers(config):
        vision = config.vision_config
        images = torch.randn(5, vision.num_channels, vision.image_size, vision.image_size, generator=generator)
        given = {"tokens": tokens, "vectors": patches_of(vision, images)}
        return {"input_ids": tokens, "pixel_values": images}, given
    if config.model_type == "m2m_100":
        tokens[tokens == config.pad_token_id] += 1
    if getattr(config, "type_vocab_size", 0):
        types = torch.randint(0, config.type_vocab_size, tokens.shape, generator=generator)
        return {"input_ids": tokens, "token_type_ids": types}, {"tokens": tokens, "types": types}
    if sound is not None:
        given = {"tokens": tokens, "vectors": sound["input_features"].transpose(1, 2).contiguous()}
        return {**sound, "decoder_input_ids": tokens}, given
    if config.is_encoder_decoder:
        source = tokens.flip(1)[:, :17].contiguous()
        return {"input_ids": source, "decoder_input_ids": tokens}, {"tokens": tokens, "source": source}
    return {"input_ids": tokens}, {"tokens": tokens}


def reference(cls, folder, inputs, double):
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = cls.from_pretrained(folder, dtype=torch.float32, **eager).eval()
    if double:
        model = make_double(model)
        inputs = {key: value.double() if value.is_floating_point() else value for key, value in inputs.items()}
    with torch.no_grad(), no_float() if double else contextlib.nullcontext():
        return declared_outputs(model, **inputs)


def forward(lab, folder, given, tmp_path, double, more=()):
    source, target = tmp_path / "inputs.safetensors", tmp_path / f"outputs{double}.safetensors"
    safetensors.torch.save_file(given, source)
    target.unlink(missing_ok=True)
    flags = ["--double"] if double else []
    lab("forward", folder, "--input", source, "-o", target, "--threads", 1, *flags, *more)
    return safetensors.torch.load_file(target)


def error(ours, theirs):
    """The largest difference, as a share of the reference's spread (its standard deviation)."""
    ours = ours.reshape(theirs.shape)
    return ((ours.double() - theirs.double()).abs().max() / theirs.double().std()).item()


@pytest.fixture(scope="module")
def table():
    rows = []
    yield rows
    print("\n| model | float | double |\n|---|---|---|")
    for name, single, double in rows:
        print(f"| {name} | {single:.1e} | {double:.1e} |")


def test_every_family_is_here():
    assert {name.partition(":")[0] for name in MODELS} == FAMILIES


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_transformers(lab, tmp_path, table, name):
    cls = make(name, tmp_path / "model")
    inputs, given = draw_inputs(MODELS[name][1], seed=2)
    errors = []
    for double in (False, True):
        ours = forward(lab, tmp_path / "model", given, tmp_path, double)["outputs"]
        assert ours.dtype == (torch.float64 if double else torch.float32)
        errors.append(error(ours, reference(cls, tmp_path / "model", inputs, double)))
    table.append((name, *errors))
    assert errors[0] <= 1e-4
    assert errors[1] <= 1e-9


def test_taps_are_transformers_hidden_states(lab, tmp_path):
    """The stream in front of each layer's first norm, and behind the last one."""
    name = "llama: GQA"
    cls = make(name, tmp_path / "model")
    inputs, given = draw_inputs(MODELS[name][1], seed=2)
    taps = forward(lab, tmp_path / "model", given, tmp_path, True, ["--taps"])
    model = make_double(cls.from_pretrained(tmp_path / "model", dtype=torch.float32)).eval()
    with torch.no_grad(), no_float():
        *streams, last = model(**inputs, output_hidden_states=True).hidden_states
    for layer, stream in enumerate(streams):
        assert error(taps[f"layers.{layer}.attn.norm.input"], stream) <= 1e-9
    assert error(taps["head.input"], last) <= 1e-9


# Negative controls: misreadings that keep every shape must be seen.


def swap_gate_and_up(tensors):
    for name in [name for name in tensors if name.endswith("gate_proj.weight")]:
        other = name.replace("gate", "up")
        tensors[name], tensors[other] = tensors[other], tensors[name]


def interleave_halves(tensors):
    for name, tensor in tensors.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            halves = tensor.view(-1, 2, 3, tensor.shape[1])  # heads of 6
            tensors[name] = halves.transpose(1, 2).reshape(tensor.shape).contiguous()


def exchange_query_heads(tensors):
    """Heads 1 and 2 read the other kv head, as if query heads were dealt out in turn."""
    for name, tensor in tensors.items():
        if name.endswith("q_proj.weight"):
            tensors[name] = tensor.view(4, 6, -1)[[0, 2, 1, 3]].reshape(tensor.shape).contiguous()
        if name.endswith("o_proj.weight"):
            tensors[name] = tensor.view(-1, 4, 6)[:, [0, 2, 1, 3]].reshape(tensor.shape).contiguous()


def forget_gains(tensors):
    for name in [name for name in tensors if "layernorm" in name]:
        tensors[name] = torch.ones_like(tensors[name])


@pytest.mark.parametrize("misread", [swap_gate_and_up, interleave_halves, exchange_query_heads, forget_gains])
def test_a_misreading_is_seen(lab, tmp_path, misread):
    name = "llama: GQA"
    cls = make(name, tmp_path / "model")
    inputs, given = draw_inputs(MODELS[name][1], seed=2)
    theirs = reference(cls, tmp_path / "model", inputs, False)
    file = tmp_path / "model" / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    misread(tensors)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})
    ours = forward(lab, tmp_path / "model", given, tmp_path, False)["outputs"]
    assert error(ours, theirs) > 1e-2
