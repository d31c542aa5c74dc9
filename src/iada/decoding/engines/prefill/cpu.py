"""What a search does for CPUs: matrices that lie ready, work that fits a cache, bits that stay.

A step multiplies few rows, some for every beam, by large matrices. The general product lays the
matrix out anew in every call, or reads it in an order that suits it badly; oneDNN does it once. The
results are those of the general product up to rounding.

PyTorch computes the numbers that do not fill a vector one by one, and for many functions their last
bit is another one; large tensors it cuts where another thread begins. So a result depends on its
place in the tensor, which is its place in the batch. Between 8-bit layers, which amplify every bit
that moves a number to another integer, that may not be.
"""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

# Numbers that one operation reads while they are in a processor's own cache.
_CACHED_VALUES = 2**18
# Two vectors of AVX-512, which PyTorch computes at a time; other processors have shorter ones.
_VECTORS = 32
# Half of what PyTorch divides among threads.
_ONE_THREAD = 2**14


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


def row_blocks(values: Tensor) -> Iterator[slice]:
    """Cut the rows of a matrix into slices that fit into a CPU's cache; one slice elsewhere."""
    rows, columns = values.shape
    size = max(1, _CACHED_VALUES // columns) if values.is_cpu else max(1, rows)
    for start in range(0, rows, size):
        yield slice(start, start + size)


def by_vectors(function: Callable[[Tensor], Tensor], numbers: Tensor) -> Tensor:
    """Put the function of each number in its place, the same bits wherever it stands.

    On CPUs numbers are given to the function in whole vectors, and never enough at once for a
    second thread.

    Args:
        function: of single numbers; may overwrite what it is given.
        numbers: contiguous, overwritten.
    """
    if not numbers.is_cpu:
        return numbers.copy_(function(numbers))
    flat = numbers.view(-1)
    whole = flat.numel() // _VECTORS * _VECTORS
    size = _ONE_THREAD if torch.get_num_threads() > 1 else max(whole, 1)
    for start in range(0, whole, size):
        part = flat[start : min(start + size, whole)]
        part.copy_(function(part))
    rest = flat[whole:]
    if rest.numel():
        filled = flat.new_zeros(_VECTORS)
        filled[: rest.numel()] = rest
        rest.copy_(function(filled)[: rest.numel()])
    return numbers


def powers_of_two(exponents: Tensor) -> Tensor:
    """Put 2 to the power of each number in its place; a third of the time that powers of e take."""
    return by_vectors(Tensor.exp2_, exponents)


class ByVectors(nn.Module):
    """An activation whose result for a number does not depend on the number's place."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the activation of every number, in its place."""
        return by_vectors(self.activation, inputs)
