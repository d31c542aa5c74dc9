"""Contrastive accuracy: the reference must win."""

from collections.abc import Sequence

import pytest

from iada.data.documents import ParallelDocument
from iada.data.formats.contrapro import ContrastiveItem
from iada.evaluation.contrastive import Tally, contrastive_accuracy, summarize


def item(
    reference: str = "er",
    *,
    distance: int | None = 1,
    intrasegmental: bool | None = None,
    source_context: Sequence[str] = ("s1", "s2"),
    target_context: Sequence[str] = ("t1", "t2"),
) -> ContrastiveItem:
    forms = [form for form in ("er", "sie", "es") if form != reference]
    return ContrastiveItem(
        name="item",
        source_context=tuple(source_context),
        target_context=tuple(target_context),
        source="it",
        reference=reference,
        variants=tuple(forms),
        reference_class=reference,
        distance=distance,
        intrasegmental=intrasegmental,
    )


ITEMS = [item("er"), item("sie"), item("es")]


def last_words(documents: Sequence[ParallelDocument]) -> list[str]:
    return [document.target.sentences[-1] for document in documents]


def test_a_model_without_preference_is_always_wrong() -> None:
    result = contrastive_accuracy(ITEMS, lambda d: [-1.0] * len(d), context=3)
    assert (result["accuracy"], result["correct"], result["total"]) == (0.0, 0, 3)


def test_an_oracle_is_always_right() -> None:
    references = {"er": 0, "sie": 1, "es": 2}

    def score(documents: Sequence[ParallelDocument]) -> list[float]:
        # Three candidates for each item, in the order of the items.
        words = last_words(documents)
        return [float(references[word] == place // 3) for place, word in enumerate(words)]

    assert contrastive_accuracy(ITEMS, score, context=3)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("scores", "correct"),
    [([-1.0, -2.0, -3.0], 1), ([-2.0, -2.0, -3.0], 0), ([-2.0, -3.0, -1.0], 0)],
)
def test_the_reference_must_beat_every_variant_and_a_tie_loses(
    scores: list[float], correct: int
) -> None:
    assert contrastive_accuracy([item()], lambda _: scores, context=3)["correct"] == correct


def test_items_may_have_different_numbers_of_variants() -> None:
    two = ContrastiveItem("two", (), (), "it", "er", ("sie",), "er", 0)
    # er beats sie; then er loses to es.
    scores = [2.0, 1.0, 2.0, 1.0, 3.0]
    result = contrastive_accuracy([two, item("er")], lambda _: scores, context=3)
    assert (result["correct"], result["total"]) == (1, 2)


def test_a_constant_for_the_context_changes_no_verdict() -> None:
    scores = [-1.5, -2.0, -3.0, -2.0, -1.0, -3.0, -1.0, -2.0, -4.0]
    plain = contrastive_accuracy(ITEMS, lambda _: scores, context=3)
    shifted = [score - 7.0 * (place // 3) for place, score in enumerate(scores)]
    assert contrastive_accuracy(ITEMS, lambda _: shifted, context=3) == plain


def test_verdicts_are_counted_by_class_distance_and_place_of_the_antecedent() -> None:
    items = [
        item("er", distance=0, intrasegmental=True),
        item("er", distance=1, intrasegmental=False),
        item("sie", distance=3, intrasegmental=False),
        item("sie", distance=4, intrasegmental=False),
        item("es", distance=9, intrasegmental=False),
        item("es", distance=None),
    ]
    result = summarize(items, [True, False, True, True, False, True])
    assert result == {
        "accuracy": 4 / 6,
        "correct": 4,
        "total": 6,
        # Distances 1 to 3: only these need and have their antecedent in the context.
        "context": {"correct": 1, "total": 2},
        "by_class": {
            "er": {"correct": 1, "total": 2},
            "es": {"correct": 1, "total": 2},
            "sie": {"correct": 2, "total": 2},
        },
        "by_distance": {
            "0": {"correct": 1, "total": 1},
            "1": {"correct": 0, "total": 1},
            "3": {"correct": 1, "total": 1},
            ">3": {"correct": 1, "total": 2},
            "unknown": {"correct": 1, "total": 1},
        },
        "by_intrasegmental": {
            "no": {"correct": 2, "total": 4},
            "unknown": {"correct": 1, "total": 1},
            "yes": {"correct": 1, "total": 1},
        },
    }


def test_the_accuracy_of_no_items_is_zero() -> None:
    assert Tally(0, 0).accuracy == 0.0
    assert Tally(1, 4).accuracy == 0.25


@pytest.mark.parametrize(
    ("source", "target", "context", "before_source", "before_target"),
    [
        (["s1", "s2", "s3"], ["t1", "t2", "t3"], 3, ["s1", "s2", "s3"], ["t1", "t2", "t3"]),
        (["s1", "s2", "s3"], ["t1", "t2", "t3"], 1, ["s3"], ["t3"]),
        (["s1", "s2", "s3"], ["t3"], 3, ["s3"], ["t3"]),
        (["s1", "s2"], [], 3, [], []),
        (["s1", "s2"], ["t1", "t2"], 0, [], []),
    ],
)
def test_candidates_have_equal_context_on_both_sides(
    source: list[str],
    target: list[str],
    context: int,
    before_source: list[str],
    before_target: list[str],
) -> None:
    candidates = item("er", source_context=source, target_context=target).candidates(context)
    assert last_words(candidates) == ["er", "sie", "es"]
    for candidate in candidates:
        assert list(candidate.source.sentences) == [*before_source, "it"]
        assert list(candidate.target.sentences[:-1]) == before_target
