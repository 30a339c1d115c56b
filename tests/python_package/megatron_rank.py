"""A rank of tiny Megatron-Core models on the CPU: saves the state of each, what it computes and, if asked to, a checkpoint.
Run by megatron_ranks.py.

megatron_rank.py SETTINGS.json OUTPUT RANK WORLD PORT
"""

import contextlib
import json
import sys

import torch
import torch.distributed


def prepare(rank, world, port):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.cuda.current_device = lambda: "cpu"  # there is none: rotary embeddings ask for it, and a checkpoint waits for it
    torch.cuda.synchronize = lambda: None

    from megatron.core import tensor_parallel
    from megatron.core.transformer import dot_product_attention, multi_latent_attention
    from megatron.core.transformer.moe import moe_utils

    moe_utils.te_general_gemm = None  # where Transformer Engine is not installed the name is looked up and not there
    multi_latent_attention.HAVE_TE = False  # likewise: it takes itself to be installed
    tensor_parallel.get_cuda_rng_tracker().fork = contextlib.nullcontext  # for dropout, of which there is none
    core = dot_product_attention.DotProductAttention
    begin = core.__init__  # latent attention tells it widths of heads that only Transformer Engine's takes
    core.__init__ = lambda self, *given, k_channels=None, v_channels=None, **named: begin(self, *given, **named)


def model_of(settings, stages, world):
    from megatron.core import parallel_state
    from megatron.core.activations import quick_gelu
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_mtp_block_spec
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=world // stages,
        pipeline_model_parallel_size=stages,
        expert_model_parallel_size=settings["config"].get("expert_model_parallel_size", 1),
        expert_tensor_parallel_size=settings["config"].get("expert_tensor_parallel_size"),
    )
    kind = MLATransformerConfig if "kv_lora_rank" in settings["config"] else TransformerConfig
    config = kind(
        **settings["config"],
        tensor_model_parallel_size=world // stages,
        pipeline_model_parallel_size=stages,
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        activation_func=quick_gelu if settings.get("activation") == "quick_gelu" else torch.nn.functional.silu,
        gated_linear_unit=True,
        normalization="RMSNorm",
        attention_dropout=0,
        hidden_dropout=0,
        bias_activation_fusion=False,
        masked_softmax_fusion=False,
    )
    torch.manual_seed(settings["seed"])
    stage = parallel_state.get_pipeline_model_parallel_rank()
    layers = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm")
    further = get_gpt_mtp_block_spec(config, layers, use_transformer_engine=False) if config.mtp_num_layers else None
    model = GPTModel(
        config,
        layers,
        vocab_size=settings["vocabulary"],
        max_sequence_length=32,
        pre_process=stage == 0,
        post_process=stage == stages - 1,
        position_embedding_type="rope",
        rotary_base=10000,
        share_embeddings_and_output_weights=settings.get("tied", False),
        mtp_block_spec=further,
    )
    generator = torch.Generator().manual_seed(settings["seed"])
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.dim() == 1 and "norm" in name:  # gains and biases are ones and zeros
            tensor.data.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith(("bias", "softmax_offset")):
            tensor.data.copy_(torch.rand(tensor.shape, generator=generator) - 0.5)
    return model, config, stage


def run(settings, rank, world):
    stages = settings.get("stages", 1)
    model, config, stage = model_of(settings, stages, world)
    further = model.mtp_process, config.mtp_num_layers
    state = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, torch.Tensor)}
    positions = torch.arange(12)
    mask = torch.triu(torch.ones(12, 12), 1).bool()[None, None]
    with torch.no_grad():
        if stage > 0:
            read = torch.empty(12, 1, config.hidden_size)
            torch.distributed.recv(read, rank - world // stages)
            model.set_input_tensor(read)
        model.mtp_process, config.mtp_num_layers = False, None  # further tokens are predicted beside a loss, which is not asked for
        answer = model.eval()(positions[None] % settings["vocabulary"], positions[None], mask)
        if stage < stages - 1:
            torch.distributed.send(answer, rank + world // stages)
    model.mtp_process, config.mtp_num_layers = further
    if "checkpoint" in settings:
        from megatron.core import dist_checkpointing

        dist_checkpointing.save(model.sharded_state_dict(), settings["checkpoint"])
    return {"state": state, "answer": answer}


def main():
    with open(sys.argv[1]) as file:
        models = json.load(file)
    rank, world = int(sys.argv[3]), int(sys.argv[4])
    prepare(rank, world, sys.argv[5])
    torch.save([run(settings, rank, world) for settings in models], sys.argv[2])


if __name__ == "__main__":  # a checkpoint is written by processes that read this file again
    main()
