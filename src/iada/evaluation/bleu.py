"""BLEU by sentences and by documents, through sacreBLEU."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU

from iada.data.documents import Document


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature that makes it comparable."""

    score: float
    signature: str


def sentence_bleu(hypotheses: Sequence[Document], references: Sequence[Document]) -> Score:
    """s-BLEU: corpus BLEU over aligned sentences."""
    return _bleu(
        [sentence for document in hypotheses for sentence in document.sentences],
        [sentence for document in references for sentence in document.sentences],
    )


def document_bleu(hypotheses: Sequence[Document], references: Sequence[Document]) -> Score:
    """d-BLEU: corpus BLEU over documents, each joined to one line, so n-grams cross sentences."""
    return _bleu([_line(document) for document in hypotheses], [_line(d) for d in references])


def _line(document: Document) -> str:
    return " ".join(document.sentences)


def _bleu(hypotheses: list[str], references: list[str]) -> Score:
    # The paper's settings: one reference, cased, 13a, exponential smoothing.
    metric = BLEU(tokenize="13a", smooth_method="exp")
    score = metric.corpus_score(hypotheses, [references])
    return Score(float(score.score), str(metric.get_signature()))
