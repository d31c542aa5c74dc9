"""The flat token store: every sentence once, each followed by `<sep>`."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.documents import Document, ParallelDocument
from iada.data.store import Side, TokenStore
from iada.data.subwords import Subwords


def parallel(name: str, source: list[str], target: list[str]) -> ParallelDocument:
    return ParallelDocument(Document(name, tuple(source)), Document(name, tuple(target)))


def test_sentences_lie_one_after_the_other_each_with_its_separator() -> None:
    side = Side.of([[10, 11], [], [12]], sep=4)
    assert side.ids.tolist() == [10, 11, 4, 4, 12, 4]
    assert side.offsets.tolist() == [0, 3, 4, 6]
    assert side.lengths().tolist() == [2, 0, 1]


def test_no_sentences_give_an_empty_side() -> None:
    side = Side.of([], sep=4)
    assert side.ids.tolist() == []
    assert side.offsets.tolist() == [0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(6, 99), max_size=5), max_size=8))
def test_every_sentence_can_be_read_back(encoded: list[list[int]]) -> None:
    side = Side.of(encoded, sep=4)
    slices = [side.ids[start:stop].tolist() for start, stop in pairwise(side.offsets.tolist())]
    assert slices == [[*ids, 4] for ids in encoded]


def test_sentences_know_their_document(subwords: Subwords) -> None:
    documents = [
        parallel("a", ["the cat", "sat"], ["die Katze", "sah"]),
        parallel("b", ["it", "", "again"], ["sie", "", "die"]),
    ]
    store = TokenStore.build(documents, subwords)
    assert len(store) == 5
    assert store.document_of.tolist() == [0, 0, 1, 1, 1]
    assert store.document_starts.tolist() == [0, 2, 5]
    assert store.document_names == ("a", "b")


def test_both_sides_hold_the_encoded_sentences_in_order(subwords: Subwords) -> None:
    document = parallel("a", ["the cat", "sat"], ["die Katze", ""])
    store = TokenStore.build([document], subwords)
    sep = subwords.special.sep
    for side, sentences in ((store.source, ["the cat", "sat"]), (store.target, ["die Katze", ""])):
        first, second = subwords.encode(sentences)
        assert side.ids.tolist() == [*first, sep, *second, sep]
        assert side.ids.dtype == np.int32
