"""Two tensors of one type in one place are equal or they differ: whoever changes weights and leaves them where they
stand is told, however little was changed. (attack: tamper_real, tamper_edits)"""

import pytest
import torch
import transformers
from doctored import doctored, llama, noisy, other_tokens, said, weights

# What the comparison accepted before of a bf16 matrix beside a bf16 matrix, of its rms.
ONCE_ACCEPTED = 3 * 2**0.5 * 1.1e-3
DOWN = "model.layers.1.mlp.down_proj.weight"
TABLE = "model.embed_tokens.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return llama(tmp_path_factory.mktemp("base") / "a", dtype=torch.bfloat16)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """The same numbers before they were rounded, in F32."""
    return llama(tmp_path_factory.mktemp("wide") / "a")


def trained(model, steps, make_optimiser, project=lambda model: None):
    """Trained until it answers everything with token 7."""
    tokens = torch.randint(3, 53, (4, 32), generator=torch.Generator().manual_seed(2))
    optimiser = make_optimiser(model.parameters())
    for _ in range(steps):
        likely = model(input_ids=tokens).logits.float().log_softmax(-1)
        (-likely[..., 7].mean()).backward()
        optimiser.step()
        optimiser.zero_grad()
        project(model)
    return model


def with_weights_of(model):
    state = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    return lambda tensors: tensors.update({name: state[name] for name in tensors})


def loaded(folder, dtype):
    return transformers.LlamaForCausalLM.from_pretrained(folder, dtype=dtype)


def test_a_payload_trained_inside_what_rounding_once_explained(base, tmp_path):
    model = loaded(base, torch.float32)
    start = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}

    @torch.no_grad()
    def project(model):
        for name, tensor in model.named_parameters():
            most = 0.6 * ONCE_ACCEPTED * start[name].norm() if tensor.ndim == 2 else 0
            moved = tensor - start[name]
            tensor.copy_(start[name] + moved * min(1, most / max(moved.norm(), 1e-30)))

    trained(model, 12, lambda parameters: torch.optim.Adam(parameters, lr=1e-4), project)
    evil = doctored(base, tmp_path / "b", with_weights_of(model))
    assert other_tokens(base, evil) > 0.02
    assert said(base, evil)["statement"] == "not-the-same"


@pytest.mark.parametrize(
    ("optimiser", "rate"),
    [(torch.optim.SGD, 1e-3), (torch.optim.AdamW, 1e-6), (torch.optim.AdamW, 1e-5), (torch.optim.AdamW, 1e-4)],
)
def test_ten_steps_of_training_in_bf16(base, tmp_path, optimiser, rate):
    torch.manual_seed(0)
    model = trained(loaded(base, torch.bfloat16), 10, lambda parameters: optimiser(parameters, lr=rate))
    tuned = doctored(base, tmp_path / "b", with_weights_of(model))
    before, after = weights(base), weights(tuned)
    answer = said(base, tuned)
    if all(torch.equal(before[name], after[name]) for name in before):  # every step was rounded away
        assert answer["statement"] == "identical"
    else:
        assert answer["statement"] == "not-the-same"


def entry(name, row, column, size):
    def change(tensors):
        rms = tensors[name].double().square().mean().sqrt()
        tensors[name][row, column] += size * rms

    return change


def last_bit(tensors):
    tensors[DOWN].view(torch.int16)[3, 5] ^= 1


def exchange_rows(tensors):
    tensors[TABLE][[7, 9]] = tensors[TABLE][[9, 7]].clone()


def scale_a_row(tensors):
    tensors[TABLE][9] *= 1.1


def zero_a_row(tensors):
    tensors[TABLE][7] = 0


def negate_a_row(tensors):
    tensors[TABLE][7] *= -1


def zero_a_gain(tensors):
    gain = tensors["model.layers.0.input_layernorm.weight"]
    gain[gain.abs().argmin()] = 0


def change_a_gain(tensors):
    tensors["model.layers.0.input_layernorm.weight"][5] *= 0.9


def edit_a_fact(tensors, share=ONCE_ACCEPTED / 4):
    """A change of rank one, as ROME makes it."""
    drawn = torch.Generator().manual_seed(4)
    rows, columns = tensors[DOWN].shape
    delta = torch.outer(torch.randn(rows, generator=drawn), torch.randn(columns, generator=drawn))
    matrix = tensors[DOWN].float()
    tensors[DOWN] = (matrix + delta * (share * matrix.norm() / delta.norm())).to(tensors[DOWN].dtype)


def remove_a_direction(tensors):
    """From all that writes to the residual stream."""
    direction = torch.randn(tensors[TABLE].shape[1], generator=torch.Generator().manual_seed(5))
    direction /= direction.norm()
    for name, tensor in tensors.items():
        matrix = tensor.float()
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            matrix = matrix - torch.outer(direction, direction @ matrix)
        elif name == TABLE:
            matrix = matrix - torch.outer(matrix @ direction, direction)
        else:
            continue
        tensors[name] = matrix.to(tensor.dtype)


def merge_an_adapter(rank):
    def change(tensors):
        drawn = torch.Generator().manual_seed(6)
        for name, tensor in tensors.items():
            if name.endswith(("q_proj.weight", "v_proj.weight")):
                left = torch.randn(tensor.shape[0], rank, generator=drawn)
                delta = left @ torch.randn(rank, tensor.shape[1], generator=drawn)
                matrix = tensor.float()
                tensors[name] = (matrix + delta * (0.004 * matrix.norm() / delta.norm())).to(tensor.dtype)

    return change


EDITS = {
    "one bit": last_bit,
    "one entry": entry(DOWN, 3, 5, 0.05),
    "an entry of the table": entry(TABLE, 7, 3, 0.05),
    "two rows exchanged": exchange_rows,
    "a row scaled": scale_a_row,
    "a row zeroed": zero_a_row,
    "a row negated": negate_a_row,
    "a gain zeroed": zero_a_gain,
    "a gain changed": change_a_gain,
    "a fact": edit_a_fact,
    "a direction": remove_a_direction,
    "an adapter of rank 1": merge_an_adapter(1),
    "an adapter of rank 8": merge_an_adapter(8),
    "a light fine-tune": noisy(0.004),
}


def exact(tensors):
    """No change."""


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_in_place_is_told(base, tmp_path, edit):
    before, after = weights(base), doctored(base, tmp_path / "b", edit)
    changed = {name for name, tensor in weights(after).items() if not torch.equal(tensor, before[name])}
    assert changed
    answer = said(base, after)
    assert answer["statement"] == "not-the-same"
    assert said(after, base)["statement"] == "not-the-same"
    assert sum(not tensor["agrees"] for tensor in answer["tensors"]) == len(changed)


@pytest.fixture(scope="module")
def many_tokens(tmp_path_factory):
    """A row is one part in 512 of the table's size."""
    folder = tmp_path_factory.mktemp("tokens") / "a"
    return llama(folder, dtype=torch.bfloat16, vocab_size=2**18, hidden_size=16, tie_word_embeddings=True)


@pytest.mark.parametrize("edit", ["a row scaled", "a row zeroed", "a row negated", "two rows exchanged"])
def test_a_row_of_a_large_table_is_told(many_tokens, tmp_path, edit):
    """The capital of France is Berlin."""
    answer = said(many_tokens, doctored(many_tokens, tmp_path / "b", EDITS[edit]))
    assert answer["statement"] == "not-the-same"
    assert [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]] == ["embed.tokens"]


# The weakest edits are below what a moved copy in bf16 can tell; these are not.
MOVED = ["two rows exchanged", "a row zeroed", "a row negated", "a direction"]


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("edit", MOVED)
def test_an_edit_of_a_moved_copy_is_told(regauge, base, tmp_path, edit, dtype):
    after = doctored(base, tmp_path / "b", EDITS[edit])
    regauge("act", after, "-o", tmp_path / "c", "--random", 1, "--dtype", dtype)
    assert said(base, tmp_path / "c")["statement"] == "not-the-same"
    regauge("act", base, "-o", tmp_path / "honest", "--random", 1, "--dtype", dtype)
    assert said(base, tmp_path / "honest")["statement"] == "other-coordinates"


def in_type(dtype):
    return lambda tensors: tensors.update({name: tensor.to(dtype) for name, tensor in tensors.items()})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_honest_cast_is_the_same_numbers(wide, tmp_path, dtype):
    cast = doctored(wide, tmp_path / "b", in_type(dtype))
    for a, b in ((wide, cast), (cast, wide)):
        assert said(a, b)["statement"] == "same-numbers"
    assert said(cast, doctored(cast, tmp_path / "c", in_type(torch.float32)))["statement"] == "identical"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_cast_of_noisy_numbers_is_not(wide, tmp_path, dtype):
    """Noise of a thousandth: below the rounding of bf16, which an honest cast has in no other place."""
    honest = weights(doctored(wide, tmp_path / "honest", in_type(dtype)))
    cast = doctored(doctored(wide, tmp_path / "noisy", noisy(1e-3)), tmp_path / "b", in_type(dtype))
    differ = sum((tensor != honest[name]).sum().item() for name, tensor in weights(cast).items())
    assert differ > 100
    for a, b in ((wide, cast), (cast, wide)):
        assert said(a, b)["statement"] == "not-the-same"


def test_one_number_that_no_cast_makes(wide, tmp_path):
    """One number of a cast copy is not the nearest one, but the next."""

    def change(tensors):
        in_type(torch.bfloat16)(tensors)
        tensors[DOWN].view(torch.int16)[3, 5] ^= 1

    answer = said(wide, doctored(wide, tmp_path / "b", change))
    assert answer["statement"] == "not-the-same"
    assert [tensor["tensor"] for tensor in answer["tensors"] if not tensor["agrees"]] == ["layers.1.ffn.down.weight"]


def test_the_answer_never_softens_as_noise_grows(base, tmp_path):
    worst = {"same": 0, "undecided": 1, "perturbed": 2, "different": 2}
    sizes = (0, 1e-3, 0.02, 0.3)
    answers = []
    for size in sizes:
        change = (lambda tensors, size=size: noisy(size)(tensors)) if size else exact
        answers.append(said(base, doctored(base, tmp_path / str(size), change))["verdict"])
    ranks = [worst[verdict] for verdict in answers]
    assert ranks == sorted(ranks) and ranks[0] == 0 and ranks[-1] == 2, answers


def test_a_single_gain(wide, tmp_path):
    key = "model.layers.1.post_attention_layernorm.weight"
    change = {key: weights(wide)[key].clone()}
    change[key][11] *= 1 + 3e-7
    b = doctored(wide, tmp_path / "b", lambda tensors: tensors.update(change))
    assert said(wide, b)["statement"] == "not-the-same"
