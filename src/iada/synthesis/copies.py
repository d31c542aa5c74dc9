"""Importance-aware perturbed copies of documents, as text that any toolkit reads.

Each sentence is perturbed on both sides in one role: as the current sentence of its own window, or
as the context right before the next sentence. Its importance is measured once, in that window, and
every copy draws anew. The noise is a function of seed, copy, document, sentence and side alone.

A folder holds the copies line for line: `train.1.en`, `train.1.de`, `train.2.en`, and so on. It
appears complete or not at all.
"""

import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TextIO

import torch
from torch import Tensor

from iada.config.data import Boundaries, DataConfig, Split, WindowConfig
from iada.config.method import AugmentConfig
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.lines import open_for_writing
from iada.data.formats.readers import file_format, stream_split
from iada.data.formats.text import document_lines
from iada.data.prepared.store import TokenStore
from iada.data.tokens.pretokenize import SideName
from iada.data.tokens.subwords import SubwordEncoding
from iada.data.windows.frame import Frame
from iada.data.windows.windows import Windows
from iada.errors import ConfigError, RunError
from iada.method.measuring import MeasuredGroup, measure_windows
from iada.method.perturbation import (
    Replacement,
    Vocabulary,
    make_replacement,
    perturb,
    word_start_table,
)
from iada.method.selection import word_heads
from iada.seeding import generator as seeded_generator
from iada.storage import locked, put_in_place
from iada.synthesis.rendering import Rendering, Swap, swaps

CopyRole = Literal["current", "context"]
_SIDES: tuple[SideName, SideName] = ("source", "target")
# Documents are measured together until they have this many sentences, so that batches are full.
_SENTENCES_PER_CHUNK = 20_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CopySettings:
    """How copies are made."""

    augment: AugmentConfig
    """Measure, replacement, probabilities and sides."""
    windows: WindowConfig
    """Context and longest window."""
    frame: Frame | None = None
    """What the model reads around and between sentences; Doc2Doc's by default."""
    rendering: Rendering
    """How tokens become text."""
    role: CopyRole = "current"
    """Whose probabilities a sentence gets."""
    copies: int = 1
    """Number of copies."""
    seed: int = 1
    """Seed of the noise."""
    max_tokens: int = 4096
    """Tokens of a batch, padding included."""

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ConfigError(f"`copies` must be at least 1, but is {self.copies}.")
        if self.role == "context" and self.windows.context == 0:
            raise ConfigError(
                "The run has no context (`windows.context: 0`), so no sentence can be perturbed "
                "as context. Choose `--role current`."
            )
        if self.role == "context" and self.frame is not None and not self.frame.target_context:
            raise ConfigError(
                "The run's model reads no context on the target side, so no target sentence can be "
                "perturbed as context. Choose `--role current`."
            )
        if self.augment.replacement == "drop" and self.augment.drop == "zero":
            raise ConfigError(
                "`augment.drop: zero` puts a zero vector in place of an embedding, which text "
                "cannot hold. Choose `--augment.drop mask`, or `--augment.replacement replace`."
            )


@dataclass(frozen=True)
class PerturbedSide:
    """One side of a sentence."""

    text: str
    tokens: tuple[str, ...]
    """The original pieces."""
    importance: tuple[float, ...] | None
    """φ of each; None if the sentence has no window in its role."""
    probability: tuple[float, ...] | None
    """Probability of being replaced; None likewise."""
    replaced: tuple[Swap, ...]

    def to_mapping(self) -> dict[str, Any]:
        """Return the tokens, their numbers to six places and what was replaced, for JSON."""

        def rounded(values: tuple[float, ...] | None) -> list[float] | None:
            return None if values is None else [round(value, 6) for value in values]

        return {
            "tokens": list(self.tokens),
            "importance": rounded(self.importance),
            "probability": rounded(self.probability),
            "replaced": [
                {"from": swap.start, "to": swap.stop, "by": swap.piece} for swap in self.replaced
            ],
        }


@dataclass(frozen=True)
class PerturbedDocument:
    """One copy of a document."""

    copy: int
    """Which copy, from 1."""
    original: ParallelDocument
    source: tuple[PerturbedSide, ...]
    """Of each sentence."""
    target: tuple[PerturbedSide, ...]

    def text(self) -> ParallelDocument:
        """Return the perturbed sentences."""
        return ParallelDocument(
            Document(self.original.source.name, tuple(side.text for side in self.source)),
            Document(self.original.target.name, tuple(side.text for side in self.target)),
        )


@dataclass(frozen=True)
class _Numbers:
    """Importance and probability of one side of a sentence, each (tokens,)."""

    importance: Tensor
    probability: Tensor


@dataclass
class Copier:
    """Makes copies of documents with one model."""

    model: Any
    subwords: SubwordEncoding
    settings: CopySettings
    sentences: int = 0
    """Number of sentence pairs so far."""
    tokens: int = 0
    """Number of tokens that could be replaced, in all copies."""
    replaced: int = 0
    """Number of tokens that were."""
    without_window: int = 0
    """Number of pairs that had no window in their role and stay as they are."""
    emptied: int = 0
    """Number of sides that stay as they are because the replaced text would be no sentence."""
    _replacement: Replacement = field(init=False)
    _word_starts: Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        if self.settings.augment.replacement == "drop" and self.subwords.special.mask is None:
            raise ConfigError(
                "The vocabulary of the run's pre-trained model has no mask token to drop words "
                "with. Choose `--augment.replacement replace`."
            )
        vocabulary = Vocabulary.of_tokenizer(self.subwords)
        self._replacement = make_replacement(self.settings.augment, vocabulary)
        self._word_starts = word_start_table(self.settings.augment, vocabulary)

    def copies(self, documents: Iterable[ParallelDocument]) -> Iterator[PerturbedDocument]:
        """Yield all copies of each document, in the order of the documents."""
        first = 0
        for chunk in _chunks(documents):
            numbers = self._measure(chunk)
            sentence = 0
            for place, document in enumerate(chunk, start=first):
                found = [numbers.get(sentence + i) for i in range(len(document))]
                sentence += len(document)
                self.sentences += len(document)
                self.without_window += found.count(None)
                ids = [
                    self.subwords.encode(side.sentences, name)
                    for side, name in zip((document.source, document.target), _SIDES, strict=True)
                ]
                for copy in range(1, self.settings.copies + 1):
                    yield self._copy(document, ids, found, (copy, place))
            first += len(chunk)
        self._report()

    def _measure(self, chunk: Sequence[ParallelDocument]) -> dict[int, dict[SideName, _Numbers]]:
        """Return the numbers of each side by the sentence's place in the chunk."""
        store = TokenStore.build(chunk, self.subwords)
        lengths = (store.source.lengths(), store.target.lengths())
        if not ((lengths[0] > 0) & (lengths[1] > 0)).any():
            return {}
        settings = self.settings
        # Every sentence is the current one of exactly one window, whatever training did.
        one_by_one = replace(
            settings.windows, strategy="sliding", stride=1, loss_on="current", noisy_context=0
        )
        frame = Frame.stock(store.special) if settings.frame is None else settings.frame
        # The sentence is the last of its window.
        windows = Windows(store, one_by_one, frame=replace(frame, after=0))
        found: dict[int, dict[SideName, _Numbers]] = {}
        batches = measure_windows(
            self.model,
            windows,
            settings.augment,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            word_starts=self._word_starts,
        )
        back = 1 if settings.role == "current" else 2
        for batch in batches:
            for row, number in enumerate(batch.numbers):
                first, stop = (int(of[number]) for of in (windows.spans.first, windows.spans.stop))
                if stop - first < back:
                    continue
                sentence = stop - back
                begins = (first, first if frame.target_context else sentence)
                source, target = (
                    side[begin:stop].tolist() for side, begin in zip(lengths, begins, strict=True)
                )
                context = len(source) - 1
                places = [side[-back] for side in frame.places(source, target, context)]
                found[sentence] = {
                    side: _numbers(batch.groups[side], row, *place)
                    for side, place in zip(_SIDES, places, strict=True)
                }
        return found

    def _copy(
        self,
        document: ParallelDocument,
        ids: Sequence[Sequence[list[int]]],
        numbers: Sequence[dict[SideName, _Numbers] | None],
        key: tuple[int, int],
    ) -> PerturbedDocument:
        texts = (document.source.sentences, document.target.sentences)
        source, target = (
            tuple(
                self._side(
                    text, tokens, None if found is None else found[name], name, (*key, number)
                )
                for number, (text, tokens, found) in enumerate(
                    zip(texts[side], ids[side], numbers, strict=True)
                )
            )
            for side, name in enumerate(_SIDES)
        )
        return PerturbedDocument(key[0], document, source, target)

    def _side(
        self,
        text: str,
        ids: list[int],
        numbers: _Numbers | None,
        side: SideName,
        key: tuple[int, ...],
    ) -> PerturbedSide:
        settings = self.settings
        tokens = tuple(self.subwords.pieces(ids))
        if numbers is None:
            return PerturbedSide(text, tokens, None, None, ())
        replaced: tuple[Swap, ...] = ()
        if settings.augment.sides in ("both", side):
            generator = seeded_generator(settings.seed, "copies", *key, side)
            row = torch.tensor([ids], dtype=torch.long)
            p = numbers.probability[None]
            heads = None
            if self._word_starts is not None:
                # Of one role, and special tokens such as tags have the probability 0.
                heads = word_heads(row, self._word_starts, [p.gt(0).long()])
            drawn, selected = perturb(row, p, self._replacement, generator=generator, heads=heads)
            self.tokens += int((numbers.probability > 0).sum())
            replaced = swaps(self.subwords, tokens, selected[0].tolist(), drawn[0].tolist())
        if replaced:
            changed = settings.rendering.text(self.subwords, text, ids, replaced, side)
            if settings.rendering.is_sentence(changed):
                text = changed
            else:
                self.emptied += 1
                replaced = ()
        self.replaced += sum(swap.stop - swap.start for swap in replaced)
        columns = (numbers.importance, numbers.probability)
        importance, probability = (tuple(column.tolist()) for column in columns)
        return PerturbedSide(text, tokens, importance, probability, replaced)

    def _report(self) -> None:
        if self.without_window:
            logger.warning(
                "%d of %d sentence pairs stay as they are: %s.",
                self.without_window,
                self.sentences,
                "a side is empty"
                if self.settings.role == "current"
                else "no window has them as the context right before its current sentence",
            )
        if self.emptied:
            logger.warning(
                "%d sides of sentences stay as they are: what replaced their tokens is no text.",
                self.emptied,
            )


def _numbers(group: MeasuredGroup, row: int, begin: int, stop: int) -> _Numbers:
    part = slice(begin, stop)
    return _Numbers(group.importance[row, part].cpu(), group.probability[row, part].cpu())


def _chunks(documents: Iterable[ParallelDocument]) -> Iterator[list[ParallelDocument]]:
    chunk: list[ParallelDocument] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document)
        if size >= _SENTENCES_PER_CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def copy_boundaries(data: DataConfig, split: Split) -> Boundaries:
    """Return how copies separate documents: as in the original text, else by `<d>` lines."""
    return data.boundaries if file_format(data, split) == "text" else "marker"


def write_copies(
    copier: Copier, data: DataConfig, split: Split, output: Path, *, details: bool
) -> Path:
    """Write perturbed copies of a split.

    Args:
        copier: makes the copies.
        data: the corpus.
        split: which part of it.
        output: a new folder. Each copy is a pair of text files, `<split>.<copy>.<language>`.
        details: also write `<split>.<copy>.jsonl`, one record for each sentence.

    Returns:
        The folder.
    """
    if os.path.lexists(output):
        raise RunError(
            f"{output} already exists. Choose another `--output`, or remove it yourself."
        )
    partial = output.with_name(f"{output.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    with locked(partial, "writing"), ExitStack() as stack:
        for left_over in partial.iterdir():
            left_over.unlink()
        languages = (data.source_language, data.target_language)
        files = {
            (copy, kind): stack.enter_context(open_for_writing(partial / f"{split}.{copy}.{kind}"))
            for copy in range(1, copier.settings.copies + 1)
            for kind in (*languages, *(("jsonl",) if details else ()))
        }
        boundaries = copier.settings.rendering.boundaries
        begun: set[int] = set()
        for document in copier.copies(stream_split(data, split)):
            _write_text(document, files, languages, boundaries, is_first=document.copy not in begun)
            begun.add(document.copy)
            if details:
                files[document.copy, "jsonl"].writelines(_records(document))
    put_in_place(partial, output)
    return output


def _write_text(
    document: PerturbedDocument,
    files: dict[tuple[int, str], TextIO],
    languages: tuple[str, str],
    boundaries: Boundaries,
    *,
    is_first: bool,
) -> None:
    text = document.text()
    for language, side in zip(languages, (text.source, text.target), strict=True):
        lines = document_lines(side.sentences, boundaries, is_first=is_first)
        files[document.copy, language].writelines(lines)


def _records(document: PerturbedDocument) -> Iterator[str]:
    sides = zip(document.source, document.target, strict=True)
    for number, (source, target) in enumerate(sides, start=1):
        record: dict[str, Any] = {
            "document": document.original.name,
            "sentence": number,
            "source": source.to_mapping(),
            "target": target.to_mapping(),
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"
