"""Dropout that is cheap on CPUs.

There, PyTorch's own makes a draw for every value, which takes as long as a good part of the matrix
products of a small model, and keeps a whole factor for each, in blocks that leave gaps in the heap.
Here four values share a draw of 64 bits, and a byte remembers whether a value was dropped.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

_BITS = 16
_VALUES_PER_DRAW = 4


def use_cheap_dropout(model: Any) -> None:
    """Let the layers of a stock Marian model drop with `drop`; their rates stay what they are.

    Args:
        model: a `MarianMTModel`. What it saves and what it computes without dropout do not change.
    """
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        dropped: list[nn.Module] = [layer.self_attn.out_proj, layer.fc2]
        if hasattr(layer, "encoder_attn"):
            dropped.append(layer.encoder_attn.out_proj)
        for linear in dropped:
            linear.register_forward_hook(partial(_drop_output, layer.dropout))
        # The layer itself drops right after each of them; once is enough.
        layer.dropout = 0.0


def drop(values: Tensor, rate: float) -> Tensor:
    """Set values to zero with a probability, and scale the others so that the mean stays.

    Args:
        values: of any shape.
        rate: the probability, to 16 bits on CPUs; less than one.
    """
    if values.device.type != "cpu":
        kept: Tensor = torch.native_dropout(values, rate, True)[0]
        return kept
    result: Tensor = _CpuDropout.apply(values, rate)  # type: ignore[no-untyped-call]
    return result


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        draws = torch.empty(-(-values.numel() // _VALUES_PER_DRAW), dtype=torch.int64)
        numbers = draws.random_(-(2**63), None).view(torch.int16)[: values.numel()]
        dropped = round(rate * 2**_BITS)
        # The numbers begin at the smallest of 16 bits with a sign.
        kept = (numbers >= dropped - 2 ** (_BITS - 1)).view(values.shape)
        ctx.save_for_backward(kept)
        ctx.scale = 2**_BITS / (2**_BITS - dropped)
        return values.mul(kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return gradients[0].mul(kept).mul_(ctx.scale), None


def _drop_output(rate: float, module: nn.Module, _: tuple[Any, ...], output: Tensor) -> Tensor:
    return drop(output, rate) if module.training and rate else output
