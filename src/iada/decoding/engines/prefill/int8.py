"""Linear layers in 8-bit integers.

Weights have one scale per output. Every input row is mapped to the range between its own smallest
and largest value, so the result of a row does not depend on the rest of the batch. Sums are exact.
Inputs use 7 bits: with 8, the processor's multiply-and-add of two products can overflow its 16 bits
silently.
"""

import copy

import torch
from torch import Tensor, nn

from iada.decoding.engines.prefill.cpu import ByVectors, row_blocks

_WEIGHT_LEVELS = 127
_INPUT_LEVELS = 127


class Int8Linear(nn.Module):
    """A linear layer whose weights and inputs are rounded to integers."""

    bias: Tensor
    scales: Tensor
    column_sums: Tensor
    zero_points: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Round the weights of a layer.

        Args:
            weight: (outputs, inputs), float32.
            bias: (outputs,), or None.
        """
        super().__init__()
        largest = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny)
        scales = largest / _WEIGHT_LEVELS
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        outputs = weight.shape[0]
        self.register_buffer("scales", scales)
        self.register_buffer("column_sums", rounded.float().sum(dim=1) * scales)
        self.register_buffer("zero_points", torch.zeros(outputs, dtype=torch.long))
        self.register_buffer("bias", torch.zeros(outputs) if bias is None else bias.clone())
        self.packed: Tensor = torch.ops.onednn.qlinear_prepack(rounded, None)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the layer's output.

        Args:
            inputs: (..., inputs), float32.

        Returns:
            (..., outputs)
        """
        rows = inputs.reshape(-1, inputs.shape[-1])
        # Two calls: `aminmax` along a dimension is an order of magnitude slower.
        low, high = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
        step = (high - low).clamp_(min=1e-30).div_(_INPUT_LEVELS)
        levels = (rows - low).mul_(step.reciprocal()).add_(0.5)
        # By way of signed integers, which hold 127 too: PyTorch converts to them far faster.
        integers = levels.to(torch.int8).view(torch.uint8)
        sums: Tensor = torch.ops.onednn.qlinear_pointwise(
            integers,
            1.0,
            0,
            self.packed,
            self.scales,
            self.zero_points,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )
        # An input is `low + step * integer`. A few rows at a time: those of a large vocabulary do
        # not fit into a cache together.
        for part in row_blocks(sums):
            offset = torch.addcmul(self.bias, low[part], self.column_sums)
            torch.addcmul(offset, sums[part], step[part], out=sums[part])
        return sums.view(*inputs.shape[:-1], -1)


def is_available() -> bool:
    """Tell whether this build of PyTorch has the integer kernels."""
    return torch.backends.mkldnn.is_available() and hasattr(  # type: ignore[no-untyped-call]
        torch.ops.onednn, "qlinear_pointwise"
    )


def with_int8_layers(module: nn.Module) -> nn.Module:
    """Return a copy whose linear layers are `Int8Linear`; embeddings are shared with the original.

    Activations give the same bits wherever a number stands; rectifiers do so by themselves.

    Args:
        module: in float32, on the CPU.
    """
    shared = {id(m): m for m in module.modules() if isinstance(m, nn.Embedding)}
    # Tied weights stay those of the shared embedding, so that copying does not duplicate them.
    shared_weights = {id(m.weight): m.weight for m in shared.values()}
    duplicate = copy.deepcopy(module, {**shared, **shared_weights})
    for parent in list(duplicate.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                bias = None if child.bias is None else child.bias.detach()
                setattr(parent, name, Int8Linear(child.weight.detach(), bias))
            elif name == "activation_fn" and not isinstance(child, nn.ReLU):
                setattr(parent, name, ByVectors(child))
    return duplicate
