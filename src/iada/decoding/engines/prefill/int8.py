"""Linear layers in 8-bit integers, and an attention between them whose sums never round.

Weights have one scale per output. Every input row is mapped to the range between its own smallest
and largest value, so the result of a row does not depend on the rest of the batch. Sums are exact.
Inputs use 7 bits: with 8, the processor's multiply-and-add of two products can overflow its 16 bits
silently.

The number of cache entries and the padding of a row depend on the batch, and so does the order in
which attention adds. The rounding errors are far below what changes a float32 search, but 8-bit
layers amplify every one that moves an input to another integer. Between them attention therefore
takes numbers of few bits on a common grid: float32 holds every sum of their products exactly, so
the order does not matter, and the products run at the full speed of float32.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from iada.decoding.engines.prefill.search import row_blocks

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
        integers = (rows - low).div_(step).add_(0.5).to(torch.uint8)
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
    return duplicate


# Integers up to 2 ** 24 are exact in float32.
_EXACT_BITS = 24
# Values get 9 bits and a sign; the shares they are added with sum to 2 ** 14, and rounding adds at
# most one half per entry, so that 2 ** 15 entries stay exact.
_VALUE_BITS = 9
_SHARE_BITS = 14


class Attention:
    """Attention as PyTorch computes it."""

    def to_cache(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values as cached, (rows, heads, entries, head size) each."""
        return keys, values

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        attention_mask: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to cache entries.

        Args:
            query: (rows, heads, queries, head size).
            keys: from `to_cache`.
            values: from `to_cache`.
            attention_mask: bool, broadcastable to (rows, heads, queries, entries); None for all.
            is_causal: whether query i attends to entries 0 to i alone, without a mask.
            scale: factor of the scores.

        Returns:
            (rows, heads, queries, head size)
        """
        return scaled_dot_product_attention(
            query, keys, values, attn_mask=attention_mask, is_causal=is_causal, scale=scale
        )


class FixedPointAttention(Attention):
    """The same numbers for a row, bit for bit, whatever else is in its batch; on CPUs."""

    def to_cache(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Round; the last column of values is the step of the integers before it."""
        step = _step(values, _VALUE_BITS)
        return _on_grid(keys), torch.cat([(values / step).round_(), step], dim=-1)

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        attention_mask: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to cache entries, as `Attention` does."""
        weights = torch.matmul(_on_grid(query), keys.transpose(2, 3)).mul_(scale)
        if is_causal:
            length = weights.shape[2]
            every = torch.ones(length, length, dtype=torch.bool, device=query.device)
            attention_mask = every.tril_()
        if attention_mask is not None:
            weights.masked_fill_(~attention_mask, -torch.inf)
        weights.sub_(weights.amax(dim=3, keepdim=True)).exp_()
        # In float64 the order moves a sum by far less than the float32 number it becomes.
        total = weights.sum(dim=3, keepdim=True, dtype=torch.float64)
        weights.mul_(values[..., -1].contiguous()[:, :, None])
        scaled_total = weights.sum(dim=3, keepdim=True, dtype=torch.float64)
        shares = weights.mul_((2**_SHARE_BITS / scaled_total).to(weights.dtype)).round_()
        sums = torch.matmul(shares, values[..., :-1])
        return sums.mul_((scaled_total / total / 2**_SHARE_BITS).to(sums.dtype))


def _on_grid(vectors: Tensor) -> Tensor:
    """Round (..., head size) so that scalar products of such vectors are exact in float32."""
    size = vectors.shape[-1]
    bits = (_EXACT_BITS - (size - 1).bit_length()) // 2
    step = _step(vectors, bits)
    return (vectors / step).round_().mul_(step)


def _step(vectors: Tensor, bits: int) -> Tensor:
    """Return a power of two for each vector, (..., 1), of which no number has 2 ** bits or more."""
    largest = vectors.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-30)
    mantissa = torch.frexp(largest).mantissa
    return largest / mantissa / 2.0**bits
