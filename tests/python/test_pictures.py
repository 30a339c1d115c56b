"""Pictures in a text: the lab's forward pass on vectors among tokens against transformers' on pixels."""

import pytest
import torch
from pictures import MODELS_WITH_PICTURES, token_of_pictures, with_picture
from test_lab_parity import draw_inputs, error, forward, make


# Those whose pictures stand in a text as any other token does: in one row of positions, and behind one another.
AS_TOKENS = [name for name in MODELS_WITH_PICTURES if name.startswith(("llava", "mistral3", "internvl"))]


@pytest.mark.parametrize("name", AS_TOKENS)
def test_vectors_among_tokens(lab, tmp_path, name):
    """What the last map of the projector reads, in place of the picture's tokens."""
    cls = make(name, tmp_path / "model")
    config = MODELS_WITH_PICTURES[name][1]
    inputs = with_picture(config, draw_inputs(config, seed=2)[0]["input_ids"][:2])
    model = cls.from_pretrained(tmp_path / "model", dtype=torch.float64, attn_implementation="eager").eval()
    read = []
    model.model.multi_modal_projector.linear_2.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    with torch.no_grad():
        theirs = model(**inputs).logits
    tokens = inputs["input_ids"]
    here = tokens == token_of_pictures(config)
    vectors = torch.zeros(*tokens.shape, read[0].shape[-1])
    vectors[here] = read[0].reshape(-1, read[0].shape[-1]).float()
    tokens[here] = -1
    given = {"tokens": tokens, "vectors": vectors}
    assert error(forward(lab, tmp_path / "model", given, tmp_path, True)["outputs"], theirs) <= 1e-5
    given["vectors"] = vectors.roll(1, -1).contiguous()
    assert error(forward(lab, tmp_path / "model", given, tmp_path, True)["outputs"], theirs) > 1e-2
