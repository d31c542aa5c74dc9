"""All scores of translated documents, of one system or several."""

from collections.abc import Sequence

from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.errors import DataError
from iada.evaluation.bleu import joined, sentences_of
from iada.evaluation.comparisons import compare, score_of
from iada.evaluation.levels import (
    Level,
    Systems,
    block_level,
    document_level,
    sentence_level,
)
from iada.evaluation.outputs import empty_statistics, length_statistics
from iada.evaluation.positions import scores_by_position
from iada.evaluation.segments import SegmentScorer


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
        `output` and `by_position`. Where documents have other numbers of sentences than their
        references, only what is measured on whole documents. With a baseline also `baseline`, its
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
    systems: Systems,
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
    ordered = {name: systems[name] for name in names}
    levels = _levels(ordered, references, sources, config, language=language, scorer=scorer)
    result: dict[str, object] = {
        "systems": {
            name: _scores(name, systems[name], references, sources, levels) for name in systems
        }
    }
    if baseline is not None:
        comparable = [level for level in levels if baseline in level.names and level.names[1:]]
        significance = {k: v for level in comparable for k, v in compare(level, config).items()}
        result |= {"baseline": baseline, "significance": significance}
    return result


def is_aligned(documents: Sequence[Document], references: Sequence[Document]) -> bool:
    """Whether every document has as many sentences as its reference."""
    return all(map(lambda one, other: len(one) == len(other), documents, references))


def _levels(
    systems: Systems,
    references: Sequence[Document],
    sources: Sequence[Document] | None,
    config: EvaluateConfig,
    *,
    language: str | None,
    scorer: SegmentScorer | None,
) -> list[Level]:
    aligned = {name: found for name, found in systems.items() if is_aligned(found, references)}
    levels = []
    if aligned:
        levels.append(
            sentence_level(aligned, references, sources, config, language=language, scorer=scorer)
        )
    levels.append(document_level(systems, references, config, language=language))
    if aligned and config.slide_window and scorer is not None and sources is not None:
        levels.append(block_level(aligned, references, sources, config, scorer=scorer))
    return levels


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
    systems: Systems, references: Sequence[Document], sources: Sequence[Document] | None
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
