"""Subsets: whole documents, nested, and no more of them than needed."""

from fractions import Fraction
from hashlib import sha256

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.windows.conditions import SHARES, describe_subsets, subset_documents

document_sizes = st.lists(st.integers(1, 30), min_size=1, max_size=40)
# Shares as people write them.
shares = st.integers(1, 100).map(lambda percent: percent / 100)
seeds = st.integers(0, 2**31)


def sentences(sizes: list[int], documents: list[int]) -> int:
    return sum(sizes[document] for document in documents)


@settings(max_examples=100, deadline=None)
@given(document_sizes, shares, shares, seeds)
def test_a_smaller_subset_is_part_of_a_larger_one(
    sizes: list[int], share: float, other: float, seed: int
) -> None:
    low, high = sorted((share, other))
    smaller = subset_documents(np.array(sizes), low, seed).tolist()
    larger = subset_documents(np.array(sizes), high, seed).tolist()
    assert set(smaller) <= set(larger)
    assert smaller == sorted(set(smaller))


@settings(max_examples=100, deadline=None)
@given(document_sizes, st.integers(1, 100), seeds)
def test_the_share_is_reached_with_the_fewest_documents(
    sizes: list[int], percent: int, seed: int
) -> None:
    chosen = subset_documents(np.array(sizes), percent / 100, seed).tolist()
    wanted = Fraction(percent, 100) * sum(sizes)
    assert sentences(sizes, chosen) >= wanted
    # The order in which documents join does not depend on their sizes.
    ones = np.ones(len(sizes), dtype=np.int64)
    joined = [
        set(subset_documents(ones, (count - 0.5) / len(sizes), seed).tolist())
        for count in (len(chosen) - 1, len(chosen))
        if count
    ]
    assert joined[-1] == set(chosen)
    assert all(sentences(sizes, list(fewer)) < wanted for fewer in joined[:-1])


def test_a_share_is_taken_as_it_is_written() -> None:
    # 0.55 * 100 is 55.00000000000001 in floating point, which would ask for one document more.
    ones = np.ones(100, dtype=np.int64)
    for percent in range(1, 101):
        assert len(subset_documents(ones, percent / 100, 1)) == percent


def test_everything_is_everything() -> None:
    sizes = np.array([3, 0, 5, 0])
    assert subset_documents(sizes, 1.0, 1).tolist() == [0, 1, 2, 3]


def test_the_seed_decides() -> None:
    sizes = np.ones(50, dtype=np.int64)
    one, again, other = (subset_documents(sizes, 0.2, seed).tolist() for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_a_subset_is_not_simply_the_beginning() -> None:
    chosen = subset_documents(np.ones(1000, dtype=np.int64), 0.5, 3)
    assert 200 < (chosen >= 500).sum() < 300


def test_subsets_are_described_for_the_manifest() -> None:
    sizes = np.array([4, 1, 7, 2, 9, 3, 3, 6, 1, 4])
    described = describe_subsets(sizes, 5)
    assert [entry["share"] for entry in described] == [n / 10 for n in range(2, 11)]
    assert tuple(entry["share"] for entry in described) == SHARES
    for entry in described:
        chosen = subset_documents(sizes, entry["share"], 5)
        assert entry["documents"] == len(chosen)
        assert entry["sentences"] == sizes[chosen].sum()
        content = b"".join(int(number).to_bytes(8, "little") for number in chosen)
        assert entry["sha256"] == sha256(content).hexdigest()
    assert described[-1]["documents"] == 10
