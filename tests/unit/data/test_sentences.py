"""Prose into sentences, long sentences into parts, and back."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iada.data.documents import Document
from iada.data.formats.file_format import Piece
from iada.data.sentences import (
    join_parts,
    joiner,
    long_sentence_splitter,
    looks_like_prose,
    sentence_splitter,
    split_document,
    split_piece,
)
from iada.errors import ConfigError


def test_prose_is_split_where_sentences_end() -> None:
    split = sentence_splitter("en-GB")
    assert split("Mr. Smith came.  He left! Why?") == ["Mr. Smith came.", "He left!", "Why?"]
    assert split("") == [""]
    assert sentence_splitter("zh")("你好。我在。") == ["你好。", "我在。"]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(ConfigError, match=r"pip install 'iada\[language\]'"):
        sentence_splitter("en")


def test_a_long_sentence_is_cut_at_commas_then_spaces_then_anywhere() -> None:
    split = long_sentence_splitter(lambda text: len(text) <= 12)
    assert split("short") == ["short"]
    assert split("one two, three four") == ["one two,", "three four"]
    assert split("one two three four") == ["one two", "three four"]
    assert split("a" * 20) == ["a" * 10, "a" * 10]


@given(st.text("ab, .", max_size=60), st.integers(1, 9))
def test_parts_fit_and_lose_nothing_but_spaces(text: str, longest: int) -> None:
    parts = long_sentence_splitter(lambda part: len(part) <= longest)(text)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(part) <= longest for part in parts if part.strip())


def test_paragraphs_are_restored() -> None:
    document = Document("d", ("It rained. We stayed.", "", "Done."))
    parts, counts = split_document(document, sentence_splitter("en"))
    assert parts.sentences == ("It rained.", "We stayed.", "", "Done.")
    assert join_parts(["x", "y", "", "z"], counts, " ") == ["x y", "", "z"]
    # A part whose translation is empty leaves no space behind.
    assert join_parts(["x", "", "", "z"], counts, " ") == ["x", "", "z"]


def test_a_piece_is_rendered_as_if_it_had_never_been_split() -> None:
    piece = Piece(
        lambda found: [f"<{one}>" for one in found],
        Document("d", ("It rained. We stayed.", "Done.")),
    )
    split = split_piece(piece, sentence_splitter("en"), joiner("de"))
    assert split.document == Document("d", ("It rained.", "We stayed.", "Done."))
    assert split.render(["1", "2", "3"]) == ["<1 2>", "<3>"]
    copied = Piece(lambda _: ["line"])
    assert split_piece(copied, sentence_splitter("en"), " ") is copied


def test_languages_without_spaces_are_joined_without() -> None:
    assert (joiner("zh-CN"), joiner("ja"), joiner("de")) == ("", "", " ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We stayed. Then we left.", True),
        ("It rained. We stayed.", False),
        ("Mr. and Mrs. smith went at 3.15 p.m. to see it", False),
        ("下雨了。我们没走。后来走了。", True),
        ("“Yes!” “No!” “Maybe …”", True),
    ],
)
def test_paragraphs_are_told_from_sentences(text: str, expected: bool) -> None:
    assert looks_like_prose(text) is expected
