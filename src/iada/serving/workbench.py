"""What the page of `iada serve` can ask for, without any HTTP: translate, follow an edit, explain.

A text is a list of lines; blank lines separate documents. Requests carry the whole text, so the
server keeps nothing between them. Models run one step at a time, whoever asks: a step is one
sentence.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from threading import Lock

from markupsafe import Markup

from iada.analysis.importance_map import importance_map
from iada.config.run import RunConfig
from iada.data.documents import Document, ParallelDocument
from iada.decoding.translator import DocumentTranslator
from iada.decoding.wavefront import TranslationInput
from iada.errors import DataError, did_you_mean
from iada.evaluation.cxmi import context_use
from iada.method.importance import MEASURES
from iada.report.heatmap import to_html
from iada.report.page import render
from iada.runs.folder import RunFolder

_TOLD_APART = 0.05
"""Smallest difference of log-probabilities that is called one."""


@dataclass(frozen=True)
class TextRequest:
    """Translate a text with a run."""

    run: str
    lines: tuple[str, ...]
    """One sentence each; blank lines separate documents."""
    kept: tuple[str | None, ...] = ()
    """Translations of the first lines that stand as they are; null where one is wanted."""
    context: bool = True
    """Whether the model sees the sentences before."""

    def __post_init__(self) -> None:
        _check_lines(self.lines)


@dataclass(frozen=True)
class SentenceRequest:
    """Explain the translation of one line of a text."""

    run: str
    lines: tuple[str, ...]
    translations: tuple[str, ...]
    """As many lines."""
    line: int
    """Which one, counted from 0."""

    def __post_init__(self) -> None:
        _check_lines(self.lines)
        if len(self.translations) != len(self.lines) or not 0 <= self.line < len(self.lines):
            raise DataError("`translations` must have as many lines as `lines`, `line` among them.")


@dataclass(frozen=True)
class ServedRun:
    """A run with its model in memory."""

    name: str
    config: RunConfig
    translator: DocumentTranslator

    @property
    def context(self) -> int:
        """Number of sentences before the current one that the model sees."""
        return self.translator.frame.context(self.translator.windows)


class Workbench:
    """Some runs, ready for requests."""

    def __init__(self, runs: Sequence[ServedRun]) -> None:
        self.runs = {run.name: run for run in runs}
        self._step = Lock()

    def describe(self) -> list[dict[str, object]]:
        """Say of each run what the page must know; no path is told."""
        return [
            {
                "name": run.name,
                "source_language": run.config.data.source_language,
                "target_language": run.config.data.target_language,
                "context": run.context,
            }
            for run in self.runs.values()
        ]

    def check(self, request: TextRequest) -> None:
        """Refuse a text that the run cannot take, before anything is translated."""
        translator = self._run(request.run).translator
        for start, stop in document_spans(request.lines):
            name = f"Line {start + 1} and after"
            document = Document(name, request.lines[start:stop])
            translator.check([TranslationInput(document)])

    def translate(self, request: TextRequest) -> Iterator[tuple[int, str]]:
        """Yield the number and the translation of each line that is not kept, as it is found."""
        translator = self._run(request.run).translator
        kept = [*request.kept, *[None] * (len(request.lines) - len(request.kept))]
        for start, stop in document_spans(request.lines):
            if None not in kept[start:stop]:
                continue
            sentences = request.lines[start:stop]
            steps = translator.follow(sentences, kept[start:stop], with_context=request.context)
            for line in range(start, stop):
                with self._step:
                    text = next(steps)
                if kept[line] is None:
                    yield line, text

    def explain(self, request: SentenceRequest) -> Markup:
        """Show what in its window matters to a translation, as a fragment of a page."""
        run = self._run(request.run)
        start, _ = _document_around(request.lines, request.line)
        first = max(start, request.line - run.context)
        inside = slice(first, request.line + 1)
        source, target = request.lines[inside], request.translations[inside]
        if not target[-1].strip():
            raise DataError("The sentence has no translation yet, so there is nothing to explain.")
        name = "Window of"
        pair = ParallelDocument(Document(name, source), Document(name, target))
        with self._step:
            return self._explanation(run, pair, request.line - start + 1)

    def _explanation(self, run: ServedRun, pair: ParallelDocument, number: int) -> Markup:
        translator, augment = run.translator, run.config.augment
        if not MEASURES[augment.measure].is_measured:
            augment = replace(augment, measure="gnorm")
        # Whatever the windows of training were, the page shows one sentence.
        windows = replace(
            translator.windows, strategy="sliding", stride=1, loss_on="current", noisy_context=0
        )
        views = importance_map(
            translator.model,
            translator.subwords,
            [pair],
            augment=augment,
            windows=windows,
            frame=translator.frame,
        )
        use = context_use(translator, [pair])[-1]
        return render(
            "explanation.html.j2",
            sentence=_context_sentence(use.cxmi, use.context),
            measure=augment.measure,
            heat_map=to_html([replace(views[-1], sentence=number)]),
        )

    def _run(self, name: str) -> ServedRun:
        if name not in self.runs:
            raise DataError(f"There is no run `{name}`. {did_you_mean(name, self.runs)}")
        return self.runs[name]


def load_workbench(folders: Sequence[Path]) -> Workbench:
    """Load the models of some run folders; runs are named by their folders."""
    runs: list[ServedRun] = []
    for folder in folders:
        base = folder.resolve().name
        same = sum(run.name == base or run.name.startswith(f"{base} (") for run in runs)
        name = f"{base} ({same + 1})" if same else base
        config = RunFolder(folder).config()
        runs.append(ServedRun(name, config, DocumentTranslator.load(folder)))
    return Workbench(runs)


def document_spans(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first line of each document and the one after its last."""
    spans = []
    place = 0
    for is_blank, group in groupby(lines, key=lambda line: not line.strip()):
        size = len(list(group))
        if not is_blank:
            spans.append((place, place + size))
        place += size
    return spans


def _document_around(lines: Sequence[str], line: int) -> tuple[int, int]:
    for start, stop in document_spans(lines):
        if start <= line < stop:
            return start, stop
    raise DataError(f"Line {line + 1} is blank: it separates documents and is not translated.")


def _check_lines(lines: Sequence[str]) -> None:
    if not any(line.strip() for line in lines):
        raise DataError("There is no text to translate. Write or open a document first.")
    for number, line in enumerate(lines, start=1):
        if "\n" in line or "\r" in line:
            raise DataError(f"Line {number} holds a line break. Give one sentence per line.")


def _context_sentence(cxmi: float, context: int) -> str:
    """Say what the context does to the probability of the translation."""
    if context == 0:
        return "This sentence has no context: it begins its document, or the model reads none."
    if abs(cxmi) < _TOLD_APART:
        return "Context hardly changes how probable this translation is."
    ratio = math.exp(min(abs(cxmi), 20.0))
    times = f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"
    kind = "more" if cxmi > 0 else "less"
    return f"Context makes this translation {times} times {kind} probable."
