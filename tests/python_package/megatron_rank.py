"""A rank of a tiny Megatron-Core model on the CPU: saves its state and what it computes. Run by test_engines.py.

megatron_rank.py SETTINGS.json OUTPUT RANK WORLD PORT
"""

import contextlib
import json
import sys

import torch
import torch.distributed

settings, output, rank, world, port = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
torch.cuda.current_device = lambda: "cpu"  # there is none, and rotary embeddings ask for it

from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer.moe import moe_utils  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

moe_utils.te_general_gemm = None  # where Transformer Engine is not installed the name is looked up and not there
stages = settings.get("stages", 1)
tensor_ranks = world // stages
parallel_state.initialize_model_parallel(
    tensor_model_parallel_size=tensor_ranks,
    pipeline_model_parallel_size=stages,
    expert_model_parallel_size=settings["config"].get("expert_model_parallel_size", 1),
    expert_tensor_parallel_size=settings["config"].get("expert_tensor_parallel_size"),
)
tensor_parallel.get_cuda_rng_tracker().fork = contextlib.nullcontext  # for dropout, of which there is none
config = TransformerConfig(
    **settings["config"],
    tensor_model_parallel_size=tensor_ranks,
    pipeline_model_parallel_size=stages,
    pipeline_dtype=torch.float32,
    use_cpu_initialization=True,
    activation_func=torch.nn.functional.silu,
    gated_linear_unit=True,
    normalization="RMSNorm",
    attention_dropout=0,
    hidden_dropout=0,
    bias_activation_fusion=False,
    masked_softmax_fusion=False,
)
torch.manual_seed(settings["seed"])
stage = parallel_state.get_pipeline_model_parallel_rank()
model = GPTModel(
    config,
    get_gpt_layer_local_spec(**settings.get("spec", {}), normalization="RMSNorm"),
    vocab_size=settings["vocabulary"],
    max_sequence_length=32,
    pre_process=stage == 0,
    post_process=stage == stages - 1,
    position_embedding_type="rope",
    rotary_base=10000,
    share_embeddings_and_output_weights=settings.get("tied", False),
)
generator = torch.Generator().manual_seed(settings["seed"])
for name, tensor in model.named_parameters():  # gains and biases are ones and zeros
    if tensor.dim() == 1 and "norm" in name:
        tensor.data.uniform_(0.5, 1.5, generator=generator)
state = {name: tensor for name, tensor in model.state_dict().items() if isinstance(tensor, torch.Tensor)}
positions = torch.arange(12)
mask = torch.triu(torch.ones(12, 12), 1).bool()[None, None]
with torch.no_grad():
    if stage > 0:
        read = torch.empty(12, 1, config.hidden_size)
        torch.distributed.recv(read, rank - tensor_ranks)
        model.set_input_tensor(read)
    answer = model.eval()(positions[None] % settings["vocabulary"], positions[None], mask)
    if stage < stages - 1:
        torch.distributed.send(answer, rank + tensor_ranks)
torch.save({"state": state, "answer": answer}, output)
