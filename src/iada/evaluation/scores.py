"""All scores of a set of translated documents."""

from collections.abc import Sequence
from dataclasses import asdict

from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.bleu import document_bleu, sentence_bleu


def evaluate(hypotheses: Sequence[Document], references: Sequence[Document]) -> dict[str, object]:
    """Score translated documents against their references.

    Returns:
        `s_bleu` and `d_bleu`, each with `score` and `signature`.
    """
    _check_alignment(hypotheses, references)
    return {
        "s_bleu": asdict(sentence_bleu(hypotheses, references)),
        "d_bleu": asdict(document_bleu(hypotheses, references)),
    }


def _check_alignment(hypotheses: Sequence[Document], references: Sequence[Document]) -> None:
    if not any(len(reference) for reference in references):
        raise DataError("The references hold no sentence, so there is nothing to score.")
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses)} translated documents but {len(references)} references. "
            "Score the translation of the very documents that the references belong to."
        )
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        if len(hypothesis) != len(reference):
            raise DataError(
                f"{hypothesis.name} has {len(hypothesis)} sentences but {reference.name} has "
                f"{len(reference)}. Sentence scores need one translation per sentence."
            )
