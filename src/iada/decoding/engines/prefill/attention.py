"""Attention of a search: PyTorch's own, one for CPUs, and one whose sums never round for int8.

The number of cache entries and the padding of a row depend on the batch, and so does the order in
which attention adds. The rounding errors are far below what changes a float32 search, but 8-bit
layers amplify every one that moves an input to another integer. Between them attention therefore
takes numbers of few bits on a common grid: float32 holds every sum of their products exactly, so
the order does not matter, and the products run at the full speed of float32, or of bfloat16.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from iada.decoding.engines.prefill.cpu import powers_of_two

# Integers up to 2 ** 24 are exact in float32, in which products of both types are added.
_EXACT_BITS = 24
# Shares sum to 2 ** 14, and rounding adds at most one half per entry, so that with values of 9 bits
# and a sign 2 ** 15 entries stay exact.
_SHARE_BITS = 14
_VALUE_BITS = 9
_HELD_BITS = {torch.float32: 24, torch.bfloat16: 8}
"""The bits of an integer that each type holds."""


class Attention:
    """Attention as PyTorch computes it."""

    key_entries = 2
    """The dimension of cached keys that counts the entries."""

    def to_cache(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is kept of keys and values, (rows, heads, entries, head size) each."""
        return keys, values

    def to_mask(self, allowed: Tensor) -> Tensor:
        """Return what `attend` takes to attend to the allowed entries alone.

        Args:
            allowed: bool, broadcastable to (rows, heads, queries, entries).
        """
        return allowed

    def add_scores(self, mask: Tensor, scores: Tensor) -> Tensor:
        """Return a mask that also adds to the scores of the entries that it allows.

        Args:
            mask: from `to_mask`.
            scores: (rows, heads, queries, entries), after scaling.
        """
        return scores.masked_fill(~mask, -torch.inf)

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to cache entries.

        Args:
            query: (rows, heads, queries, head size).
            keys: from `to_cache`.
            values: from `to_cache`.
            mask: from `to_mask`; None for all entries.
            is_causal: whether query i attends to entries 0 to i alone, without a mask.
            scale: factor of the scores.

        Returns:
            (rows, heads, queries, head size)
        """
        return scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, is_causal=is_causal, scale=scale
        )


class CPUAttention(Attention):
    """The same on a CPU, which reads keys in the order in which it multiplies by them.

    A step has a query for each beam, five or so: too few for PyTorch's own to be fast.
    """

    key_entries = 3

    def to_cache(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys as (rows, heads, head size, entries), and values as they are."""
        return keys.transpose(2, 3).contiguous(), values

    def to_mask(self, allowed: Tensor) -> Tensor:
        """Return what is added to the scores."""
        return torch.zeros(allowed.shape).masked_fill_(~allowed, -torch.inf)

    def add_scores(self, mask: Tensor, scores: Tensor) -> Tensor:
        """Return the sum of what is added to the scores."""
        return scores + mask

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to cache entries, as `Attention` does."""
        scores = torch.matmul(query, keys).mul_(scale)
        return torch.matmul(self._masked(scores, mask, is_causal).softmax(dim=3), values)

    def _masked(self, scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        if is_causal:
            length = scores.shape[2]
            mask = self.to_mask(torch.ones(length, length, dtype=torch.bool).tril_())
        return scores if mask is None else scores.add_(mask)


class FixedPointAttention(CPUAttention):
    """The same numbers for a row, bit for bit, whatever else is in its batch; on CPUs.

    A step of a search does little with each key and value that it reads, so half as many bytes take
    about half the time. In bfloat16 a score and a result are rounded once more when their exact sum
    is written; the layers before and after round by far more.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        """Choose the type of keys, values and products.

        Args:
            dtype: float32, or bfloat16 where the processor multiplies it.
        """
        self.dtype = dtype

    def to_cache(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Round.

        Returns:
            Keys as (rows, heads, head size, entries), and (rows, heads, entries, head size + 1)
            integers of the values, the last column of which is their step.
        """
        step = _step(values, min(_VALUE_BITS, _HELD_BITS[self.dtype]))
        integers = torch.cat([(values / step).round_(), step], dim=-1)
        kept = self._on_grid(keys).transpose(2, 3).contiguous()
        return kept, integers.to(self.dtype)

    def add_scores(self, mask: Tensor, scores: Tensor) -> Tensor:
        """Return the sum of what is added to the scores, which are powers of two here."""
        return super().add_scores(mask, scores * math.log2(math.e))

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        """Attend to cache entries, as `Attention` does."""
        scores = torch.matmul(self._on_grid(query), keys).float()
        scores = self._masked(scores.mul_(scale * math.log2(math.e)), mask, is_causal)
        weights = powers_of_two(scores.sub_(scores.amax(dim=3, keepdim=True)))
        # In float64 the order moves a sum by far less than the float32 number it becomes.
        total = weights.sum(dim=3, keepdim=True, dtype=torch.float64)
        weights.mul_(values[..., -1].float()[:, :, None])
        scaled_total = weights.sum(dim=3, keepdim=True, dtype=torch.float64)
        shares = weights.mul_((2**_SHARE_BITS / scaled_total).float()).round_()
        sums = torch.matmul(shares.to(self.dtype), values[..., :-1]).float()
        return sums.mul_((scaled_total / total / 2**_SHARE_BITS).float())

    def _on_grid(self, vectors: Tensor) -> Tensor:
        """Round (..., head size) so that scalar products of such vectors are exact in float32."""
        size = vectors.shape[-1]
        bits = min((_EXACT_BITS - (size - 1).bit_length()) // 2, _HELD_BITS[self.dtype])
        step = _step(vectors, bits)
        return (vectors / step).round_().mul_(step).to(self.dtype)


def _step(vectors: Tensor, bits: int) -> Tensor:
    """Return a power of two for each vector, (..., 1), of which no number has 2 ** bits or more."""
    largest = vectors.abs().amax(dim=-1, keepdim=True).clamp_(min=1e-30)
    mantissa = torch.frexp(largest).mantissa
    return largest / mantissa / 2.0**bits
