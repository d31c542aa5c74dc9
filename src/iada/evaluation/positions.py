"""Scores by the position of a sentence in its document.

A system that loses its way in long documents shows it here: quality falls from the first sentences
to the last. Groups become wider with the distance from the start, as documents become rarer.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from iada.data.documents import Document
from iada.evaluation.sufficient_statistics import Measurement

POSITIONS: tuple[tuple[int, int | None], ...] = (
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 5),
    (6, 10),
    (11, 20),
    (21, 40),
    (41, None),
)
"""First and last position of each group, counted from 1; the last group is open."""


def scores_by_position(
    documents: Sequence[Document], measurements: Mapping[str, Measurement], number: int
) -> dict[str, dict[str, float]]:
    """Score the sentences of each group of positions.

    Args:
        documents: they say where each sentence stands.
        measurements: sentence metrics by name.
        number: of the system.

    Returns:
        For each group with a sentence, under a name such as `4-5`: the number of `sentences` and
        the score of each metric.
    """
    sizes = np.array([len(document) for document in documents])
    position = np.concatenate([np.arange(1, size + 1) for size in sizes])
    scores = {}
    for first, last in POSITIONS:
        inside = (position >= first) & (position <= (last or position.max(initial=0)))
        if inside.any():
            row: dict[str, float] = {"sentences": int(inside.sum())}
            row |= {name: metric.score(number, inside) for name, metric in measurements.items()}
            scores[_name(first, last)] = row
    return scores


def _name(first: int, last: int | None) -> str:
    if last is None:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"
