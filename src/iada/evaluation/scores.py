"""All scores of translated documents, of one system or several, in the form of `scores.json`.

Besides the metrics: whether translations are too short or too long, empty, or the source itself,
which explains many low scores; and scores by the position of a sentence in its document. A system
that loses track in long documents shows it there: quality falls from the first sentences to the
last. Groups become wider with the distance from the start, as documents become rarer.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.metrics import (
    Level,
    SegmentScorer,
    Translations,
    is_aligned,
    joined,
    measure_levels,
    sentences_of,
)
from iada.evaluation.people import add_agreement
from iada.evaluation.realignment import realign_documents
from iada.evaluation.significance import (
    Comparison,
    Measurement,
    holm,
    paired_bootstrap,
    paired_randomization,
)

logger = logging.getLogger(__name__)


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


def compare(level: Level, config: EvaluateConfig) -> dict[str, dict[str, Any]]:
    """Compare every system of a level with the first one, the baseline.

    Intervals are those of the bootstrap, whichever test gives the p-values.

    Returns:
        For each metric its `signature` with test, number of draws, seed and unit; the number of
        `units`; `systems` with difference, p-value, interval and share of wins; and the `intervals`
        of every system's own score.
    """
    measurements = list(level.metrics.values())
    results = paired_bootstrap(measurements, resamples=config.resamples, seed=config.seed)
    comparisons = [result.comparisons for result in results]
    label = "bs"
    if config.test == "randomization":
        label = "ar"
        tests = paired_randomization(measurements, trials=config.resamples, seed=config.seed)
        comparisons = [
            tuple(
                replace(one, p_value=test.p_value)
                for one, test in zip(result.comparisons, found, strict=True)
            )
            for result, found in zip(results, tests, strict=True)
        ]
    suffix = f"{label}:{config.resamples}|seed:{config.seed}|unit:{level.unit}"
    return {
        name: {
            "signature": f"{measurement.signature}|{suffix}",
            "units": len(measurement.systems[0]),
            "systems": _by_name(level, compared),
            "intervals": {
                system: asdict(interval)
                for system, interval in zip(level.names, result.intervals, strict=True)
            },
        }
        for (name, measurement), compared, result in zip(
            level.metrics.items(), comparisons, results, strict=True
        )
    }


def add_holm(significance: Mapping[str, Mapping[str, Any]]) -> None:
    """Add `p_holm` to every comparison: Holm's correction over all systems and metrics."""
    found = [one for metric in significance.values() for one in metric["systems"].values()]
    for one, adjusted in zip(found, holm([one["p_value"] for one in found]), strict=True):
        one["p_holm"] = adjusted


def _by_name(level: Level, found: tuple[Comparison, ...]) -> dict[str, dict[str, object]]:
    return {
        name: {key: value for key, value in asdict(comparison).items() if value is not None}
        for name, comparison in zip(level.names[1:], found, strict=True)
    }


def score_of(metric: Measurement, number: int) -> dict[str, object]:
    """Return the score of a system with its signature."""
    return {"score": metric.score(number), "signature": metric.signature}


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


def evaluate(
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    sources: Sequence[Document] | None = None,
    baseline: Sequence[Document] | None = None,
    *,
    config: EvaluateConfig | None = None,
    language: str | None = None,
    scorer: SegmentScorer | None = None,
) -> dict[str, object]:
    """Score translated documents against their references.

    Args:
        hypotheses: the translations, document by document.
        references: the reference documents.
        sources: the source documents; for COMET, and to tell what needed translating.
        baseline: translations of another system to compare with.
        config: metrics and test; the paper's settings by default.
        language: code of the target language, which decides BLEU's tokeniser.
        scorer: COMET, running; needs `sources`.

    Returns:
        `s_bleu`, `d_bleu`, `chrf` and `d_chrf`, each with `score` and `signature`; `length`,
        `output` and `by_position`. Documents with other numbers of sentences than their references
        are re-aligned and counted in `realigned`; with `evaluate.realign` off, there is only what
        is measured on whole documents. With a baseline also `baseline`, its
        scores, and `significance`, for each metric.
    """
    systems = {"hypothesis": hypotheses}
    if baseline is not None:
        systems["baseline"] = baseline
    found = evaluate_systems(
        systems,
        references,
        sources,
        baseline=None if baseline is None else "baseline",
        config=config,
        language=language,
        scorer=scorer,
    )
    scores = found["systems"]
    assert isinstance(scores, dict)
    result: dict[str, object] = scores["hypothesis"]
    if baseline is not None:
        result |= {"baseline": scores["baseline"], "significance": found["significance"]}
    return result


def evaluate_systems(
    systems: Mapping[str, Sequence[Document]],
    references: Sequence[Document],
    sources: Sequence[Document] | None = None,
    *,
    baseline: str | None = None,
    config: EvaluateConfig | None = None,
    language: str | None = None,
    scorer: SegmentScorer | None = None,
) -> dict[str, object]:
    """Score several systems, and compare them with one of them; arguments as in `evaluate`.

    Args:
        systems: translations by name of the system.
        references: the reference documents.
        sources: the source documents.
        baseline: name of the system that the others are compared with.
        config: metrics and test.
        language: code of the target language.
        scorer: COMET, running.

    Returns:
        `systems` with the scores of each, and with a baseline its name and `significance`.
    """
    config = config or EvaluateConfig()
    _check_documents(systems, references, sources)
    if scorer is not None and sources is None:
        raise DataError("COMET needs the source text. Give the source documents too.")
    # The first system of a level is the one that the others are compared with.
    names = sorted(systems, key=lambda name: name != baseline)
    realigned: dict[str, int] = {}
    if config.realign:
        systems, realigned = _realign(systems, references)
    ordered = {name: systems[name] for name in names}
    given = Translations(ordered, references, sources, config, language, scorer)
    levels = measure_levels(given)
    result: dict[str, object] = {
        "systems": {
            name: _scores(name, systems[name], references, sources, levels)
            | ({"realigned": realigned[name]} if realigned.get(name) else {})
            for name in systems
        }
    }
    if baseline is not None:
        comparable = [level for level in levels if baseline in level.names and level.names[1:]]
        significance = {k: v for level in comparable for k, v in compare(level, config).items()}
        add_holm(significance)
        add_agreement(significance)
        result |= {"baseline": baseline, "significance": significance}
    return result


def _realign(
    systems: Mapping[str, Sequence[Document]], references: Sequence[Document]
) -> tuple[dict[str, Sequence[Document]], dict[str, int]]:
    """Give documents the sentences of the references; count those of each system that had not."""
    found: dict[str, Sequence[Document]] = {}
    counts = {}
    for name, documents in systems.items():
        found[name], counts[name] = realign_documents(documents, references)
        if counts[name]:
            logger.warning(
                "%s: %d of %d documents have another number of sentences than their reference; "
                "sentence scores are those of the text as re-aligned by chrF.",
                name,
                counts[name],
                len(documents),
            )
    return found, counts


def _scores(
    name: str,
    hypotheses: Sequence[Document],
    references: Sequence[Document],
    sources: Sequence[Document] | None,
    levels: Sequence[Level],
) -> dict[str, object]:
    scores: dict[str, object] = {}
    for level in levels:
        if name in level.names:
            number = level.names.index(name)
            scores |= {key: score_of(metric, number) for key, metric in level.metrics.items()}
    aligned = is_aligned(hypotheses, references)
    bleu = "s_bleu" if aligned else "d_bleu"
    level = next(level for level in levels if bleu in level.metrics)
    number = level.names.index(name)
    scores["length"] = length_statistics(level.metrics[bleu], number)
    texts = sentences_of if aligned else joined
    scores["output"] = empty_statistics(
        texts(hypotheses), texts(references), None if sources is None else texts(sources)
    )
    if aligned:
        scores["by_position"] = scores_by_position(references, level.metrics, number)
    return scores


def _check_documents(
    systems: Mapping[str, Sequence[Document]],
    references: Sequence[Document],
    sources: Sequence[Document] | None,
) -> None:
    if not any(len(reference) for reference in references):
        raise DataError("The references hold no sentence, so there is nothing to score.")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise DataError(
                f"There are {len(hypotheses)} translated documents ({name}) but {len(references)} "
                "references. Score the translation of the very documents that the references "
                "belong to."
            )
    if sources is not None and (
        len(sources) != len(references) or not is_aligned(sources, references)
    ):
        raise DataError(
            "Source and reference documents must be aligned sentence by sentence. Give the source "
            "of the very documents that the references belong to."
        )
