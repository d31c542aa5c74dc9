"""Linear layers whose float32 weights lie ready for oneDNN.

A step of a search multiplies few rows, some for every beam, by large matrices. The general product
lays the matrix out anew in every call, or reads it in an order that suits it badly; oneDNN does it
once. The results are those of the general product up to rounding.
"""

import copy

import torch
from torch import Tensor, nn


class PackedLinear(nn.Module):
    """A linear layer in float32, on the CPU, for inference alone."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the layer's output; (..., inputs) in, (..., outputs) out."""
        outputs: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs.contiguous(), self.packed, self.bias, "none", [], ""
        )
        return outputs


def can_pack(model: nn.Module) -> bool:
    """Whether this build of PyTorch has the kernels, and the model the type and place for them."""
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and all(one.dtype == torch.float32 and one.is_cpu for one in model.parameters())
    )


def with_packed_layers(module: nn.Module) -> nn.Module:
    """Return the module with `PackedLinear` in place of its linear layers.

    The original stays as it is. All other parameters are shared, and so is everything that hangs
    on the modules: a model that is being validated in the middle of its training has hooks, and
    what they hold must not be copied.

    Args:
        module: see `can_pack`.
    """
    if isinstance(module, nn.Linear):
        return PackedLinear(module)
    view = copy.copy(module)
    view._modules = {
        name: None if child is None else with_packed_layers(child)
        for name, child in module._modules.items()
    }
    return view
