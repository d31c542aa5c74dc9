"""Attention of a search: as PyTorch computes it, or in numbers whose sums never round.

How many slots and how much padding a row has depends on the batch, and so does the order in which
attention adds. The rounding errors are far below what a float32 search notices, but 8-bit layers
blow up every one that moves an input to another integer. Between them attention therefore takes
numbers of few bits on a common grid: float32 holds every sum of their products exactly, so no order
matters, and the products run at the full speed of float32.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Integers up to 2 ** 24 are exact in float32.
_EXACT_BITS = 24
# Values get 9 bits and a sign; the shares they are added with sum to 2 ** 14, and rounding adds at
# most one half per slot, so that 2 ** 15 slots stay exact.
_VALUE_BITS = 9
_SHARE_BITS = 14


class Attention:
    """PyTorch's own."""

    def remembered(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is kept of keys and values, (rows, heads, slots, head size) each."""
        return keys, values

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        sees: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to slots.

        Args:
            query: (rows, heads, queries, head size).
            keys: as they are remembered.
            values: as they are remembered.
            sees: bool, broadcastable to (rows, heads, queries, slots); all are seen if None.
            is_causal: whether query i sees slots 0 to i alone; then `sees` is None.
            scale: factor of the scores.

        Returns:
            (rows, heads, queries, head size)
        """
        return scaled_dot_product_attention(
            query, keys, values, attn_mask=sees, is_causal=is_causal, scale=scale
        )


class FixedPointAttention(Attention):
    """The same numbers for a row, bit for bit, whatever else is in its batch; on CPUs."""

    def remembered(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Round; the last column of values is the step of the integers before it."""
        step = _step(values, _VALUE_BITS)
        return _on_grid(keys), torch.cat([(values / step).round_(), step], dim=-1)

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        sees: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to slots, as `Attention` does."""
        weights = torch.matmul(_on_grid(query), keys.transpose(2, 3)).mul_(scale)
        if is_causal:
            length = weights.shape[2]
            sees = torch.ones(length, length, dtype=torch.bool, device=query.device).tril_()
        if sees is not None:
            weights.masked_fill_(~sees, -torch.inf)
        weights.sub_(weights.amax(dim=3, keepdim=True)).exp_()
        # In float64 the order moves a sum by far less than the float32 number it becomes.
        total = weights.sum(dim=3, keepdim=True, dtype=torch.float64)
        weights.mul_(values[..., -1][:, :, None])
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
