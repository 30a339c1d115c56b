"""All outputs of a model of transformers that count as its function."""

import torch
from towers import declared_of_towers


def declared_outputs(model, *inputs, **named):
    """In the order of Architecture's outputs: words, classes, hidden states, pooler. One is given as it is, several
    one after another in a row for each sequence."""
    if (of_towers := declared_of_towers(model, *inputs, **named)) is not None:
        return of_towers
    result = model(*inputs, **named)
    if "prediction_logits" in result:
        order = "sop_logits" if "sop_logits" in result else "seq_relationship_logits"  # of two sentences
        found = [result.prediction_logits, result[order]]
    elif "distillation_logits" in result:
        found = [torch.cat([result.cls_logits, result.distillation_logits], -1)]
    elif "start_logits" in result:
        found = [torch.stack([result.start_logits, result.end_logits], -1)]
    else:
        found = [result.logits if "logits" in result else result.last_hidden_state]
    if type(model).__name__ == "ElectraForPreTraining":
        found = [found[0].unsqueeze(-1)]  # one number of every position
    base = model.base_model
    # Classes may read the pooler; BEiT's has no map of its own.
    of_classes = type(model).__name__.endswith(("ForSequenceClassification", "ForImageClassification"))
    if getattr(base, "pooler", None) is not None and not of_classes and model.config.model_type != "beit":
        found.append(base(*inputs, **named).pooler_output)
    if hasattr(base, "contact_head"):
        model.set_attn_implementation("eager")  # which alone gives patterns
        tokens = inputs[0] if inputs else named["input_ids"]
        found.append(base.predict_contacts(tokens, torch.ones_like(tokens)))
    return found[0] if len(found) == 1 else torch.cat([output.flatten(1) for output in found], 1)
