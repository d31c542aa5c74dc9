"""Attention between 8-bit layers: near PyTorch's own, and the same bits whatever the batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from iada.decoding.engines.prefill.int8 import Attention, FixedPointAttention


def states(seed: int, entries: int, size: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of two rows and three heads, some vectors far larger than others."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(length: int) -> Tensor:
        vectors = torch.randn(2, 3, length, size, generator=generator)
        return vectors * torch.rand(2, 3, length, 1, generator=generator) * 4

    return drawn(5), drawn(entries), drawn(entries)


def attended(
    attention: Attention,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
) -> Tensor:
    kept = attention.to_cache(keys, values)
    return attention.attend(query, *kept, mask, is_causal=is_causal, scale=0.125)


def test_two_entries_by_hand() -> None:
    query, keys = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 2, 2)
    values = torch.tensor([[[[1.0, -2.0], [3.0, 0.5]]]])
    found = attended(FixedPointAttention(), query, keys, values)
    assert torch.equal(found, torch.tensor([[[[2.0, -0.75]]]]))


@pytest.mark.parametrize("size", [8, 64, 96, 128])
def test_it_is_near_attention_in_floats(size: int) -> None:
    query, keys, values = states(1, 150, size)
    query = query / 4
    mask = torch.rand(2, 1, 5, 150, generator=torch.Generator().manual_seed(2)) > 0.3
    exact = attended(Attention(), query, keys, values, mask)
    rounded = attended(FixedPointAttention(), query, keys, values, mask)
    assert (rounded - exact).norm() < 0.015 * exact.norm()


def test_a_query_does_not_see_later_entries() -> None:
    query, keys, values = states(3, 5)
    found = attended(FixedPointAttention(), query, keys, values, is_causal=True)
    for number in range(5):
        seen = slice(0, number + 1)
        alone = attended(
            FixedPointAttention(),
            query[:, :, number : number + 1],
            keys[:, :, seen],
            values[:, :, seen],
        )
        assert torch.equal(found[:, :, number : number + 1], alone)


@given(seed=st.integers(0, 10**6), entries=st.integers(1, 300), padding=st.integers(0, 40))
def test_order_and_padding_change_no_bit(seed: int, entries: int, padding: int) -> None:
    query, keys, values = states(seed, entries)
    alone = attended(FixedPointAttention(), query[:1, :, :2], keys[:1], values[:1])
    order = torch.randperm(entries + padding, generator=torch.Generator().manual_seed(seed))
    _, more_keys, more_values = states(seed + 1, padding)
    together = attended(
        FixedPointAttention(),
        query,
        torch.cat([keys, more_keys], dim=2)[:, :, order],
        torch.cat([values, more_values], dim=2)[:, :, order],
        (order < entries)[None, None, None],
    )
    assert torch.equal(together[:1, :, :2], alone)


def test_in_floats_order_does_change_bits() -> None:
    """Or else there would be nothing to mend."""
    query, keys, values = states(5, 150)
    backwards = attended(Attention(), query, keys.flip(2), values.flip(2))
    assert not torch.equal(attended(Attention(), query, keys, values), backwards)


@pytest.mark.parametrize("factor", [1e-20, 1.0, 1e20])
def test_scalar_products_are_exact(factor: float) -> None:
    """As large as they get: all numbers near the largest, all products of one sign."""
    query = torch.rand(2, 3, 5, 64, generator=torch.Generator().manual_seed(6)) * 0.01 + 0.99
    keys, _ = FixedPointAttention().to_cache(query / factor, query)
    same, _ = FixedPointAttention().to_cache(query * factor, query)
    exact = same.double() @ keys.double().transpose(2, 3)
    assert torch.equal((same @ keys.transpose(2, 3)).double(), exact)


def test_zeros_are_remembered_as_zeros() -> None:
    keys, values = FixedPointAttention().to_cache(torch.zeros(1, 1, 2, 8), torch.zeros(1, 1, 2, 8))
    assert not keys.any()
    assert not values[..., :-1].any()
    assert not torch.isnan(values).any()
