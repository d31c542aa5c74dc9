"""Attention between 8-bit layers: near PyTorch's own, and the same bits whatever the batch."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from iada.decoding.engines.prefill.attention import Attention, CPUAttention, FixedPointAttention

TYPES = (torch.float32, torch.bfloat16)
both_types = pytest.mark.parametrize("dtype", TYPES)


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
    taken = None if mask is None else attention.to_mask(mask)
    return attention.attend(query, *kept, taken, is_causal=is_causal, scale=0.125)


@both_types
def test_two_entries_by_hand(dtype: torch.dtype) -> None:
    query, keys = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 2, 2)
    values = torch.tensor([[[[1.0, -2.0], [3.0, 0.5]]]])
    found = attended(FixedPointAttention(dtype), query, keys, values)
    assert torch.equal(found, torch.tensor([[[[2.0, -0.75]]]]))


@pytest.mark.parametrize("is_causal", [False, True])
def test_with_keys_in_the_order_of_a_product_it_is_the_same(is_causal: bool) -> None:
    query, keys, values = states(1, 5)
    mask = None if is_causal else torch.ones(2, 1, 5, 5, dtype=torch.bool).tril_()
    expected = attended(Attention(), query, keys, values, mask, is_causal=is_causal)
    found = attended(CPUAttention(), query, keys, values, mask, is_causal=is_causal)
    torch.testing.assert_close(found, expected)


@both_types
@pytest.mark.parametrize("size", [8, 64, 96, 128])
def test_it_is_near_attention_in_floats(dtype: torch.dtype, size: int) -> None:
    query, keys, values = states(1, 150, size)
    query = query / 4
    mask = torch.rand(2, 1, 5, 150, generator=torch.Generator().manual_seed(2)) > 0.3
    exact = attended(Attention(), query, keys, values, mask)
    rounded = attended(FixedPointAttention(dtype), query, keys, values, mask)
    assert (rounded - exact).norm() < 0.015 * exact.norm()


@both_types
def test_a_query_does_not_see_later_entries(dtype: torch.dtype) -> None:
    query, keys, values = states(3, 5)
    found = attended(FixedPointAttention(dtype), query, keys, values, is_causal=True)
    for number in range(5):
        seen = slice(0, number + 1)
        alone = attended(
            FixedPointAttention(dtype),
            query[:, :, number : number + 1],
            keys[:, :, seen],
            values[:, :, seen],
        )
        assert torch.equal(found[:, :, number : number + 1], alone)


# The last numbers of a tensor were once computed in another way than the rest.
@example(dtype=torch.bfloat16, seed=12549, entries=37, padding=0)
@given(
    dtype=st.sampled_from(TYPES),
    seed=st.integers(0, 10**6),
    entries=st.integers(1, 300),
    padding=st.integers(0, 40),
)
def test_order_and_padding_change_no_bit(
    dtype: torch.dtype, seed: int, entries: int, padding: int
) -> None:
    query, keys, values = states(seed, entries)
    alone = attended(FixedPointAttention(dtype), query[:1, :, :2], keys[:1], values[:1])
    order = torch.randperm(entries + padding, generator=torch.Generator().manual_seed(seed))
    _, more_keys, more_values = states(seed + 1, padding)
    together = attended(
        FixedPointAttention(dtype),
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


@both_types
@pytest.mark.parametrize("size", [64, 128, 256])
@pytest.mark.parametrize("factor", [1e-20, 1.0, 1e20])
def test_scalar_products_are_exact(dtype: torch.dtype, size: int, factor: float) -> None:
    """As large as they get: all numbers near the largest, all products of one sign."""
    query = torch.rand(2, 3, 5, size, generator=torch.Generator().manual_seed(6)) * 0.01 + 0.99
    keys, _ = FixedPointAttention(dtype).to_cache(query / factor, query)
    same, _ = FixedPointAttention(dtype).to_cache(query * factor, query)
    exact = same.double().transpose(2, 3) @ keys.double()
    # Rounded once, when the sum is written; float32 has nothing to round.
    assert torch.equal(same.transpose(2, 3) @ keys, exact.to(dtype))
    assert dtype == torch.bfloat16 or torch.equal(exact.to(dtype).double(), exact)


@both_types
def test_zeros_are_remembered_as_zeros(dtype: torch.dtype) -> None:
    nothing = torch.zeros(1, 1, 2, 8)
    keys, values = FixedPointAttention(dtype).to_cache(nothing, nothing)
    assert not keys.any()
    assert not values[..., :-1].any()
    assert not torch.isnan(values).any()


@pytest.mark.parametrize(
    "attention", [Attention(), CPUAttention(), *map(FixedPointAttention, TYPES)]
)
def test_scores_may_be_added(attention: Attention) -> None:
    query, keys, values = states(7, 20)
    generator = torch.Generator().manual_seed(8)
    added = torch.randn(2, 3, 5, 20, generator=generator)
    allowed = torch.rand(2, 1, 5, 20, generator=generator) > 0.3
    scores = (query @ keys.transpose(2, 3)) * 0.125 + added
    expected = scores.masked_fill(~allowed, -torch.inf).softmax(dim=3) @ values
    mask = attention.add_scores(attention.to_mask(allowed), added)
    kept = attention.to_cache(keys, values)
    found = attention.attend(query, *kept, mask, is_causal=False, scale=0.125)
    assert (found - expected).norm() < 0.03 * expected.norm()
