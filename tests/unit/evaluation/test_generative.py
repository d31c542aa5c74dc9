"""Generative accuracy: the right word is written, and not a wrong one instead or beside it."""

import pytest

from iada.data.documents import Document
from iada.data.formats.contrapro import ContrastiveItem
from iada.evaluation.contrastive import (
    Verdict,
    generative_accuracy,
    judge,
    source_documents,
)

RIGHT, BOTH, WRONG = Verdict(True, True), Verdict(True, False), Verdict(False, False)


def item(reference: str, *variants: str) -> ContrastiveItem:
    return ContrastiveItem(
        name="i",
        source_context=("s1", "s2", "s3"),
        target_context=("t3",),
        source="s4",
        reference=reference,
        variants=variants,
        reference_class="er",
        distance=1,
        intrasegmental=False,
    )


PRONOUN = item("Er schläft.", "Sie schläft.", "Es schläft.")
OTHER_SIE = item("Sie sagt, er schläft.", "Sie sagt, sie schläft.", "Sie sagt, es schläft.")


@pytest.mark.parametrize(
    ("asked", "output", "expected"),
    [
        (PRONOUN, "Er schläft.", RIGHT),
        (PRONOUN, "Jetzt schläft er!", RIGHT),
        (PRONOUN, "Sie schläft.", WRONG),
        (PRONOUN, "", WRONG),
        (PRONOUN, "Er oder sie schläft.", BOTH),
        # Part of a word is not the word.
        (PRONOUN, "Der Herr schläft.", WRONG),
        (PRONOUN, "Er schläft im Esszimmer.", RIGHT),
        # The reference itself has one "sie", which is none of the variant's making.
        (OTHER_SIE, "Sie meint, er schläft.", RIGHT),
        (OTHER_SIE, "Sie meint, er oder sie schläft.", BOTH),
        (OTHER_SIE, "Sie meint, sie schläft.", WRONG),
        (OTHER_SIE, "Er schläft.", RIGHT),
        # Two words tell the reference from its variant, and both must be there.
        (item("Er ist groß.", "Sie ist große."), "Er ist alt.", WRONG),
        (item("Er ist groß.", "Sie ist große."), "Er ist GROSS.", RIGHT),
        # A variant that leaves a word out has no word of its own.
        (item("Er schläft doch.", "Er schläft."), "Er schläft doch.", RIGHT),
    ],
)
def test_the_words_of_the_output_decide(
    asked: ContrastiveItem, output: str, expected: Verdict
) -> None:
    assert judge(asked, output) == expected


def test_the_reference_is_right_and_a_variant_wrong() -> None:
    for asked in (PRONOUN, OTHER_SIE):
        assert judge(asked, asked.reference) == RIGHT
        assert {judge(asked, variant) for variant in asked.variants} == {WRONG}


def test_an_item_without_an_expected_word_is_skipped() -> None:
    longer = item("Er schläft.", "Er schläft nicht.")
    assert judge(longer, "Er schläft.") is None
    # Every word of the reference is in one of the variants, so no word tells it from both.
    assert judge(item("Er schläft.", "Sie schläft.", "Er wacht."), "Er schläft.") is None
    outputs = [Document("i", ("x", text)) for text in ("Er schläft.", "Er.", "Sie. Er.")]
    result = generative_accuracy([longer, PRONOUN, PRONOUN], outputs)
    assert result["skipped"] == 1
    expected, exclusive = result["expected"], result["exclusive"]
    assert isinstance(expected, dict)
    assert isinstance(exclusive, dict)
    assert (expected["correct"], expected["total"]) == (2, 2)
    assert (exclusive["correct"], exclusive["total"]) == (1, 2)
    assert exclusive["by_intrasegmental"] == {"no": {"correct": 1, "total": 2}}


def test_a_set_without_any_expected_word_has_no_accuracy() -> None:
    longer = item("Er schläft.", "Er schläft nicht.")
    result = generative_accuracy([longer], [Document("i", ("x",))])
    assert isinstance(result["expected"], dict)
    assert result["expected"]["total"] == 0
    assert result["expected"]["accuracy"] == 0.0


@pytest.mark.parametrize(
    ("context", "sentences"),
    [(0, ("s4",)), (2, ("s2", "s3", "s4")), (9, ("s1", "s2", "s3", "s4"))],
)
def test_the_nearest_source_context_is_translated_with_the_sentence(
    context: int, sentences: tuple[str, ...]
) -> None:
    (document,) = source_documents([PRONOUN], context=context)
    assert document.sentences == sentences
