"""Batches by token budget: complete, within the budget, equal for all processes."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iada.data.prepared.store import Offsets
from iada.data.windows.sampler import TokenBatchSampler
from iada.errors import ConfigError

BUDGET = 40
Keys = list[tuple[int, int]]


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


# Some windows are longer than the budget by themselves.
lengths_strategy = st.lists(
    st.tuples(st.integers(1, BUDGET + 5), st.integers(1, BUDGET + 5)), min_size=1, max_size=60
)


def shares_of(lengths: list[tuple[int, int]], processes: int, epoch: int) -> list[list[Keys]]:
    """The batches of each process; none if the windows cannot be shared evenly."""
    ranks = [sampler(lengths, rank=rank, processes=processes) for rank in range(processes)]
    for rank in ranks:
        rank.set_epoch(epoch)
    assert {len(rank) for rank in ranks} == {len(list(rank)) for rank in ranks}
    return [list(rank) for rank in ranks]


@settings(max_examples=150, deadline=None)
@given(lengths_strategy, st.integers(0, 3), st.integers(1, 9))
def test_every_window_is_in_one_batch_of_one_process_within_the_budget(
    lengths: list[tuple[int, int]], epoch: int, processes: int
) -> None:
    assume(len(lengths) >= processes)
    try:
        shares = shares_of(lengths, processes, epoch)
    except ConfigError:
        # Only windows that cannot be shared evenly even one by one can be the cause.
        assert len(lengths) % processes
        return
    assert len({len(share) for share in shares}) == 1
    batches = [batch for share in shares for batch in share]
    assert sorted(key for batch in batches for key in batch) == [
        (epoch, window) for window in range(len(lengths))
    ]
    for batch in batches:
        longest = max(max(lengths[window]) for _, window in batch)
        assert len(batch) * longest <= BUDGET or len(batch) == 1


@settings(max_examples=60, deadline=None)
@given(lengths_strategy, st.integers(2, 4))
def test_processes_take_turns_in_the_plan(lengths: list[tuple[int, int]], processes: int) -> None:
    assume(len(lengths) >= processes)
    try:
        shares = shares_of(lengths, processes, 0)
    except ConfigError:
        assert len(lengths) % processes
        return
    interleaved = [batch for group in zip(*shares, strict=True) for batch in group]
    plan = in_order(sampler(lengths, processes=processes).plan(0))
    assert [[window for _, window in batch] for batch in interleaved] == plan


@settings(max_examples=100, deadline=None)
@given(lengths_strategy)
def test_batches_are_as_full_as_the_order_by_length_allows(
    lengths: list[tuple[int, int]],
) -> None:
    expected = []
    rows = 0
    for longest in sorted(max(pair) for pair in lengths):
        if rows and (rows + 1) * longest > BUDGET:
            expected.append(rows)
            rows = 0
        rows += 1
    expected.append(rows)
    assert sorted(map(len, sampler(lengths).plan(0))) == sorted(expected)


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


def test_windows_whose_sides_differ_alike_share_a_batch() -> None:
    # Two rows of 20: long sources together and long targets together, whatever the seed.
    lengths = [(20, 2), (2, 20), (20, 2), (2, 20)]
    for seed in range(5):
        batches = in_order(sampler(lengths, seed=seed).plan(0))
        assert sorted(map(sorted, batches)) == [[0, 2], [1, 3]]


def test_a_batch_of_two_lengths_joins_windows_whose_sides_differ_alike() -> None:
    # One length runs from long targets to long sources, the next one back.
    lengths = [(9, 1), (1, 9), (10, 2), (2, 10), (10, 2), (2, 10), (10, 2)] * 3
    plan = sampler(lengths).plan(0)
    mixed = [batch for batch in plan if len({max(lengths[w]) for w in batch}) == 2]
    assert len(mixed) == 1
    assert {lengths[w][0] > lengths[w][1] for w in mixed[0]} == {True}


def test_like_windows_meet_others_in_every_epoch() -> None:
    # 40 windows of the same lengths, four to a batch: few companions stay the same.
    batches = sampler([(10, 10)] * 40)
    companions = []
    for epoch in range(2):
        plan = in_order(batches.plan(epoch))
        companions.append({frozenset(p) for b in plan for p in combinations(b, 2)})
    assert len(companions[0] & companions[1]) < 20


def test_the_order_of_batches_is_not_the_order_of_lengths() -> None:
    lengths = [(length, length) for length in range(11, 31)]
    firsts = [lengths[batch[0]][0] for batch in sampler(lengths).plan(0)]
    assert firsts != sorted(firsts)
    assert firsts != sorted(firsts, reverse=True)


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


@settings(max_examples=60, deadline=None)
@given(lengths_strategy, st.sampled_from([2, 8, 16]))
def test_lengths_that_are_padded_to_a_multiple_stay_within_the_budget(
    lengths: list[tuple[int, int]], multiple: int
) -> None:
    table = np.array(lengths, dtype=np.int64)
    plan = TokenBatchSampler(table, max_tokens=BUDGET, seed=1, length_multiple=multiple).plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    for batch in plan:
        longest = int(np.ceil(table[batch].max() / multiple)) * multiple
        assert len(batch) == 1 or len(batch) * longest <= BUDGET


def test_padding_to_a_multiple_leaves_few_shapes() -> None:
    random = np.random.default_rng(1)
    lengths = random.integers(1, BUDGET + 1, size=(2000, 2))

    def shapes(multiple: int) -> int:
        plan = TokenBatchSampler(lengths, max_tokens=400, seed=1, length_multiple=multiple).plan(0)
        widths = [-(-lengths[batch].max(axis=0) // multiple) * multiple for batch in plan]
        return len({(len(batch), *width) for batch, width in zip(plan, widths, strict=True)})

    assert shapes(1) > 4 * shapes(8) > 0
