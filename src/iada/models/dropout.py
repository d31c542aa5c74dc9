"""Dropout that remembers which values it dropped in a byte each.

On a CPU, PyTorch's dropout keeps a whole factor for every value, four times as much, and blocks of
as many sizes leave gaps in the heap.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


def store_masks_in_bytes(model: Any) -> None:
    """Let the layers of a stock Marian model drop with masks of bytes; rates stay what they are.

    Args:
        model: a `MarianMTModel`. What it saves and what it computes without dropout do not change.
    """
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        dropped: list[nn.Module] = [layer.self_attn.out_proj, layer.fc2]
        if hasattr(layer, "encoder_attn"):
            dropped.append(layer.encoder_attn.out_proj)
        for linear in dropped:
            linear.register_forward_hook(partial(_drop, layer.dropout))
        # The layer itself drops right after each of them; once is enough.
        layer.dropout = 0.0


def _drop(rate: float, module: nn.Module, _: tuple[Any, ...], output: Tensor) -> Tensor:
    if not module.training or rate == 0:
        return output
    kept: Tensor = torch.native_dropout(output, rate, True)[0]
    return kept
