"""A user's own runs beside each other: which is better, on which sentences, where to read on.

Runs are compared that translated the same test set. The baseline is the first Doc2Doc system with
context, or else the first system. Several seeds are compared seed by seed; a single one by the
paired test on the test set, corrected for the number of systems and metrics. Examples are those
that decide: as many on which a system gains most over the baseline as on which it loses most.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from iada.config.data import DataConfig
from iada.config.evaluate import EvaluateConfig
from iada.data.documents import Document
from iada.decoding.files import translations_name
from iada.errors import IadaError
from iada.evaluation.comet import without_comet
from iada.evaluation.metrics import METRICS
from iada.evaluation.people import agreement_sentence
from iada.evaluation.realignment import realign_documents
from iada.evaluation.score_files import SplitTranslations, read_translations
from iada.evaluation.scores import evaluate_systems
from iada.report.page import Block, Fragment, Paragraph, Section, TableBlock, render
from iada.report.runs import RunGroup, RunSummary, group_runs
from iada.report.tables import significance_table
from iada.report.verdict import difference, signed
from iada.runs.folder import RunFolder

EXAMPLES = 8
"""Most examples of a test set."""
AROUND = 15
"""Sentences before and after an example that its document is shown with."""
_LEVEL = 0.05


@dataclass(frozen=True)
class Words:
    """A piece of a translation."""

    text: str
    differs: bool
    """Whether another system has no such words here."""


@dataclass(frozen=True)
class Place:
    """A sentence of a test document, with what every system made of it."""

    document: int
    """Number of the document, from 0."""
    sentence: int
    """Number of the sentence in it, from 0."""
    source: str
    reference: str
    outputs: Mapping[str, Sequence[Words]]


@dataclass(frozen=True)
class OwnRuns:
    """What the report says about runs of no experiment."""

    verdicts: tuple[str, ...]
    problems: tuple[str, ...]
    """Why some runs are not compared."""
    sections: tuple[Section, ...]


def compare_own_runs(runs: Sequence[RunSummary]) -> OwnRuns:
    """Compare the runs that share a test set; what cannot be read is named."""
    verdicts: list[str] = []
    problems: list[str] = []
    sections: list[Section] = []
    groups, lost = _by_test_set(runs)
    problems += lost
    for number, (data, members) in enumerate(groups, start=1):
        systems = group_runs(members)
        baseline = _baseline(systems)
        try:
            texts = _read(data, systems)
        except (IadaError, OSError) as problem:
            names = ", ".join(system.name for system in systems)
            problems.append(f"{names} cannot be compared: {problem}")
            continue
        significance: Mapping[str, Any] = {}
        if len(systems) > 1:
            significance = _test(texts, baseline, data, members)
            verdicts += _verdicts(systems, baseline, significance)
        else:
            verdicts.append(_alone(systems[0]))
        sections += _sections(texts, baseline.name, significance, number)
    return OwnRuns(tuple(verdicts), tuple(problems), tuple(sections))


def mark_differences(texts: Sequence[str]) -> list[list[Words]]:
    """Mark the words of each text that the first has not, and those of the first that one lacks."""
    words = [text.split() for text in texts]
    differs = [[False] * len(one) for one in words]
    for number, one in enumerate(words[1:], start=1):
        found = difflib.SequenceMatcher(None, words[0], one, autojunk=False)
        for kind, start, stop, own_start, own_stop in found.get_opcodes():
            if kind != "equal":
                differs[0][start:stop] = [True] * (stop - start)
                differs[number][own_start:own_stop] = [True] * (own_stop - own_start)
    return [
        [Words(*pair) for pair in zip(one, marks, strict=True)]
        for one, marks in zip(words, differs, strict=True)
    ]


def deciding_sentences(
    texts: SplitTranslations, baseline: str, count: int
) -> list[tuple[int, int]]:
    """Return document and sentence where a system gains or loses most over the baseline, by chrF.

    Gains and losses take turns, so that neither side shows its best alone. Without another system,
    the sentences that are furthest from their reference.
    """
    chrf = CHRF()
    others = [name for name in texts.systems if name != baseline]
    scored = []
    for document, reference in enumerate(texts.references):
        for sentence, correct in enumerate(reference.sentences):
            said = {n: d[document].sentences[sentence] for n, d in texts.systems.items()}
            if not correct.strip() or (others and len(set(said.values())) == 1):
                continue
            scores = {n: chrf.sentence_score(s, [correct]).score for n, s in said.items()}
            gains = [scores[name] - scores[baseline] for name in others] or [scores[baseline]]
            scored.append((max(gains, key=abs) if others else gains[0], document, sentence))
    scored.sort()
    gains_first = [one for one in reversed(scored) if one[0] > 0]
    losses = [one for one in scored if one[0] <= 0]
    if not others:
        gains_first, losses = [], scored
    turns = []
    for place in range(max(len(gains_first), len(losses))):
        turns += [one[place] for one in (gains_first, losses) if place < len(one)]
    return sorted((document, sentence) for _, document, sentence in turns[:count])


def _by_test_set(
    runs: Sequence[RunSummary],
) -> tuple[list[tuple[DataConfig, list[RunSummary]]], list[str]]:
    """Gather the runs that share a test set, and say which cannot be asked for theirs."""
    groups: dict[tuple[str, ...], tuple[DataConfig, list[RunSummary]]] = {}
    lost = []
    for run in runs:
        try:
            data = RunFolder(run.folder).config().data
        except IadaError as problem:
            lost.append(f"{run.name} cannot be compared: {problem}")
            continue
        key = tuple(str(path.resolve()) for path in data.paths("test"))
        groups.setdefault(key, (data, []))[1].append(run)
    return list(groups.values()), lost


def _baseline(systems: Sequence[RunGroup]) -> RunGroup:
    def is_doc2doc(system: RunGroup) -> bool:
        config = system.runs[0].config
        return config.get("method") == "doc2doc" and config.get("windows", {}).get("context") != 0

    return next(filter(is_doc2doc, systems), systems[0])


def _read(data: DataConfig, systems: Sequence[RunGroup]) -> SplitTranslations:
    name = translations_name(data)
    # The first seed speaks for its system.
    paths = {one.name: one.runs[0].folder / "translations" / name for one in systems}
    texts = read_translations(paths, data, "test")
    aligned = {
        name: realign_documents(documents, texts.references)[0]
        for name, documents in texts.systems.items()
    }
    return replace(texts, systems=aligned)


def _test(
    texts: SplitTranslations, baseline: RunGroup, data: DataConfig, runs: Sequence[RunSummary]
) -> Mapping[str, Any]:
    config: EvaluateConfig = RunFolder(runs[0].folder).config().evaluate
    plain = without_comet(config)
    found = evaluate_systems(
        texts.systems,
        texts.references,
        texts.sources,
        baseline=baseline.name,
        config=plain,
        language=data.target_language,
    )
    significance = found["significance"]
    assert isinstance(significance, dict)
    return significance


def _verdicts(
    systems: Sequence[RunGroup], baseline: RunGroup, significance: Mapping[str, Any]
) -> list[str]:
    """Say of every other system whether it is better than the baseline, the best first."""
    metric = METRICS["s_bleu"]
    tested = significance.get(metric.key, {}).get("systems", {})
    found = []
    for system in systems:
        if system.name == baseline.name or system.name not in tested:
            continue
        one = tested[system.name]
        gain, p_value = one["difference"], one["p_holm"]
        number = f"{metric.label} {signed(gain, metric.digits)}"
        shown = f"p = {p_value:.4f}" if p_value >= 0.0001 else "p < 0.0001"
        words = f"{number} on the test set, {shown}"
        if p_value > _LEVEL:
            text = f"{system.name} cannot be told from {baseline.name} ({words})."
        else:
            kind = "better" if gain > 0 else "worse"
            text = f"{system.name} is {kind} than {baseline.name} ({words})."
            if "people_agree" in one:
                text += f" {agreement_sentence(metric.label, gain, one['people_agree'])}"
        found.append((gain, text + _over_seeds(system, baseline)))
    return [text for _, text in sorted(found, reverse=True)]


def _over_seeds(system: RunGroup, baseline: RunGroup) -> str:
    """Compare the seeds that both systems have, if they are several."""
    metric = METRICS["s_bleu"]
    own = {run.seed: run.value(metric.key) for run in system.runs}
    other = {run.seed: run.value(metric.key) for run in baseline.runs}
    pairs = [(own[seed], other[seed]) for seed in own if seed in other]
    values = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(values) < 2:
        return ""
    found = difference([a for a, _ in values], [b for _, b in values], metric)
    assert found is not None
    return f" Over {found.seeds} seeds: {found.text}, {found.outcome}."


def _alone(system: RunGroup) -> str:
    score = system.runs[0].value("s_bleu")
    known = "" if score is None else f" has {score:.2f} s-BLEU, but"
    return (
        f"{system.name}{known} stands alone: train another system on the same corpus, such as "
        "`--method doc2doc`, to know whether that is good."
    )


def _sections(
    texts: SplitTranslations, baseline: str, significance: Mapping[str, Any], number: int
) -> list[Section]:
    suffix = "" if number == 1 else f"-{number}"
    sections = []
    if significance:
        table = TableBlock(
            f"significance{suffix}",
            f"Difference from {baseline}",
            significance_table(significance),
            sortable=False,
        )
        title = "Significance" + (f" ({number})" if suffix else "")
        sections.append(Section(f"significance-of-runs{suffix}", title, (table,)))
    places = deciding_sentences(texts, baseline, EXAMPLES)
    if places:
        sections.append(_translations(texts, baseline, places, suffix))
    return sections


def _translations(
    texts: SplitTranslations, baseline: str, places: Sequence[tuple[int, int]], suffix: str
) -> Section:
    how = "The sentences that are furthest from their reference, by chrF."
    if len(texts.systems) > 1:
        how = (
            f"Sentences on which a system gains most over {baseline} by chrF, and as many on which "
            "it loses most. Marked: words in which the translations differ."
        )
    shown = [_place(texts, baseline, *place) for place in places]
    excerpts = []
    for document in dict.fromkeys(document for document, _ in places):
        numbers = [sentence for other, sentence in places if other == document]
        size = len(texts.references[document])
        first = max(0, min(numbers) - AROUND)
        last = min(size, max(numbers) + AROUND + 1)
        rows = [_place(texts, baseline, document, sentence) for sentence in range(first, last)]
        excerpts.append((texts.references[document], document, size, rows))
    html = render(
        "translations.html.j2",
        places=shown,
        documents=texts.references,
        excerpts=excerpts,
        suffix=suffix,
    )
    blocks: tuple[Block, ...] = (Paragraph(how), Fragment(html))
    title = "Translations" + (f" ({suffix.removeprefix('-')})" if suffix else "")
    return Section(f"translations{suffix}", title, blocks)


def _place(texts: SplitTranslations, baseline: str, document: int, sentence: int) -> Place:
    def text_of(documents: Sequence[Document] | None) -> str:
        return "" if documents is None else documents[document].sentences[sentence]

    names = sorted(texts.systems, key=lambda name: name != baseline)
    marked = mark_differences([text_of(texts.systems[name]) for name in names])
    return Place(
        document,
        sentence,
        text_of(texts.sources),
        text_of(texts.references),
        dict(zip(names, marked, strict=True)),
    )
