"""What is wrong with translations at first sight: too short or long, empty, or the source itself.

These counts need no metric and explain many a low score.
"""

from collections.abc import Sequence

from iada.evaluation.sufficient_statistics import Measurement


def length_statistics(bleu: Measurement, number: int) -> dict[str, float]:
    """Return the lengths of a system and of the references in BLEU's tokens, and their ratio."""
    hypothesis, reference = bleu.systems[number][:, :2].sum(axis=0).tolist()
    return {
        "ratio": hypothesis / reference if reference else 0.0,
        "hypothesis_tokens": int(hypothesis),
        "reference_tokens": int(reference),
    }


def empty_statistics(
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str] | None = None
) -> dict[str, int]:
    """Count translations that are missing, and those that repeat the source.

    Args:
        hypotheses: one text per unit.
        references: one text per unit.
        sources: one text per unit, if known.

    Returns:
        `empty`: nothing where there was text to translate. `copied`, with sources: the source
        itself, where the reference is something else.
    """
    texts = references if sources is None else sources
    counts = {
        "empty": sum(
            not hypothesis.strip() and bool(text.strip())
            for hypothesis, text in zip(hypotheses, texts, strict=True)
        )
    }
    if sources is not None:
        triples = zip(hypotheses, references, sources, strict=True)
        counts["copied"] = sum(
            bool(source.strip()) and hypothesis == source != reference
            for hypothesis, reference, source in triples
        )
    return counts
