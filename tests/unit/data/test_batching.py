"""Batches by token budget: complete, within the budget, equal for all processes."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iada.data.batching import TokenBatchSampler
from iada.data.store import Offsets
from iada.errors import ConfigError

BUDGET = 40


def sampler(
    lengths: list[tuple[int, int]], *, seed: int = 1, rank: int = 0, processes: int = 1
) -> TokenBatchSampler:
    return TokenBatchSampler(
        np.array(lengths, dtype=np.int64),
        max_tokens=BUDGET,
        seed=seed,
        rank=rank,
        processes=processes,
    )


def in_order(batches: list[Offsets]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


lengths_strategy = st.lists(
    st.tuples(st.integers(1, BUDGET), st.integers(1, BUDGET)), min_size=1, max_size=40
)


@settings(max_examples=60, deadline=None)
@given(lengths_strategy, st.integers(0, 3), st.integers(1, 4))
def test_a_plan_covers_every_window_once_within_the_budget(
    lengths: list[tuple[int, int]], epoch: int, processes: int
) -> None:
    assume(len(lengths) >= processes)
    try:
        plan = sampler(lengths, processes=processes).plan(epoch)
    except ConfigError:
        # Only one window too few for an even split can be the cause.
        assert len(lengths) % processes
        return
    assert sorted(window for batch in plan for window in batch.tolist()) == list(
        range(len(lengths))
    )
    for batch in plan:
        longest = max(max(lengths[window]) for window in batch)
        assert len(batch) * longest <= BUDGET


@settings(max_examples=60, deadline=None)
@given(lengths_strategy, st.integers(2, 4))
def test_processes_share_the_plan_and_have_equally_many_batches(
    lengths: list[tuple[int, int]], processes: int
) -> None:
    assume(len(lengths) >= processes)
    try:
        ranks = [sampler(lengths, rank=r, processes=processes) for r in range(processes)]
    except ConfigError:
        assert len(lengths) % processes
        return
    shares = [list(rank) for rank in ranks]
    assert {len(share) for share in shares} == {len(ranks[0])}
    taken = [window for share in shares for batch in share for _, window in batch]
    assert sorted(taken) == list(range(len(lengths)))
    interleaved = [batch for group in zip(*shares, strict=True) for batch in group]
    plan = in_order(ranks[0].plan(0))
    assert [[window for _, window in batch] for batch in interleaved] == plan


@settings(max_examples=30, deadline=None)
@given(lengths_strategy, st.integers(0, 5))
def test_the_plan_is_a_function_of_seed_and_epoch(
    lengths: list[tuple[int, int]], epoch: int
) -> None:
    used = sampler(lengths)
    list(used)
    list(used)
    assert in_order(used.plan(epoch)) == in_order(sampler(lengths).plan(epoch))


@settings(max_examples=30, deadline=None)
@given(lengths_strategy)
def test_every_epoch_has_the_same_number_of_batches(lengths: list[tuple[int, int]]) -> None:
    batches = sampler(lengths)
    assert {len(batches.plan(epoch)) for epoch in range(4)} == {len(batches)}


def test_another_seed_or_epoch_gives_another_order() -> None:
    lengths = [(10, 10)] * 40
    first = in_order(sampler(lengths).plan(0))
    assert first != in_order(sampler(lengths).plan(1))
    assert first != in_order(sampler(lengths, seed=2).plan(0))


def test_windows_of_like_length_share_a_batch() -> None:
    # A budget of 40 holds four rows of 10 or two of 20; the longer side counts.
    batches = sampler([(10, 3), (2, 20), (10, 9), (20, 20), (1, 10), (7, 10)]).plan(0)
    assert sorted(sorted(batch.tolist()) for batch in batches) == [[0, 2, 4, 5], [1, 3]]


def test_batches_carry_the_epoch_in_which_they_are_drawn() -> None:
    batches = sampler([(10, 10)] * 3)
    assert [key for batch in batches for key in sorted(batch)] == [(0, 0), (0, 1), (0, 2)]
    batches.set_epoch(7)
    assert [key for batch in batches for key in sorted(batch)] == [(7, 0), (7, 1), (7, 2)]


def test_a_batch_is_halved_when_processes_would_get_unequal_shares() -> None:
    # Four rows fit in one batch, so two processes get two each.
    assert sorted(map(len, sampler([(10, 10)] * 4, processes=2).plan(0))) == [2, 2]


def test_fewer_windows_than_processes_are_refused() -> None:
    with pytest.raises(ConfigError, match="1 windows cannot be shared by 2 processes"):
        sampler([(1, 1)], processes=2)


def test_full_batches_that_cannot_be_halved_are_refused() -> None:
    message = r"3 windows that fill a batch each cannot be shared evenly by 2 processes.*max_tokens"
    with pytest.raises(ConfigError, match=message):
        sampler([(40, 40)] * 3, processes=2)


def test_there_is_no_batch_size_to_mislead_the_trainer() -> None:
    assert not hasattr(sampler([(1, 1)]), "batch_size")
