"""Training windows that draw more than their tokens: a new segmentation, or an enciphered source.

BPE-dropout segments both sides anew each time, labels included; the text is the same. The noise of
a window is a function of the seed, the epoch and the window alone, so the same sentence is cut
differently in every window, and resumed, accumulated and distributed runs draw the same. A
segmentation is longer than the plain one by a random amount. Batches are planned with an allowance
for each window and side: the mean growth and three standard deviations, at most
`windows.max_length`. A window that comes out longer keeps the plain segmentation in its oldest
sentences, as few as it takes. So windows are cut as always, no batch exceeds its budget, and no
text is lost.

CipherDAug adds a second, enciphered view of the source. The store holds the source once for each
cipher, so that a view is index arithmetic like the window itself. Which cipher a window gets is
drawn anew in every epoch, as a function of the seed, the epoch and the window alone. Context and
current part share it, and both views have one target.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Offsets, TokenStore
from iada.data.tokens.bpe_dropout import MergeWalk, passed_over
from iada.data.tokens.subwords import Subwords
from iada.data.tokens.words import PieceWords
from iada.data.windows.batch import CipheredRows, Gathered, Rows, Window, noise_key
from iada.data.windows.conditions import ContextNoise
from iada.data.windows.frame import Frame, frame_source
from iada.data.windows.windows import Windows
from iada.seeding import derive_seed

_SAMPLE = 1000
"""Windows from which the growth is estimated."""
_DEVIATIONS = 3
"""Standard deviations above the mean growth that the plan allows for."""


class ResegmentedWindows(Windows):
    """Windows with BPE-dropout."""

    def __init__(
        self,
        store: TokenStore,
        config: WindowConfig,
        *,
        subwords: Subwords,
        dropout: float,
        seed: int,
        frame: Frame | None = None,
        documents: Offsets | None = None,
        noise: ContextNoise | None = None,
    ) -> None:
        """Cut windows.

        Args:
            store: the sentences in their plain segmentation.
            config: how to cut; its noise is not used.
            subwords: the encoding of the store.
            dropout: probability that a merge is skipped, in [0, 1].
            seed: seed of the segmentations.
            frame: see `Windows`.
            documents: see `Windows`.
            noise: see `Windows`.
        """
        super().__init__(store, config, frame=frame, documents=documents, noise=noise)
        self.dropout = dropout
        self.seed = seed
        self.drawn = 0
        """Windows drawn so far."""
        self.held = 0
        """How many of them were held to their allowance on one of the sides."""
        self._words = PieceWords(subwords)
        self._walk = MergeWalk(subwords)

    def __getitem__(self, key: tuple[int, int]) -> Window:
        """Return window number `key[1]` as drawn in epoch `key[0]`."""
        rows = self.__getitems__([key])
        epoch, number = key
        current = int(self.spans.current[number])
        return Window(
            source_ids=rows.source_ids,
            source_roles=rows.source_roles,
            target_ids=rows.target_ids,
            target_roles=rows.target_roles,
            labels=rows.labels,
            sentence=current,
            epoch=epoch,
            sentences=int(self.spans.stop[number]) - current,
            first_sentence=None if rows.first_sentence is None else int(rows.first_sentence[0]),
            number=number,
        )

    def planned_lengths(self) -> Offsets:
        """(windows, 2): the allowance of each window on both sides, with its frame."""
        return self._allowances + self._frame_tokens

    def draw(self, keys: Sequence[tuple[int, int]]) -> tuple[Gathered, Gathered]:
        """Return source and target of windows, given by epoch and number, segmented anew."""
        numbers = np.array([number for _, number in keys])
        limits = self._allowances[numbers]
        plain_source, plain_target = super().draw(keys)
        randoms = self._randoms(keys, "bpe dropout")
        source, source_held = self._segmented(plain_source, randoms, limits[:, 0])
        target, target_held = self._segmented(plain_target, randoms, limits[:, 1])
        self.drawn += len(keys)
        self.held += len(source_held | target_held)
        return source, target

    @cached_property
    def _frame_tokens(self) -> Offsets:
        """(windows, 2): tokens that are no part of the segmentation."""
        sides = (self.store.source, self.store.target)
        return np.stack([self.frame_tokens(side) for side in sides], axis=1)

    @cached_property
    def _allowances(self) -> Offsets:
        """(windows, 2): see the module; without what the frame adds."""
        frame = self._frame_tokens
        plain = self.lengths() - frame
        sample = np.unique(np.linspace(0, len(self) - 1, min(_SAMPLE, len(self))).astype(np.int64))
        keys = [(0, number) for number in sample.tolist()]
        randoms = self._randoms(keys, "bpe dropout allowance")
        allowances = []
        for side, lengths, extra in zip(super().draw(keys), plain.T, frame.T, strict=True):
            drawn = self._segmented(side, randoms, None)[0].lengths
            growth = drawn.sum() / side.lengths.sum()
            # Words grow independently, so the variance is proportional to the length.
            variance = np.mean((drawn - growth * side.lengths) ** 2 / side.lengths)
            allowed = growth * lengths + _DEVIATIONS * np.sqrt(variance * lengths)
            longest = np.maximum(lengths, self.config.max_length - extra)
            allowances.append(np.clip(np.ceil(allowed).astype(np.int64), lengths, longest))
        return np.stack(allowances, axis=1)

    def _randoms(self, keys: Sequence[tuple[int, int]], purpose: str) -> list[np.random.Generator]:
        """Open the stream of random numbers of each window."""
        spans = self.spans
        names = (
            noise_key(epoch, int(spans.current[i]), int(spans.stop[i] - spans.current[i]))
            for epoch, i in keys
        )
        return [np.random.default_rng(derive_seed(self.seed, purpose, *name)) for name in names]

    def _segmented(
        self, side: Gathered, randoms: Sequence[np.random.Generator], limits: Offsets | None
    ) -> tuple[Gathered, set[int]]:
        """Segment one side anew, and return which rows were held to their limits, (rows,)."""
        begins = self._words.begins(side.ids)
        characters, plain = self._walk.words(side.ids, begins)
        row = np.searchsorted(np.cumsum(side.lengths), begins, side="right")
        draws = np.bincount(row, self._walk.lengths(characters)).astype(np.int64).tolist()
        uniform = [random.random(count) for random, count in zip(randoms, draws, strict=True)]
        skipped = passed_over(np.concatenate(uniform), self.dropout)
        states = self._walk.walk(characters, skipped)
        held: set[int] = set()
        if limits is not None:
            over = np.bincount(row, self._walk.lengths(states)) > limits
            held = set(np.flatnonzero(over).tolist())
            ends = side.ids[begins] == self.store.special.sep
            for number in held:
                words = np.flatnonzero(row == number)
                drawn, kept = self._walk.lengths(states[words]), self._walk.lengths(plain[words])
                oldest = words[: _words_to_keep(drawn, kept, ends[words], int(limits[number]))]
                states[oldest] = plain[oldest]
        lengths = self._walk.lengths(states)
        segmented = Gathered(
            self._walk.pieces(states),
            np.bincount(row, lengths).astype(np.int64),
            np.repeat(side.is_context[begins], lengths),
        )
        return segmented, held


def _words_to_keep(drawn: Offsets, plain: Offsets, ends: npt.NDArray[np.bool_], limit: int) -> int:
    """Return how many words of a window must stay plain: whole sentences, the oldest ones.

    Args:
        drawn: (words,) pieces of each word as drawn.
        plain: (words,) pieces of each word in the plain segmentation, which fits.
        ends: (words,) whether a word is the `<sep>` that ends a sentence.
        limit: most pieces of the window.
    """
    stops = np.flatnonzero(ends)
    total = drawn.sum() + np.cumsum(plain - drawn)[stops]
    return int(stops[np.argmax(total <= limit)]) + 1


class CipheredWindows(Windows):
    """Windows of a store with enciphered sources; the longest view counts in every limit.

    A single window, `windows[key]`, is the plain one; a batch of them has both views.
    """

    def __init__(
        self,
        store: TokenStore,
        config: WindowConfig,
        *,
        seed: int,
        frame: Frame | None = None,
        documents: Offsets | None = None,
        noise: ContextNoise | None = None,
    ) -> None:
        """Cut windows.

        Args:
            store: the sentences, with at least one enciphered source.
            config: how to cut; its noise is not used.
            seed: seed of the choice of ciphers.
            frame: see `Windows`.
            documents: see `Windows`.
            noise: see `Windows`.
        """
        if not store.ciphered:
            raise ValueError("the store has no enciphered source")
        super().__init__(store, config, frame=frame, documents=documents, noise=noise)
        self.seed = seed
        self._epoch: int | None = None
        self._choices = np.zeros(0, dtype=np.int64)

    def ciphers(self, epoch: int) -> Offsets:
        """(windows,): which of the enciphered sources each window reads in an epoch."""
        if self._epoch != epoch:
            random = np.random.default_rng(derive_seed(self.seed, "ciphers", epoch))
            self._choices = random.integers(len(self.store.ciphered), size=len(self))
            self._epoch = epoch
        return self._choices

    def planned_lengths(self) -> Offsets:
        """(windows, 2): the longest of all source views, plain and enciphered, and the target."""
        source, target, *ciphered = map(self.side_lengths, self.store.sides)
        return np.stack([np.maximum.reduce([source, *ciphered]), target], axis=1)

    def __getitems__(self, keys: Sequence[tuple[int, int]]) -> Rows:
        """Return the windows of a batch at once, each with its enciphered source."""
        numbers = np.array([number for _, number in keys], dtype=np.int64)
        choices = np.array([self.ciphers(epoch)[number] for epoch, number in keys])
        drawn = _in_order(
            [
                self.gather(side, numbers[choices == choice])
                for choice, side in enumerate(self.store.ciphered)
            ],
            choices,
        )
        view = frame_source(drawn, self.frame, self.store.special.sep)
        return replace(super().__getitems__(keys), ciphered=CipheredRows(view.ids, view.lengths))


def _in_order(parts: Sequence[Gathered], choices: Offsets) -> Gathered:
    """Join parts, whose rows have choice 0, 1, ..., in the order of `choices`, (rows,)."""
    lengths = np.concatenate([part.lengths for part in parts])
    begins = np.cumsum(lengths) - lengths
    # Where each row stands in the joined parts.
    row = np.argsort(np.argsort(choices, kind="stable"), kind="stable")
    begins, lengths = begins[row], lengths[row]
    shift = begins - (np.cumsum(lengths) - lengths)
    places = np.repeat(shift, lengths) + np.arange(int(lengths.sum()))
    return Gathered(
        np.concatenate([part.ids for part in parts])[places],
        lengths,
        np.concatenate([part.is_context for part in parts])[places],
    )
