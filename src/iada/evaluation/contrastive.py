"""Contrastive evaluation: is the reference more probable than its variants?

The sets are read by `iada.data.contrapro`. An item counts as correct if the model finds the
reference strictly more probable than every contrastive variant, by summed log-probability, given
the reference context on both sides.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iada.data.contrapro import ContrastiveItem
from iada.data.documents import ParallelDocument

CONTEXT_DISTANCES = ("1", "2", "3")
"""Antecedents that lie outside the sentence but within three sentences of context."""


@dataclass(frozen=True)
class Tally:
    """How many items of a group were right."""

    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """Share of correct items."""
        return self.correct / self.total if self.total else 0.0


def contrastive_accuracy(
    items: Sequence[ContrastiveItem],
    score: Callable[[Sequence[ParallelDocument]], Sequence[float]],
    *,
    context: int,
) -> dict[str, object]:
    """Score every candidate and count the items in which the reference wins.

    Args:
        items: the contrastive set.
        score: log-probability of the last target sentence of each document.
        context: most context sentences to show.

    Returns:
        What `summarize` returns, and a `signature`.
    """
    groups = [item.candidates(context) for item in items]
    scores = list(score([candidate for group in groups for candidate in group]))
    verdicts = []
    position = 0
    for group in groups:
        reference, *variants = scores[position : position + len(group)]
        verdicts.append(reference > max(variants))
        position += len(group)
    signature = f"contrastive|score:sum|ties:wrong|context:{context}|target_context:reference"
    return {**summarize(items, verdicts), "signature": signature}


def summarize(items: Sequence[ContrastiveItem], verdicts: Sequence[bool]) -> dict[str, object]:
    """Count verdicts by pronoun class, antecedent distance, and antecedent in the sentence or not.

    Returns:
        `accuracy`, `correct`, `total`, tallies `by_class`, `by_distance` and `by_intrasegmental`,
        and `context`: the tally of the items that only context can decide.
    """
    by_class = _tallies([item.reference_class for item in items], verdicts)
    by_distance = _tallies([_bucket(item.distance) for item in items], verdicts)
    inside = {True: "yes", False: "no", None: "unknown"}
    by_intrasegmental = _tallies([inside[item.intrasegmental] for item in items], verdicts)
    needs_context = [by_distance[d] for d in CONTEXT_DISTANCES if d in by_distance]
    correct, total = sum(verdicts), len(verdicts)
    return {
        "accuracy": Tally(correct, total).accuracy,
        "correct": correct,
        "total": total,
        "context": {
            "correct": sum(tally.correct for tally in needs_context),
            "total": sum(tally.total for tally in needs_context),
        },
        "by_class": _plain(by_class),
        "by_distance": _plain(by_distance),
        "by_intrasegmental": _plain(by_intrasegmental),
    }


def _bucket(distance: int | None) -> str:
    if distance is None:
        return "unknown"
    return str(distance) if distance <= 3 else ">3"


def _tallies(keys: Sequence[str], verdicts: Sequence[bool]) -> dict[str, Tally]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for key, verdict in zip(keys, verdicts, strict=True):
        groups[key].append(verdict)
    return {key: Tally(sum(group), len(group)) for key, group in sorted(groups.items())}


def _plain(tallies: dict[str, Tally]) -> dict[str, dict[str, int]]:
    return {key: {"correct": t.correct, "total": t.total} for key, t in tallies.items()}
