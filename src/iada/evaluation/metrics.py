"""Metrics of translations and of runs: one table, `METRICS`, which everything else reads.

A metric says how it is called, shown and computed. Those of translations are computed from the
counts of sentences or documents (`iada.evaluation.significance`). Learned metrics such as
COMET score segments: sentences, or blocks of sentences (SLIDE, Raunak et al., 2024). Metrics of
runs are read from what a run has recorded.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.evaluation.significance import (
    Measurement,
    measure_bleu,
    measure_chrf,
    measure_mean,
)


@dataclass(frozen=True)
class Segment:
    """A text, its translation, and how it should have been translated."""

    source: str
    translation: str
    reference: str
    context: tuple[tuple[str, str], ...] | None = None
    """Source and reference of the sentences before it, oldest first, for a metric that reads them;
    None where the segment is scored alone."""


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
        found.append([Segment(source, said, correct) for source, said, correct in texts])
    return found


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
    """Return each document as one line, its sentences joined by a space."""
    return [" ".join(document.sentences) for document in documents]


def _bleu(
    hypotheses: list[str],
    references: list[str],
    config: EvaluateConfig | None,
    language: str | None,
) -> Score:
    found = measure_bleu([hypotheses], references, config or EvaluateConfig(), language=language)
    return Score(found.score(0), found.signature)


@dataclass(frozen=True)
class Translations:
    """What metrics of translations are computed from."""

    systems: Mapping[str, Sequence[Document]]
    """Translated documents by name of the system."""
    references: Sequence[Document]
    sources: Sequence[Document] | None
    """Source documents; a scorer needs them."""
    config: EvaluateConfig
    """Settings of the metrics."""
    language: str | None
    """Code of the target language."""
    scorer: SegmentScorer | None
    """COMET, running."""

    def aligned(self) -> "Translations":
        """Keep the systems that have as many sentences in every document as the references."""
        systems = {
            name: documents
            for name, documents in self.systems.items()
            if is_aligned(documents, self.references)
        }
        return replace(self, systems=systems)

    def texts(self, of: Callable[[Sequence[Document]], list[str]]) -> list[list[str]]:
        """Return the texts of each system, one per unit."""
        return [of(documents) for documents in self.systems.values()]


def is_aligned(documents: Sequence[Document], references: Sequence[Document]) -> bool:
    """Whether every document has as many sentences as its reference."""
    return all(map(lambda one, other: len(one) == len(other), documents, references))


def _measure_s_bleu(given: Translations) -> Measurement:
    texts, correct = given.texts(sentences_of), sentences_of(given.references)
    return measure_bleu(texts, correct, given.config, language=given.language)


def _measure_d_bleu(given: Translations) -> Measurement:
    texts, correct = given.texts(joined), joined(given.references)
    return measure_bleu(texts, correct, given.config, language=given.language)


def _measure_chrf(given: Translations) -> Measurement:
    return measure_chrf(given.texts(sentences_of), sentences_of(given.references), given.config)


def _measure_d_chrf(given: Translations) -> Measurement:
    return measure_chrf(given.texts(joined), joined(given.references), given.config)


def _measure_comet(given: Translations) -> Measurement | None:
    if given.scorer is None or given.sources is None:
        return None
    values = _block_scores(given, given.scorer, given.sources, window=1, stride=1)
    units = [[[value] for document in system for value in document] for system in values]
    return measure_mean(units, given.scorer.signature)


def _measure_slide_comet(given: Translations) -> Measurement | None:
    """Average over all blocks; documents are the units of tests, because blocks overlap."""
    window, stride = given.config.slide_window, given.config.slide_stride
    if given.scorer is None or given.sources is None or not window:
        return None
    values = _block_scores(given, given.scorer, given.sources, window=window, stride=stride)
    return measure_mean(values, f"{given.scorer.signature}|window:{window}|stride:{stride}")


def _measure_doc_comet(given: Translations) -> Measurement | None:
    """Score every sentence with those before it as context (Vernikos et al., 2022)."""
    size = given.config.doc_comet_context
    if given.scorer is None or given.sources is None or not size:
        return None
    units = []
    for hypotheses in given.systems.values():
        segments = [
            Segment(*texts, context=tuple(zip(before.sentences, correct.sentences, strict=True)))
            for source, hypothesis, reference in zip(
                given.sources, hypotheses, given.references, strict=True
            )
            for place, texts in enumerate(
                zip(source.sentences, hypothesis.sentences, reference.sentences, strict=True)
            )
            for before, correct in [_before(source, reference, place, size)]
        ]
        units.append([[value] for value in given.scorer.score(segments)])
    return measure_mean(units, f"{given.scorer.signature}|context:{size}|of:reference")


def _before(source: Document, reference: Document, place: int, size: int) -> list[Document]:
    """Return the last sentences before one, of both documents."""
    inside = slice(max(0, place - size), place)
    return [Document(one.name, one.sentences[inside]) for one in (source, reference)]


def _block_scores(
    given: Translations,
    scorer: SegmentScorer,
    sources: Sequence[Document],
    *,
    window: int,
    stride: int,
) -> list[list[list[float]]]:
    """Return for each system and document the scores of its blocks."""
    values = []
    for hypotheses in given.systems.values():
        segments = blocks(sources, hypotheses, given.references, window=window, stride=stride)
        flat = iter(scorer.score([segment for document in segments for segment in document]))
        values.append([[next(flat) for _ in document] for document in segments])
    return values


@dataclass(frozen=True)
class RunRecord:
    """What a run has recorded about itself."""

    scores: Mapping[str, Any]
    """Content of `scores.json`."""
    log: Sequence[Mapping[str, Any]]
    """Lines of `metrics.jsonl`."""


def _accuracy(*path: str) -> Callable[[RunRecord], float | None]:
    """Return a reader of correct / total in `scores.json`; None where nothing was counted."""

    def read(record: RunRecord) -> float | None:
        counts: Mapping[str, Any] = record.scores
        for key in path:
            counts = counts.get(key, {})
        return counts["correct"] / counts["total"] if counts.get("total") else None

    return read


def _context_use(record: RunRecord) -> float | None:
    value: float | None = record.scores.get("cxmi", {}).get("cxmi")
    return value


def _best_dev_nll(record: RunRecord) -> float | None:
    values = (line.get("dev_nll") for line in record.log)
    return min((float(value) for value in values if value is not None), default=None)


@dataclass(frozen=True)
class SeedMean:
    """Mean of a value over the seeds that have it."""

    mean: float
    deviation: float | None
    """Sample standard deviation; None for a single value."""
    count: int


def mean_over_seeds(values: Sequence[float | None]) -> SeedMean | None:
    """Return mean and sample standard deviation of the values present; None if there are none."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    deviation = statistics.stdev(present) if len(present) > 1 else None
    return SeedMean(statistics.fmean(present), deviation, len(present))


Unit = Literal["sentence", "document"]


@dataclass(frozen=True)
class Metric:
    """A metric: its name, how it is shown, and where its values come from."""

    key: str
    """Name in `scores.json` and `results.json`."""
    label: str
    """What tables and figures call it."""
    digits: int = 2
    scale: float = 1.0
    """Factor from the stored value to the shown one: 100 for shares."""
    lower_is_better: bool = False
    unit: Unit | None = None
    """What paired tests resample; None for a metric of runs, which has no such test."""
    measure: Callable[[Translations], Measurement | None] | None = None
    """Count the units of all systems; gives None where something it needs is missing."""
    needs_alignment: bool = False
    """Whether translations must have the sentences of the references."""
    record: Callable[[RunRecord], float | None] | None = None
    """Read the value of a run; by default the score of the same name in `scores.json`."""
    entry: str = ""
    """Entry of `scores.json` with its signature; by default the one of the same name."""
    is_tested: bool = False
    """Whether experiments test the differences between their rows."""
    is_secondary: bool = False
    """Only in `scores.json` and its tables, not in those that compare runs."""

    def signature(self, scores: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return the entry that holds the signature and the signature; None without any."""
        entry = self.entry or self.key
        found = scores.get(entry, {}).get("signature")
        return None if found is None else (entry, str(found))

    def value(self, record: RunRecord) -> float | None:
        """Return the value of a run as it is stored; None where it was not measured."""
        if self.record is not None:
            return self.record(record)
        score = record.scores.get(self.key, {}).get("score")
        return None if score is None else float(score)

    def shown(self, values: Sequence[float]) -> tuple[float, ...]:
        """Return the values in the unit of the label."""
        return tuple(self.scale * value for value in values)

    def mean(self, values: Sequence[float]) -> SeedMean | None:
        """Return mean and deviation in the unit of the label."""
        return mean_over_seeds(self.shown(values))


_ALL = (
    Metric(
        "s_bleu",
        "s-BLEU",
        unit="sentence",
        measure=_measure_s_bleu,
        needs_alignment=True,
        is_tested=True,
    ),
    Metric("d_bleu", "d-BLEU", unit="document", measure=_measure_d_bleu, is_tested=True),
    Metric("chrf", "chrF", unit="sentence", measure=_measure_chrf, needs_alignment=True),
    Metric("d_chrf", "d-chrF", unit="document", measure=_measure_d_chrf, is_secondary=True),
    Metric("comet", "COMET", unit="sentence", measure=_measure_comet, needs_alignment=True),
    Metric(
        "slide_comet", "SLIDE", unit="document", measure=_measure_slide_comet, needs_alignment=True
    ),
    Metric(
        "doc_comet", "Doc-COMET", unit="sentence", measure=_measure_doc_comet, needs_alignment=True
    ),
    Metric(
        "pronouns_needing_context",
        "Pronouns (context needed) %",
        1,
        100.0,
        record=_accuracy("contrastive", "context"),
        entry="contrastive",
    ),
    Metric(
        "pronouns",
        "Pronouns (all) %",
        1,
        100.0,
        record=_accuracy("contrastive"),
        entry="contrastive",
    ),
    Metric("cxmi", "CXMI", 3, record=_context_use),
    Metric("dev_nll", "dev NLL (best)", 3, lower_is_better=True, record=_best_dev_nll),
)
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in _ALL}
"""Every metric by its key, in the order of the columns. A new metric is one more line."""


def main_metrics() -> list[Metric]:
    """Return the metrics that tables of runs and experiments show."""
    return [metric for metric in METRICS.values() if not metric.is_secondary]


@dataclass(frozen=True)
class Level:
    """Measurements on the same units of the same systems."""

    unit: Unit
    names: tuple[str, ...]
    """Systems, in the order of the measurements."""
    metrics: Mapping[str, Measurement]


def measure_levels(given: Translations) -> list[Level]:
    """Compute every metric of translations that can be computed, by unit and systems."""
    levels = []
    aligned = given.aligned()
    kinds: tuple[tuple[Unit, bool], ...] = (
        ("sentence", True),
        ("document", False),
        ("document", True),
    )
    for unit, needs_alignment in kinds:
        usable = aligned if needs_alignment else given
        found = {
            metric.key: measurement
            for metric in METRICS.values()
            if (metric.unit, metric.needs_alignment) == (unit, needs_alignment)
            and metric.measure is not None
            and usable.systems
            and (measurement := metric.measure(usable)) is not None
        }
        if found:
            levels.append(Level(unit, tuple(usable.systems), found))
    return levels
