"""Blocks of sentences cover every document, and none crosses a border."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iada.data.documents import Document
from iada.evaluation.metrics import Segment, block_starts, blocks


@pytest.mark.parametrize(
    ("sentences", "window", "stride", "expected"),
    [
        (0, 3, 1, []),
        (1, 3, 1, [0]),
        (3, 3, 1, [0]),
        (5, 3, 1, [0, 1, 2]),
        (6, 3, 3, [0, 3]),
        # The last block ends with the document, so it overlaps more than the others.
        (7, 3, 3, [0, 3, 4]),
        (8, 3, 2, [0, 2, 4, 5]),
        (4, 1, 1, [0, 1, 2, 3]),
    ],
)
def test_blocks_begin_where_they_should(
    sentences: int, window: int, stride: int, expected: list[int]
) -> None:
    assert block_starts(sentences, window=window, stride=stride) == expected


@given(st.integers(1, 60), st.integers(1, 10), st.data())
def test_every_sentence_is_in_a_block(sentences: int, window: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, window))
    starts = block_starts(sentences, window=window, stride=stride)
    covered = {place for start in starts for place in range(start, start + window)}
    assert set(range(sentences)) <= covered
    assert starts == sorted(set(starts))
    assert max(starts) + window <= max(sentences, window)


def test_blocks_join_the_same_sentences_of_all_texts(
    documents: Callable[..., list[Document]],
) -> None:
    sources = documents(["a", "b", "c"], ["d"])
    hypotheses = documents(["A", "B", "C"], ["D"])
    references = documents(["1", "2", "3"], ["4"])
    assert blocks(sources, hypotheses, references, window=2, stride=1) == [
        [Segment("a b", "A B", "1 2"), Segment("b c", "B C", "2 3")],
        [Segment("d", "D", "4")],
    ]
