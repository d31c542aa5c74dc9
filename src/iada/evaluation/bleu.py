"""BLEU by sentences and by documents, through sacreBLEU, of one system."""

from collections.abc import Sequence
from dataclasses import dataclass

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.evaluation.sufficient_statistics import measure_bleu


@dataclass(frozen=True)
class Score:
    """A corpus score and the signature that makes it comparable."""

    score: float
    signature: str


def sentence_bleu(
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    config: EvaluateConfig | None = None,
    *,
    language: str | None = None,
) -> Score:
    """s-BLEU: corpus BLEU over aligned sentences."""
    return _bleu(sentences_of(hypotheses), sentences_of(references), config, language)


def document_bleu(
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    config: EvaluateConfig | None = None,
    *,
    language: str | None = None,
) -> Score:
    """d-BLEU: corpus BLEU over documents, each joined to one line, so n-grams cross sentences."""
    return _bleu(joined(hypotheses), joined(references), config, language)


def sentences_of(documents: Sequence[Document]) -> list[str]:
    """Return the sentences of all documents, one after the other."""
    return [sentence for document in documents for sentence in document.sentences]


def joined(documents: Sequence[Document]) -> list[str]:
    """Return each document as one line, its sentences parted by a space."""
    return [" ".join(document.sentences) for document in documents]


def _bleu(
    hypotheses: list[str],
    references: list[str],
    config: EvaluateConfig | None,
    language: str | None,
) -> Score:
    found = measure_bleu([hypotheses], references, config or EvaluateConfig(), language=language)
    return Score(found.score(0), found.signature)
