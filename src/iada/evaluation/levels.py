"""The metrics of each level: sentences and documents, for all systems at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.evaluation.bleu import joined, sentences_of
from iada.evaluation.segments import SegmentScorer
from iada.evaluation.slide import blocks
from iada.evaluation.sufficient_statistics import (
    Measurement,
    measure_bleu,
    measure_chrf,
    measure_mean,
)

Systems = Mapping[str, Sequence[Document]]
"""Translated documents by name of the system."""


@dataclass(frozen=True)
class Level:
    """Metrics on units of one kind."""

    unit: Literal["sentence", "document"]
    names: tuple[str, ...]
    """Systems, in the order of the measurements."""
    metrics: Mapping[str, Measurement]


def sentence_level(
    systems: Systems,
    references: Sequence[Document],
    sources: Sequence[Document] | None,
    config: EvaluateConfig,
    *,
    language: str | None,
    scorer: SegmentScorer | None,
) -> Level:
    """Measure `s_bleu` and `chrf`, and `comet` if there is a scorer.

    Args:
        systems: translations, aligned with the references sentence by sentence.
        references: reference documents.
        sources: source documents; a scorer needs them.
        config: settings of the metrics.
        language: code of the target language.
        scorer: COMET.
    """
    texts = [sentences_of(documents) for documents in systems.values()]
    correct = sentences_of(references)
    metrics = {
        "s_bleu": measure_bleu(texts, correct, config, language=language),
        "chrf": measure_chrf(texts, correct, config),
    }
    if scorer is not None and sources is not None:
        values = _by_document(systems, references, sources, scorer, window=1, stride=1)
        units = [[[value] for document in system for value in document] for system in values]
        metrics["comet"] = measure_mean(units, scorer.signature)
    return Level("sentence", tuple(systems), metrics)


def document_level(
    systems: Systems,
    references: Sequence[Document],
    config: EvaluateConfig,
    *,
    language: str | None,
) -> Level:
    """Measure `d_bleu` and `d_chrf`, documents joined; arguments as in `sentence_level`."""
    texts = [joined(documents) for documents in systems.values()]
    correct = joined(references)
    metrics = {
        "d_bleu": measure_bleu(texts, correct, config, language=language),
        "d_chrf": measure_chrf(texts, correct, config),
    }
    return Level("document", tuple(systems), metrics)


def block_level(
    systems: Systems,
    references: Sequence[Document],
    sources: Sequence[Document],
    config: EvaluateConfig,
    *,
    scorer: SegmentScorer,
) -> Level:
    """Measure `slide_comet` on blocks of sentences; arguments as in `sentence_level`.

    The score is the mean over all blocks; documents are the units of the test, because blocks
    overlap.
    """
    window, stride = config.slide_window, config.slide_stride
    values = _by_document(systems, references, sources, scorer, window=window, stride=stride)
    signature = f"{scorer.signature}|window:{window}|stride:{stride}"
    return Level("document", tuple(systems), {"slide_comet": measure_mean(values, signature)})


def _by_document(
    systems: Systems,
    references: Sequence[Document],
    sources: Sequence[Document],
    scorer: SegmentScorer,
    *,
    window: int,
    stride: int,
) -> list[list[list[float]]]:
    """Return for each system and document the scores of its blocks."""
    values = []
    for hypotheses in systems.values():
        segments = blocks(sources, hypotheses, references, window=window, stride=stride)
        flat = iter(scorer.score([segment for document in segments for segment in document]))
        values.append([[next(flat) for _ in document] for document in segments])
    return values
