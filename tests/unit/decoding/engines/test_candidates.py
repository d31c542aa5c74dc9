"""The best tokens equal those of a full sort, under the rules of each row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from iada.decoding.engines.prefill import cpu
from iada.decoding.engines.prefill.search import Rules, top_tokens

END, SEP = 2, 4


def rules(
    rows: int,
    *,
    may_separate: list[bool] | None = None,
    may_end: list[bool] | None = None,
    must_end: list[bool] | None = None,
    ends: list[int] | None = None,
) -> Rules:
    return Rules(
        forbidden=torch.tensor([0, 1, END, SEP]),
        end=torch.tensor(ends or [END] * rows),
        separator=SEP,
        may_separate=torch.tensor(may_separate or [False] * rows),
        may_end=torch.tensor(may_end or [True] * rows),
        must_end=torch.tensor(must_end or [False] * rows),
    )


def drawn(rows: int, vocabulary: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 5),
    vocabulary=st.integers(8, 3000),
    count=st.integers(1, 10),
    seed=st.integers(0, 10**6),
)
def test_blocks_find_what_a_full_sort_finds(
    rows: int, vocabulary: int, count: int, seed: int
) -> None:
    logits = drawn(rows, vocabulary, seed)
    expected = logits.log_softmax(dim=1)
    expected[:, [0, 1, SEP]] = -torch.inf
    values, ids = top_tokens(logits.clone(), rules(rows), count)
    order = expected.sort(dim=1, descending=True)
    count = min(count, vocabulary)
    torch.testing.assert_close(values, order.values[:, :count])
    possible = values > -torch.inf
    assert torch.equal(ids[possible], order.indices[:, :count][possible])


@pytest.mark.parametrize("vocabulary", [10, 2000])
def test_each_row_has_its_own_rules(vocabulary: int) -> None:
    logits = drawn(4, vocabulary)
    logits[:, [END, SEP]] += 20
    expected = logits.log_softmax(dim=1)
    given_rules = rules(
        4,
        may_separate=[False, True, True, False],
        may_end=[True, False, True, True],
        must_end=[False, False, False, True],
    )
    values, ids = top_tokens(logits, given_rules, 3)
    assert ids[0, 0] == END
    assert SEP not in ids[0]
    assert ids[1, 0] == SEP
    assert END not in ids[1]
    assert set(ids[2, :2].tolist()) == {END, SEP}
    assert ids[3, 0] == END
    assert values[3, 1:].tolist() == [-torch.inf] * 2
    # Forbidden tokens keep their part of the probability.
    assert float(values[3, 0]) == pytest.approx(float(expected[3, END]), rel=1e-5)


def test_each_row_has_its_own_end_token() -> None:
    logits = drawn(3, 10)
    logits[:, [END, SEP]] += 20
    given_rules = rules(3, ends=[END, SEP, SEP], must_end=[False, False, True])
    values, ids = top_tokens(logits, given_rules, 8)
    possible = [set(row[v > -torch.inf].tolist()) for row, v in zip(ids, values, strict=True)]
    words = {3, 5, 6, 7, 8, 9}
    assert possible == [words | {END}, words | {SEP}, {SEP}]


def test_the_rules_of_a_part_are_those_of_its_rows() -> None:
    whole = rules(3, may_end=[True, False, True], must_end=[False, False, True])
    part = whole.rows(slice(1, 3))
    assert part.end.tolist() == [END, END]
    assert part.may_end.tolist() == [False, True]
    assert part.must_end.tolist() == [False, True]
    assert len(part.may_separate) == 2


@pytest.mark.parametrize(("values", "blocks"), [(1, 7), (1000, 4), (2**18, 1)])
def test_rows_are_normalised_block_by_block(
    values: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = drawn(7, 500)
    expected, _ = top_tokens(logits.clone(), rules(7), 3)
    monkeypatch.setattr(cpu, "_CACHED_VALUES", values)
    parts = list(cpu.row_blocks(logits))
    assert len(parts) == blocks
    assert torch.equal(torch.cat([logits[part] for part in parts]), logits)
    found, ids = top_tokens(logits.clone(), rules(7), 3)
    assert torch.equal(found, expected)
    torch.testing.assert_close(found, logits.log_softmax(dim=1).gather(1, ids))
