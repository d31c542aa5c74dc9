"""Segments: what a learned metric scores, and what such a metric promises.

Blocks of sentences for document-level use of a segment metric (SLIDE, Raunak et al., 2024).

A window slides over each document; every block, joined to one segment, is scored as if it were a
sentence, and the scores are averaged.

Sufficient statistics: the counts of each unit from which a score of many units follows.

A unit is a sentence or a document, a row of counts. Rows are added up, whole corpora, parts of
them or resamples alike, and a formula turns sums into scores. sacreBLEU counts; the formulas are
those of sacreBLEU, for many sums at once, and tests hold them to its command line.

BLEU by sentences and by documents, through sacreBLEU, of one system.

The metrics of each level: sentences and documents, for all systems at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.errors import ConfigError


@dataclass(frozen=True)
class Segment:
    """A text, its translation, and how it should have been translated."""

    source: str
    translation: str
    reference: str


class SegmentScorer(Protocol):
    """A metric that scores segments one by one, such as COMET."""

    @property
    def signature(self) -> str:
        """How the scores are made: the model and its version."""

    def score(self, segments: Sequence[Segment]) -> list[float]:
        """Return a score for each segment."""


def block_starts(sentences: int, *, window: int, stride: int) -> list[int]:
    """Return where the blocks of a document begin.

    A document no longer than the window is one block. Otherwise blocks begin every `stride`
    sentences as long as they fit, and one more ends with the document if sentences were left over,
    so that every sentence counts.
    """
    if sentences == 0:
        return []
    last = max(sentences - window, 0)
    starts = list(range(0, last + 1, stride))
    return starts if starts[-1] == last else [*starts, last]


def blocks(
    sources: Sequence[Document],
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    *,
    window: int,
    stride: int,
) -> list[list[Segment]]:
    """Return the blocks of each document.

    Args:
        sources: the source documents.
        hypotheses: their translations, aligned sentence by sentence.
        references: the reference translations, aligned likewise.
        window: sentences of a block; 1 gives the sentences themselves.
        stride: sentences from the start of a block to the start of the next.
    """
    found = []
    for triple in zip(sources, hypotheses, references, strict=True):
        starts = block_starts(len(triple[0]), window=window, stride=stride)
        texts = (
            [" ".join(document.sentences[start : start + window]) for document in triple]
            for start in starts
        )
        found.append([Segment(*text) for text in texts])
    return found


FloatArray = npt.NDArray[np.float64]
Formula = Callable[[FloatArray], FloatArray]
"""(rows, statistics) sums to (rows,) scores."""

_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_ORDERS = 4
_BETA_SQUARED = 4


@dataclass(frozen=True)
class Measurement:
    """One metric on the same units of one system or more."""

    signature: str
    formula: Formula
    systems: tuple[FloatArray, ...]
    """For each system (units, statistics)."""

    def score(self, number: int, units: npt.NDArray[np.bool_] | None = None) -> float:
        """Return the score of a system, on all units or those of a mask (units,)."""
        rows = self.systems[number]
        chosen = rows if units is None else rows[units]
        return float(self.formula(chosen.sum(axis=0, keepdims=True))[0])


def measure_bleu(
    systems: Sequence[Sequence[str]],
    references: Sequence[str],
    config: EvaluateConfig,
    *,
    language: str | None = None,
) -> Measurement:
    """Count n-grams for BLEU: up to 4-grams, exponential smoothing, one reference.

    Args:
        systems: the texts of each system, one per unit.
        references: one text per unit.
        config: case and tokeniser.
        language: code of the target language, which may decide the tokeniser.
    """
    tokenizer = tokenizer_for(language, config)
    try:
        metric = BLEU(
            lowercase=config.lowercase,
            tokenize=tokenizer,
            smooth_method="exp",
            # Otherwise sacreBLEU warns of tokenised text that was said to be tokenised.
            force=config.tokenized,
            references=[references],
        )
    except (RuntimeError, ImportError):
        if not tokenizer.endswith("-mecab"):
            raise
        raise ConfigError(
            f"The tokeniser {tokenizer} is not installed. Install it with `pip install "
            f"'sacrebleu[{tokenizer.removesuffix('-mecab')}]'`, or choose another one with "
            "`--tokenizer`, for example char; scores of different tokenisers do not compare."
        ) from None
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), bleu_scores, counts)


def measure_chrf(
    systems: Sequence[Sequence[str]], references: Sequence[str], config: EvaluateConfig
) -> Measurement:
    """Count character n-grams for chrF2 (order 6, no words); arguments as in `measure_bleu`."""
    metric = CHRF(lowercase=config.lowercase, references=[references])
    counts = tuple(_counts(metric, texts) for texts in systems)
    return Measurement(str(metric.get_signature()), chrf_scores, counts)


def measure_mean(systems: Sequence[Sequence[Sequence[float]]], signature: str) -> Measurement:
    """Take values whose mean, times 100, is the score.

    Args:
        systems: for each system and unit its values, one or more.
        signature: how the values were made.
    """
    counts = tuple(
        np.array([[sum(values), len(values)] for values in units], dtype=np.float64)
        for units in systems
    )
    return Measurement(signature, mean_scores, counts)


def tokenizer_for(language: str | None, config: EvaluateConfig) -> str:
    """Return sacreBLEU's name of the tokeniser for a language code such as `de` or `zh-CN`."""
    if config.tokenized:
        return "none"
    if config.tokenizer != "auto":
        return config.tokenizer
    code = (language or "").lower().replace("_", "-").split("-")[0]
    return _TOKENIZERS.get(code, "13a")


def bleu_scores(sums: FloatArray) -> FloatArray:
    """BLEU of summed counts.

    Args:
        sums: (rows, 10): hypothesis and reference length, matches of each order, hypothesis
            n-grams of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference = sums[:, 0], sums[:, 1]
    matches, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    no_match = matches == 0
    # Each order without a match halves the count that stands in for its matches once more.
    smoothed = np.where(no_match, 0.5 ** np.cumsum(no_match, axis=1), matches)
    defined = (total > 0).all(axis=1) & ~no_match.all(axis=1)
    precision = np.where(defined[:, None], smoothed / np.maximum(total, 1), 1.0)
    shortness = np.minimum(1 - reference / np.maximum(hypothesis, 1), 0)
    scores = 100 * np.exp(np.log(precision).mean(axis=1) + shortness)
    return np.where(defined, scores, 0.0)


def chrf_scores(sums: FloatArray) -> FloatArray:
    """chrF2 of summed counts.

    Args:
        sums: (rows, 18): hypothesis n-grams, reference n-grams and matches of each order.

    Returns:
        (rows,), 0 to 100.
    """
    hypothesis, reference, matches = (sums[:, start::3] for start in range(3))
    # Orders that one side lacks, in a very short text, are left out of the means.
    counted = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, matches / np.maximum(hypothesis, 1), 0).sum(axis=1) / orders
    recall = np.where(counted, matches / np.maximum(reference, 1), 0).sum(axis=1) / orders
    weighted = _BETA_SQUARED * precision + recall
    scores = 100 * (1 + _BETA_SQUARED) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(scores)


def mean_scores(sums: FloatArray) -> FloatArray:
    """Mean times 100 of (rows, 2) sums: of the values, and of how many there are."""
    return np.asarray(100 * sums[:, 0] / np.maximum(sums[:, 1], 1))


def _counts(metric: BLEU | CHRF, texts: Sequence[str]) -> FloatArray:
    # sacreBLEU offers no public way to the counts of each unit that works for chrF too.
    return np.array(metric._extract_corpus_statistics(texts, None), dtype=np.float64)


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
