"""The frame of a window: what opens, separates and closes the sentences of each side.

The store keeps every sentence followed by one virtual `<sep>`; a frame says what a model reads in
its place. Two forms:

    ends: once     source         c <sep> x </s>         one opening, one end, separators between
                   decoder input  <s> c <sep> y
                   labels         c <sep> y </s>
    ends: each     source         c </s> x </s>          every sentence is a sentence-level example
                   decoder input  <s> c <s> y
                   labels         c </s> y </s>

An opening of several tokens (NLLB's `</s> deu_Latn`) is given, not predicted: the labels of its
tokens after the first are outside the loss.

`Frame` writes one window, readably. `frame_source` and `frame_target` write all windows of a batch
at once; both are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Ids, Offsets
from iada.data.tokens.subwords import SpecialIds
from iada.data.windows.batch import IGNORED, Gathered

Bools = npt.NDArray[np.bool_]
Places = list[tuple[int, int]]
"""Where each sentence of a window begins and stops in the tokens of its side."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """How the sentences of a window become the two sequences that a model reads."""

    source_end: tuple[int, ...]
    """What closes the source."""
    target_begin: tuple[int, ...]
    """What opens the decoder input, at least one token; only the first of them has a label."""
    target_end: int
    """What the decoder says when a translation is complete."""
    separator: int
    """What stands between sentences where they end `once`."""
    source_begin: tuple[int, ...] = ()
    """What opens the source."""
    source_separator: int | None = None
    """What stands between source sentences in place of `separator`, where the source has a
    vocabulary of its own."""
    prompt: int = 0
    """How many tokens at the end of `source_begin` are text, an instruction to the model: special
    where they stand, ordinary everywhere else."""
    ends: Literal["once", "each"] = "once"
    """Whether a window is opened and closed once, or each of its sentences is."""
    target_context: bool = True
    """Whether the context stands on the target side too, or on the source side alone."""
    after: int = 0
    """Number of source sentences after the current part, as far as the document has them."""
    far_context: int = 0
    """Context sentences on top of `windows.context`, for models that read them in another way."""

    @classmethod
    def stock(cls, special: SpecialIds) -> "Frame":
        """Return the form of Doc2Doc: `<sep>` between sentences, one `<s>` and one `</s>`."""
        return cls(
            source_end=(special.eos,),
            target_begin=(special.bos,),
            target_end=special.eos,
            separator=special.sep,
        )

    def __post_init__(self) -> None:
        if self.prompt and self.ends == "each":
            raise ValueError("a prompt opens a window once")

    @property
    def tokens(self) -> frozenset[int]:
        """All ids that the frame may write; never perturbed."""
        begin = self.source_begin[: len(self.source_begin) - self.prompt]
        own = (*begin, *self.source_end, *self.target_begin)
        between = () if self.source_separator is None else (self.source_separator,)
        return frozenset((*own, self.target_end, self.separator, *between))

    @property
    def source_boundary(self) -> tuple[int, ...]:
        """What stands between two source sentences."""
        if self.ends == "each":
            return self.source_end + self.source_begin
        return (self.separator if self.source_separator is None else self.source_separator,)

    @property
    def target_boundary(self) -> tuple[int, ...]:
        """What stands between two sentences of the decoder input."""
        return self.target_begin if self.ends == "each" else (self.separator,)

    @property
    def label_boundary(self) -> tuple[int, ...]:
        """What stands between two sentences of the labels."""
        if self.ends == "once":
            return (self.separator,)
        return (self.target_end, *self._forced)

    @property
    def _forced(self) -> tuple[int, ...]:
        """Labels of the opening tokens that are given."""
        return (IGNORED,) * (len(self.target_begin) - 1)

    def context(self, config: WindowConfig) -> int:
        """Return the number of context sentences that windows have where the document has them."""
        return config.context + self.far_context if config.context else 0

    def source(self, sentences: Sequence[Sequence[int]]) -> list[int]:
        """Write the source of a window, given the tokens of its sentences."""
        return [*self.source_begin, *_join(sentences, self.source_boundary), *self.source_end]

    def decoder_input(self, sentences: Sequence[Sequence[int]]) -> list[int]:
        """Write the decoder input of a window, given the tokens of its target sentences."""
        return [*self.target_begin, *_join(sentences, self.target_boundary)]

    def labels(self, sentences: Sequence[Sequence[int]]) -> list[int]:
        """Write what each position of the decoder input predicts; IGNORED where it is given."""
        return [*self._forced, *_join(sentences, self.label_boundary), self.target_end]

    def prefix(self, context: Sequence[Sequence[int]]) -> list[int]:
        """Write the decoder input up to where the next sentence begins, given those before it."""
        return self.decoder_input([*context, ()])

    def request(
        self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]
    ) -> tuple[list[int], list[int]]:
        """Write what a model is given to translate a sentence, with the context as far as given.

        Args:
            source: the source sentences.
            target: translations of the context.

        Returns:
            The source, and the forced beginning of the target.
        """
        return self.source(source), self.prefix(target)

    def sentence_length(self, tokens: Sequence[int]) -> int:
        """Return what a source sentence needs in a window of its own, before its translation."""
        return max(map(len, self.request([tokens], [])))

    def places(
        self, source: Sequence[int], target: Sequence[int], context: int
    ) -> tuple[Places, Places]:
        """Return where sentences stand in the source and in the decoder input of a window.

        Args:
            source: tokens of each source sentence.
            target: tokens of each target sentence.
            context: how many source sentences are context before the current part.
        """
        return (
            _places(source, len(self.source_begin), len(self.source_boundary)),
            _places(target, len(self.target_begin), len(self.target_boundary)),
        )

    def extra(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return what a window needs beyond one token after each of its sentences.

        Returns:
            Tokens per window and tokens per sentence, of the source and of the target.
        """
        source = len(self.source_begin) + len(self.source_end) - 1
        target = len(self.target_begin) - 1
        if self.ends == "each":
            return (0, source), (0, target)
        return (source, 0), (target, 0)


def _join(sentences: Sequence[Sequence[int]], boundary: tuple[int, ...]) -> list[int]:
    joined: list[int] = []
    for number, sentence in enumerate(sentences):
        joined += [*(boundary if number else ()), *sentence]
    return joined


def _places(lengths: Sequence[int], begin: int, between: int) -> Places:
    places = []
    for length in lengths:
        places.append((begin, begin + length))
        begin += length + between
    return places


class FramedSource(NamedTuple):
    """The source of the windows of a batch end to end."""

    ids: Ids
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""
    is_context: Bools
    """(tokens,)"""


class FramedTarget(NamedTuple):
    """Decoder input and labels of the windows of a batch end to end."""

    ids: Ids
    """(tokens,): decoder input."""
    labels: Offsets
    """(tokens,)"""
    lengths: Offsets
    """(windows,)"""
    is_context: Bools
    """(tokens,): whether the label is that of a context sentence; of tokens that are no part of the
    frame, also whether the input is."""


def frame_source(side: Gathered, frame: Frame, sep: int) -> FramedSource:
    """Write the sources of a batch; `sep` is what ends each sentence in the store."""
    ids, lengths, is_context = side
    last = np.cumsum(lengths) - 1
    if len(frame.source_boundary) == len(frame.source_end) == 1 and not frame.source_begin:
        ids = _write(ids, sep, frame.source_boundary[0])
        ids[last] = frame.source_end[0]
        return FramedSource(ids, lengths, is_context)
    rows = _Rows(ids, lengths, last, ids == sep)
    written, widths = rows.write(frame.source_begin, frame.source_boundary, frame.source_end)
    return FramedSource(written.astype(np.int32), rows.count(widths), np.repeat(is_context, widths))


def frame_target(side: Gathered, frame: Frame, sep: int) -> FramedTarget:
    """Write decoder inputs and labels of a batch; `sep` is what ends each sentence in the store."""
    ids, lengths, is_context = side
    last = np.cumsum(lengths) - 1
    if len(frame.target_begin) == 1:
        labels = _write(ids, sep, frame.label_boundary[0]).astype(np.int64)
        labels[last] = frame.target_end
        ids = _write(ids, sep, frame.target_boundary[0])
        return FramedTarget(
            _one_later(ids, frame.target_begin[0], last), labels, lengths, is_context
        )
    rows = _Rows(ids, lengths, last, ids == sep)
    forced = (IGNORED,) * (len(frame.target_begin) - 1)
    labels, widths = rows.write(forced, frame.label_boundary, (frame.target_end,))
    moved, _ = rows.write(frame.target_begin, frame.target_boundary, ())
    return FramedTarget(
        moved.astype(np.int32), labels, rows.count(widths), np.repeat(is_context, widths)
    )


@dataclass(frozen=True)
class _Rows:
    """Windows end to end, for frames that are wider than one token per boundary."""

    ids: Ids
    """(tokens,): as the store has them."""
    lengths: Offsets
    """(rows,)"""
    last: Offsets
    """(rows,): where each row ends."""
    ends: Bools
    """(tokens,): true where a sentence ends."""

    def write(
        self, begin: tuple[int, ...], boundary: tuple[int, ...], end: tuple[int, ...]
    ) -> tuple[Offsets, Offsets]:
        """Open every row with `begin`, and write `boundary` or, last in a row, `end` for `<sep>`.

        Returns:
            The tokens, and how many of them each token of the store became, (tokens,). What opens a
            row counts with its first token.
        """
        first = self.last - self.lengths + 1
        widths = np.ones(len(self.ids), dtype=np.int64)
        widths[self.ends] = len(boundary)
        widths[self.last] = len(end)
        opened = widths.copy()
        opened[first] += len(begin)
        stops = np.cumsum(opened)
        starts = stops - widths
        written = np.empty(int(stops[-1]), dtype=np.int64)
        text = ~self.ends
        text[self.last] = False
        written[starts[text]] = self.ids[text]
        inner = self.ends.copy()
        inner[self.last] = False
        for offset, token in enumerate(boundary):
            written[starts[inner] + offset] = token
        for offset, token in enumerate(end):
            written[starts[self.last] + offset] = token
        for offset, token in enumerate(begin):
            written[starts[first] - len(begin) + offset] = token
        return written, opened

    def count(self, widths: Offsets) -> Offsets:
        """(rows,): tokens of each row, given what each token of the store became."""
        return np.diff(np.concatenate(([0], np.cumsum(widths)[self.last])))


def _write(ids: Ids, sep: int, boundary: int) -> Ids:
    """Return the tokens with `boundary` in place of `sep`."""
    return ids if sep == boundary else np.where(ids == sep, np.int32(boundary), ids)


def _one_later(ids: Ids, first: int, last: Offsets) -> Ids:
    """Move the tokens of every row by one place; each begins with `first` and loses its last.

    Args:
        ids: (tokens,) the rows, end to end.
        first: what each row begins with.
        last: (rows,) where each row ends.
    """
    moved = np.empty_like(ids)
    moved[0] = first
    moved[1:] = ids[:-1]
    moved[last[:-1] + 1] = first
    return moved
