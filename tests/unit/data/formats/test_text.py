"""Two text files: paired by order, left out whole where they do not fit, refused where nothing can
be trusted.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iada.errors import DataError

Read = Callable[..., Any]


def files(source: str | bytes, target: str | bytes) -> dict[str, str | bytes]:
    return {"t.en": source, "t.de": target}


def test_documents_are_paired_by_order(read: Read) -> None:
    outcome = read("t.{language}", files("a\nb\n\nc\n", "A\nB\n\nC\n"))
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("c", "C")]]
    assert outcome.names == ["t.en:1", "t.en:2"]
    assert outcome.units == [(4, 3, 0, 1), (4, 3, 0, 1)]
    assert outcome.log == []


def test_a_document_of_uneven_sides_is_left_out_with_both_places(read: Read) -> None:
    outcome = read("t.{language}", files("a\nb\n\nc\nd\n\ne\n", "A\nB\n\nC\n\nE\n"))
    assert outcome.documents == [[("a", "A"), ("b", "B")], [("e", "E")]]
    # The name of a document is its place in the file, whatever became of those before it.
    assert outcome.names == ["t.en:1", "t.en:3"]
    assert outcome.places == [("count_mismatch", "t.en", 4, 3)]
    message = outcome.log[0]["message"]
    assert "2 sentences in" in message
    assert "t.en (lines 4-5) but 1 sentence in" in message
    assert "t.de (line 4)" in message
    assert outcome.units == [(7, 3, 2, 2), (6, 3, 1, 2)]


def test_a_sentence_that_cannot_be_decoded_takes_its_document_along(read: Read) -> None:
    target = b"A\nM\xfcll\n\xff\n\nC\n"
    outcome = read("t.{language}", files("a\nb\nx\n\nc\n", target))
    assert outcome.documents == [[("c", "C")]]
    assert outcome.places == [("bad_utf8", "t.de", 2, 6), ("bad_utf8", "t.de", 3, 0)]
    assert "byte 3 is not valid UTF-8" in outcome.log[0]["message"]
    assert "byte 7 is not valid UTF-8" in outcome.log[1]["message"]


@pytest.mark.parametrize(
    ("boundaries", "source", "target", "places", "documents"),
    [
        # Extra blank lines on one side only do not shift the documents.
        (
            "blank_line",
            "\na\n\n\nb\n\n\n",
            "A\n \nB\n",
            [("t.en", 1), ("t.en", 4), ("t.en", 7)],
            [[("a", "A")], [("b", "B")]],
        ),
        (
            "marker",
            "<d>\n<d>\na\n<d>\n",
            "<d>\n<d>\nA\n<d>\n",
            [("t.en", 1), ("t.de", 1), ("t.en", 4), ("t.de", 4)],
            [[("a", "A")]],
        ),
    ],
)
def test_empty_documents_are_reported_and_skipped(
    read: Read, boundaries: str, source: str, target: str, places: Any, documents: Any
) -> None:
    outcome = read("t.{language}", files(source, target), boundaries=boundaries)
    assert outcome.documents == documents
    assert [(file, line) for _, file, line, _ in outcome.places] == places
    assert set(outcome.findings.counts) == {"empty_document"}
    assert outcome.findings.errors == len(places)


def test_a_marker_without_sentences_keeps_its_place_in_the_order(read: Read) -> None:
    source, target = "<d>\na\n<d>\nb\nc\n<d>\nd\n", "<d>\nA\n<d>\n<d>\nD\n"
    outcome = read("t.{language}", files(source, target), boundaries="marker")
    assert outcome.documents == [[("a", "A")], [("d", "D")]]
    assert outcome.places == [("empty_document", "t.de", 3, 0), ("count_mismatch", "t.en", 4, 2)]


@pytest.mark.parametrize("boundaries", ["marker", "none"])
def test_an_empty_side_is_kept_and_reported_where_it_is_empty(read: Read, boundaries: str) -> None:
    first = "<d>\n" if boundaries == "marker" else "x\n"
    outcome = read(
        "t.{language}",
        files(f"{first}a\n\nc\n\n", f"{first}\nB\nC\n \n"),
        boundaries=boundaries,
    )
    assert outcome.documents[0][-4:] == [("a", ""), ("", "B"), ("c", "C"), ("", " ")]
    assert outcome.places == [("empty_one_side", "t.de", 2, 0), ("empty_one_side", "t.en", 3, 0)]
    assert (outcome.findings.errors, outcome.findings.warnings) == (0, 2)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "a\n\nb\nc\n\nd\ne\n",
            "A\n\nB\n\nC\n\nD\n",
            r"t\.en has 3 documents but .*t\.de has 4\. They first diverge at document 2 with "
            r"2 sentences in .*t\.en \(lines 3-4\) but 1 sentence in .*t\.de \(line 3\)",
        ),
        (
            "a\n\nb\n",
            "A\n\nB\n\nC\n",
            r"2 documents but .* has 3\. They first diverge at the end, after document 2",
        ),
        ("a\n\nb\n", "\n\n", r"t\.de holds no sentence"),
        ("", "A\n", r"t\.en holds no sentence"),
    ],
)
def test_another_number_of_documents_is_refused(
    read: Read, source: str, target: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read("t.{language}", files(source, target))


@pytest.mark.parametrize(
    ("boundaries", "text", "message"),
    [
        ("blank_line", "a\nb\n", r"has 2 lines but no blank line.*`data\.boundaries: none`"),
        ("blank_line", "a\nb\n\n", r"has 2 lines but no blank line"),
        ("blank_line", "<d>\na\n", r"has 2 lines but no blank line"),
        ("marker", "a\n\nb\n", r"has 3 lines but no `<d>` line.*`data\.boundaries: none`"),
    ],
)
def test_a_file_without_boundaries_is_refused(
    read: Read, boundaries: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read("t.{language}", files(text, text), boundaries=boundaries)


@pytest.mark.parametrize("boundaries", ["blank_line", "marker", "none"])
@pytest.mark.parametrize("text", ["", "\n", " \n\n", "<d>\n\n<d>\n \n"])
def test_a_file_without_text_is_refused(read: Read, boundaries: str, text: str) -> None:
    if boundaries == "marker" or "<d>" not in text:
        with pytest.raises(DataError, match=r"t\.en holds no sentence"):
            read("t.{language}", files(text, text), boundaries=boundaries)


@pytest.mark.parametrize(
    ("boundaries", "text"), [("none", "a\nb\n"), ("marker", "<d>\na\nb\n"), ("blank_line", "a\n")]
)
def test_a_single_document_can_be_stated(read: Read, boundaries: str, text: str) -> None:
    assert len(read("t.{language}", files(text, text), boundaries=boundaries).documents) == 1


# Anything that is no marker.
SENTENCES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\ufeff")).filter(
    lambda text: text.strip() != "<d>"
)
PAIRS = st.lists(
    st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=4), min_size=2, max_size=5
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(PAIRS)
def test_any_text_survives_between_markers(
    read: Read, documents: list[list[tuple[str, str]]]
) -> None:
    documents = [[("start", "Beginn"), *documents[0]], *documents[1:]]
    sides = [
        "".join("<d>\n" + "".join(f"{pair[side]}\n" for pair in document) for document in documents)
        for side in (0, 1)
    ]
    outcome = read("t.{language}", files(*sides), boundaries="marker")
    assert outcome.documents == documents
    assert outcome.findings.errors == 0
