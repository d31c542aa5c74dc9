"""Pieces and words of one sentence: what each piece spells and where it belongs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from iada.data.tokens.subwords import Subwords
from iada.data.tokens.words import characters, spelled, words_of_pieces

TEXT = st.text(st.characters(exclude_characters="▁\n", exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    ("pieces", "words", "expected"),
    [
        (["▁the", "▁c", "at", "."], ["the", "cat", "."], [0, 1, 1, 2]),
        # A piece that spans two words belongs to the one in which it begins.
        (["▁can", "'", "t"], ["ca", "n't"], [0, 1, 1]),
        # Spaces belong to the word after them, the last ones to the word before.
        (["▁", "▁", "a", "▁b", "▁"], ["a", "b"], [0, 0, 0, 1, 1]),
        # U+00FC is C3 BC and U+1F642 is F0 9F 99 82.
        (["▁", "<0xC3>", "<0xBC>", "b"], ["ü", "b"], [0, 0, 0, 1]),
        (["▁a", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>"], ["a", "🙂"], [0, 1, 1, 1, 1]),
        # A no-break space in bytes is a space too.
        (["▁a", "<0xC2>", "<0xA0>", "b"], ["a", "b"], [0, 1, 1, 1]),
        ([], [], []),
    ],
)
def test_a_piece_belongs_to_the_word_in_which_it_begins(
    pieces: list[str], words: list[str], expected: list[int]
) -> None:
    assert words_of_pieces(pieces, words) == expected


@pytest.mark.parametrize(
    ("pieces", "words"), [(["▁cat"], ["car"]), (["▁cat"], []), (["▁"], []), ([], ["a"])]
)
def test_other_text_has_no_words(pieces: list[str], words: list[str]) -> None:
    assert words_of_pieces(pieces, words) is None


@settings(max_examples=200, deadline=None)
@given(text=TEXT, cuts=st.lists(st.integers(0, 30)))
def test_any_text_in_any_words(subwords: Subwords, text: str, cuts: list[int]) -> None:
    """Words are any cut of the text without its spaces; a model of characters finds the owners."""
    letters = "".join(text.split())
    places = sorted({cut for cut in cuts if 0 < cut < len(letters)})
    bounds = list(zip([0, *places], [*places, len(letters)], strict=True))
    words = [letters[a:b] for a, b in bounds if a < b]
    for dropout in (None, 1.0):
        tokenizer = Tokenizer.from_str(subwords.tokenizer.to_str())
        tokenizer.model.dropout = dropout
        (ids,) = Subwords(tokenizer).encode([text])
        pieces = subwords.pieces(ids)
        assert "".join(spelled(pieces)).removeprefix(" ") == text
        found = words_of_pieces(pieces, words)
        if not letters:
            assert found == ([] if not pieces else None)
            continue
        assert found is not None
        assert len(found) == len(pieces)
        assert found == sorted(found)
        # Every word has the pieces in which its letters begin.
        position = 0
        for piece, owner in zip(spelled(pieces), found, strict=True):
            count = len("".join(piece.split()))
            if count:
                start, stop = bounds[owner]
                assert start <= position < stop
            position += count


@settings(max_examples=100, deadline=None)
@given(text=TEXT)
def test_characters_are_whole(subwords: Subwords, text: str) -> None:
    (ids,) = subwords.encode([text])
    pieces = subwords.pieces(ids)
    spans = list(characters(pieces))
    assert [i for start, stop in spans for i in range(start, stop)] == list(range(len(pieces)))
    # Leaving any of them out leaves valid text.
    for start, stop in spans:
        rest = subwords.decode([*ids[:start], *ids[stop:]])
        assert rest.count("\ufffd") <= text.count("\ufffd")
