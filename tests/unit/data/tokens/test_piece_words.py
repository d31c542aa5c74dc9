"""Words found among pieces are those that the tokenizer itself cuts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.tokens.subwords import Subwords, mark_spaces, train_subwords
from iada.data.tokens.words import PieceWords


@pytest.fixture(scope="module")
def spaced() -> Subwords:
    """An encoding with merges of spaces, marks, digits and signs."""
    texts = [
        "  a  1,000 cats;;  ",
        "the   e\u0301te\u0301 -- 42%   of 42%  ",
        " \u00fcber   !!",
    ] * 5
    return train_subwords(texts, vocabulary_size=400)


def cut(subwords: Subwords, text: str) -> list[str]:
    """The words of a text, from its ids alone."""
    (ids,) = subwords.encode([text])
    array = np.array(ids, dtype=np.int32)
    begins = PieceWords(subwords).begins(array)
    words = [subwords.pieces(word.tolist()) for word in np.split(array, begins[1:])]
    return ["".join(pieces) for pieces in words]


@settings(max_examples=300, deadline=None)
@given(text=st.text("ab\u00fc\u0301 01,;%-\u00e9t", min_size=1, max_size=15))
def test_words_are_those_of_the_tokenizer(spaced: Subwords, text: str) -> None:
    split = spaced.tokenizer.pre_tokenizer.pre_tokenize_str(mark_spaces([text]))
    known = all(spaced.tokenizer.token_to_id(c) is not None for c in text if c != " ")
    if known:
        assert cut(spaced, text) == [word for word, _ in split]


def test_specials_and_bytes_stand_alone(subwords: Subwords) -> None:
    special = subwords.special
    (unknown,) = subwords.encode(["\u4e2d"])
    (cat,) = subwords.encode(["cat"])
    ids = np.array([*cat, special.sep, *unknown, special.eos], dtype=np.int32)
    begins = PieceWords(subwords).begins(ids)
    # The space before the character, its three bytes, and the specials.
    assert len(unknown) == 4
    assert begins.tolist() == [0, *range(len(cat), len(ids))]


def test_nothing_has_no_words(subwords: Subwords) -> None:
    assert PieceWords(subwords).begins(np.zeros(0, np.int32)).tolist() == []
