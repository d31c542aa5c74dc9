"""Re-alignment puts sentences back where they belong and loses no word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iada.data.documents import Document
from iada.evaluation.realignment import realign, realign_documents

REFERENCE = [
    "Die Lampe war neu und stand in der Küche.",
    "Sie war grün.",
    "Der Mann sah sie am Abend.",
    "Danach ging er nach Hause.",
]


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        (REFERENCE, REFERENCE),
        # Joined by the system: cut again between the right words.
        ([f"{REFERENCE[0]} {REFERENCE[1]}", *REFERENCE[2:]], REFERENCE),
        ([" ".join(REFERENCE)], REFERENCE),
        # Split by the system: joined again.
        (["Die Lampe war neu", "und stand in der Küche.", *REFERENCE[1:]], REFERENCE),
        # Left out: empty, and nobody else's text.
        ([REFERENCE[0], *REFERENCE[2:]], [REFERENCE[0], "", *REFERENCE[2:]]),
        ([], [""] * 4),
    ],
)
def test_sentences_return_to_their_places(hypothesis: list[str], expected: list[str]) -> None:
    assert realign(hypothesis, REFERENCE) == expected


def test_text_without_a_counterpart_stays_where_it_was() -> None:
    found = realign([*REFERENCE[:2], "xyz qqq", *REFERENCE[2:]], REFERENCE)
    assert [REFERENCE[0], *REFERENCE[3:]] == [found[0], found[3]]
    assert "xyz qqq" in " ".join(found[1:3])


WORDS = st.lists(st.text("ab ", min_size=1, max_size=8).filter(str.strip), max_size=6)


@settings(max_examples=40, deadline=None)
@given(WORDS, WORDS.filter(bool))
def test_no_word_is_lost_or_moved(hypothesis: list[str], reference: list[str]) -> None:
    found = realign(hypothesis, reference)
    assert len(found) == len(reference)
    assert " ".join(found).split() == " ".join(hypothesis).split()


def test_documents_that_fit_are_left_alone_and_the_others_counted() -> None:
    references = [Document("a", tuple(REFERENCE)), Document("b", tuple(REFERENCE[:2]))]
    documents = [Document("a", (" ".join(REFERENCE),)), Document("b", ("x", "y"))]
    found, changed = realign_documents(documents, references)
    assert changed == 1
    assert found[0].sentences == tuple(REFERENCE)
    assert found[1] is documents[1]
