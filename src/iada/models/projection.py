"""The last step of a model: from hidden states to logits.

The fused objective computes this step itself, so it must know it exactly. `linear_projection` says
for which models it may: those whose logits are a plain linear map of what enters the output
projection, plus a bias. What a model does before that (T5 scales its states) does not matter.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from iada.errors import ModelError


@dataclass(frozen=True)
class LinearProjection:
    """Logits are `hidden @ weight.T`, plus a bias."""

    linear: nn.Linear
    """The model's own layer, so that its weight is the one that is trained."""
    model: nn.Module
    """The model, whose buffer `final_logits_bias` is added where it has one."""

    @property
    def weight(self) -> Tensor:
        """(vocabulary, dim)."""
        return self.linear.weight

    def bias(self) -> Tensor | None:
        """(vocabulary,): the sum of all biases, in the graph of those that are trained."""
        offset: Tensor | None = getattr(self.model, "final_logits_bias", None)
        own: Tensor | None = self.linear.bias
        if offset is None:
            return own
        offset = offset.reshape(-1)
        return offset if own is None else own + offset


def output_projection(model: nn.Module) -> nn.Module:
    """Return the language-model head of a model."""
    method: Any = getattr(model, "get_output_embeddings", None)
    projection: nn.Module | None = None if method is None else method()
    if projection is None:
        raise ModelError(f"{type(model).__name__} has no output projection (language-model head).")
    return projection


def linear_projection(model: nn.Module) -> LinearProjection | None:
    """Return the projection of a model, or None if its logits are computed in another way.

    Three conditions. The head is an unchanged `nn.Linear`. The configuration names no cap of the
    logits (Gemma 2), which is nearly the identity on small logits. And on a trial input of two
    tokens the model's logits equal the head's output plus `final_logits_bias`, to the bit: a model
    that scales, caps or edits its logits in another way fails here.
    """
    head = output_projection(model)
    if not isinstance(head, nn.Linear) or type(head).forward is not nn.Linear.forward:
        return None
    settings: Any = getattr(model, "config", None)
    if getattr(settings, "final_logit_softcapping", None) is not None:
        return None
    projection = LinearProjection(head, model)
    projected: list[Tensor] = []
    handle = head.register_forward_hook(lambda _, __, output: projected.append(output))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            ids = torch.arange(2, device=head.weight.device)[None]
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
            if getattr(settings, "is_encoder_decoder", False):
                inputs["decoder_input_ids"] = ids
            logits = model(**inputs, use_cache=False, return_dict=True).logits
            offset: Tensor | None = getattr(model, "final_logits_bias", None)
            expected = [rows if offset is None else rows + offset for rows in projected]
    finally:
        handle.remove()
        model.train(training)
    return projection if len(expected) == 1 and torch.equal(logits, expected[0]) else None
