"""Minimum Bayes risk: the translation that agrees most with the others, by chrF.

The most probable translation is often an outlier. Among the best translations of a search this
chooses the one whose mean chrF with the others is highest (Kumar and Byrne, 2004); ties and single
candidates leave the order of the search as it is.
"""

from collections.abc import Sequence

from sacrebleu.metrics.chrf import CHRF

_CHRF = CHRF()


def expected_chrf(candidates: Sequence[str]) -> list[float]:
    """Return the mean chrF of each candidate against the others, which all count alike."""
    texts = list(candidates)
    scores = []
    for number, text in enumerate(texts):
        others = texts[:number] + texts[number + 1 :]
        found = [_CHRF.sentence_score(text, [other]).score for other in others]
        scores.append(sum(found) / len(found) if found else 0.0)
    return scores


def by_agreement(candidates: Sequence[str]) -> list[int]:
    """Return the numbers of the candidates, the one that agrees most with the others first."""
    scores = expected_chrf(candidates)
    return sorted(range(len(scores)), key=lambda number: -scores[number])
