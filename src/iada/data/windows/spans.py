"""Where windows begin and end: arithmetic on sentence numbers, without touching a token.

A window is three sentence numbers: sentences first to current - 1 are its context, sentences
current to stop - 1 are its current part. For models that read what follows, a fourth: source
sentences stop to end - 1 come after it. Two strategies choose the current parts. `sliding` takes
the next `stride` sentences, so that the parts joined are the document. `multires` cuts the document
into 1, 2, 4, ... parts of as equal sentence count as possible, down to single sentences.
`part_of` finds the part of a
sentence in a document that is still to be translated.
Whatever a limit takes away is counted in a message. The limit holds for all sides of the store, so
that an enciphered source fits where its plain one does, and counts what the frame adds.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Offsets, TokenStore
from iada.data.windows.frame import Frame
from iada.data.windows.prompt import Prompt
from iada.errors import DataError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spans:
    """Sentence numbers of windows, each array (windows,)."""

    first: Offsets
    """Oldest context sentence; equal to `current` without context."""
    current: Offsets
    """First current sentence."""
    stop: Offsets
    """One past the last current sentence."""
    end: Offsets | None = None
    """One past the last source sentence; without it the current part is the last."""

    def __len__(self) -> int:
        return len(self.current)

    def select(self, chosen: npt.NDArray[np.bool_]) -> "Spans":
        """Return the windows where `chosen`, (windows,), is true."""
        end = None if self.end is None else self.end[chosen]
        return Spans(self.first[chosen], self.current[chosen], self.stop[chosen], end)


@dataclass(frozen=True)
class Measure:
    """What sentences cost on each side, in a frame and against a limit."""

    source: tuple[Offsets, ...]
    """(sentences + 1,) of the source and of its enciphered forms: tokens before each sentence."""
    target: Offsets
    """(sentences + 1,): the same of the target."""
    max_length: int
    """Most tokens of all sentences of a window together, on each side."""

    @property
    def sides(self) -> tuple[Offsets, ...]:
        """Source, target, enciphered sources."""
        return (self.source[0], self.target, *self.source[1:])


def measure_sentences(store: TokenStore, config: WindowConfig, frame: Frame) -> Measure:
    """Count the tokens of all sentences as windows have them."""
    if isinstance(frame, Prompt):
        # Both sides are one sequence, and each stands for it.
        sides = (np.asarray(side.offsets) for side in (store.source, store.target))
        joined = sum(sides) + frame.per_pair * np.arange(len(store) + 1)
        return Measure((joined,), joined, config.max_length - frame.per_window)
    (source_window, source_each), (target_window, target_each) = frame.extra()
    # Plain views: a memory map would make every intermediate result a map as well.
    source, target, *ciphered = (np.asarray(side.offsets) for side in store.sides)
    sentences = np.arange(len(store) + 1)
    if source_each or target_each:
        source, *ciphered = (one + source_each * sentences for one in (source, *ciphered))
        target = target + target_each * sentences
    # One limit for both sides, so that the same context fits on both.
    return Measure(
        (source, *ciphered), target, config.max_length - max(source_window, target_window)
    )


def split_long_sentences(
    store: TokenStore, config: WindowConfig, frame: Frame, starts: npt.NDArray[np.bool_]
) -> TokenStore:
    """Cut sentence pairs that are too long for a window, on both sides into as many parts.

    Parts are about equally long and begin with a word where one is near. The new arrays are in
    memory, whatever those of the store are.

    Args:
        store: the sentences.
        config: the limit.
        frame: what the model reads around sentences.
        starts: (vocabulary,) whether a piece begins a word.
    """
    measure = measure_sentences(store, config, frame)
    sentences = np.arange(len(store))
    lengths = _longest_side(measure, sentences, sentences + 1)
    # What a part costs beside its tokens: `<sep>`, and what the frame adds.
    beside = [
        int(counted[1] - counted[0]) - int(side.offsets[1] - side.offsets[0]) + 1
        for counted, side in zip(measure.sides, store.sides, strict=True)
    ]
    cuts = {}
    over = np.flatnonzero(lengths > measure.max_length)
    for sentence in over.tolist():
        texts = [
            np.asarray(side.ids[side.offsets[sentence] : side.offsets[sentence + 1] - 1])
            for side in store.sides
        ]
        found = _cut_alike(texts, [measure.max_length - one for one in beside], starts)
        if found is not None:
            cuts[sentence] = found
    if not cuts:
        return store
    logger.warning(
        "%d sentence pairs are longer than `windows.max_length` (%d tokens): cut into %d parts at "
        "about the same places on both sides.",
        len(cuts),
        config.max_length,
        sum(len(found[0]) + 1 for found in cuts.values()),
    )
    return store.cut(cuts)


def _cut_alike(
    texts: list[npt.NDArray[Any]], limits: list[int], starts: npt.NDArray[np.bool_]
) -> list[list[int]] | None:
    """Return where to cut the sides of a pair so that every part fits; None if there is no way."""
    fewest = max(-(-len(text) // limit) for text, limit in zip(texts, limits, strict=True))
    # Cuts move to the beginnings of words, so a few more parts may be needed.
    for parts in range(max(fewest, 2), min(len(text) for text in texts) + 1):
        found = [_even_cuts(text, parts, starts) for text in texts]
        fits = (
            np.diff([0, *cuts, len(text)]).max() <= limit
            for text, cuts, limit in zip(texts, found, limits, strict=True)
        )
        if all(fits):
            return found
    return None


def _even_cuts(text: npt.NDArray[Any], parts: int, starts: npt.NDArray[np.bool_]) -> list[int]:
    """Return `parts` - 1 ascending places near those that cut a text into equal parts."""
    words = np.flatnonzero(starts[text])
    room = len(text) / parts / 3
    cuts: list[int] = []
    for number in range(1, parts):
        wanted = number * len(text) / parts
        near = words[np.abs(words - wanted) < room] if len(words) else words
        place = int(near[np.abs(near - wanted).argmin()]) if len(near) else round(wanted)
        cuts.append(max(place, (cuts[-1] if cuts else 0) + 1))
    return cuts


def current_parts(
    store: TokenStore, config: WindowConfig, documents: Offsets, measure: Measure
) -> Spans:
    """Cut documents into current parts that fit `windows.max_length`, still without context.

    Args:
        store: the sentences.
        config: how to cut.
        documents: (documents,) ascending numbers of the documents to cut.
        measure: what sentences cost.

    Raises:
        DataError: a sentence is too long by itself, or no part has text on both sides.
    """
    if config.on_long == "refuse":
        _refuse_long_sentences(store, config.max_length, documents, measure)
    if config.strategy == "sliding":
        parts = _sliding(store, config, documents, measure)
    else:
        parts = _multires(store, config.max_length, documents, measure)
    return _with_text(store, _fitting(parts, config, measure))


def with_context(
    store: TokenStore, parts: Spans, config: WindowConfig, measure: Measure, frame: Frame
) -> Spans:
    """Put context before each part, as many sentences as fit on the sides that have context."""
    wanted = wanted_first(store, parts, frame.context(config))
    sides = measure.sides if frame.target_context else measure.source
    fitting = [
        np.searchsorted(offsets, offsets[parts.stop] - measure.max_length) for offsets in sides
    ]
    # Without context the part fits, so a document's start never lies after it.
    first = np.maximum.reduce([wanted, *fitting])
    report_lost_context(first > wanted, config.max_length)
    parts = replace(parts, first=first)
    return _with_following(store, parts, config, measure, frame) if frame.after else parts


def _with_following(
    store: TokenStore, parts: Spans, config: WindowConfig, measure: Measure, frame: Frame
) -> Spans:
    """Put source sentences after each part; the context before it has the first claim to room."""
    document_stops = np.asarray(store.document_starts)[store.document_of[parts.current] + 1]
    wanted = np.minimum(parts.stop + frame.after, document_stops)
    fitting = [
        np.searchsorted(offsets, offsets[parts.first] + measure.max_length, side="right") - 1
        for offsets in measure.source
    ]
    end = np.minimum.reduce([wanted, *fitting])
    if lost := int((end < wanted).sum()):
        logger.warning(
            "%d of %d windows lost following sentences to fit `windows.max_length` (%d tokens).",
            lost,
            len(parts),
            config.max_length,
        )
    return replace(parts, end=end)


def wanted_first(store: TokenStore, parts: Spans, context: int) -> Offsets:
    """(windows,): oldest context sentence of each window if length were no matter."""
    starts = np.asarray(store.document_starts)[store.document_of[parts.current]]
    return np.asarray(np.maximum(starts, parts.current - context))


def report_lost_context(lost: npt.NDArray[np.bool_], max_length: int) -> None:
    """Say how many windows lost context to the length limit; `lost` is (windows,)."""
    if lost.any():
        logger.warning(
            "%d of %d windows lost their oldest context to fit `windows.max_length` (%d tokens).",
            int(lost.sum()),
            len(lost),
            max_length,
        )


def _sliding(
    store: TokenStore, config: WindowConfig, documents: Offsets, measure: Measure
) -> Spans:
    sentences = np.arange(len(store))
    document_stops = np.asarray(store.document_starts)[store.document_of + 1]
    wanted = np.minimum(sentences + config.stride, document_stops)
    fitting = [
        np.searchsorted(offsets, offsets[:-1] + measure.max_length, side="right") - 1
        for offsets in measure.sides
    ]
    # At least one sentence: those that do not fit are left out later, or were not chosen.
    stop = np.maximum(np.minimum.reduce([wanted, *fitting]), sentences + 1)
    current = sentences if config.stride == 1 else _chain(stop)
    current = current[_is_among(store.document_of[current], documents)]
    if shortened := int((stop[current] < wanted[current]).sum()):
        logger.warning(
            "%d of %d windows have fewer current sentences than `windows.stride` (%d) to fit "
            "`windows.max_length` (%d tokens); the next window begins earlier.",
            shortened,
            len(current),
            config.stride,
            config.max_length,
        )
    return Spans(current, current, stop[current])


def _chain(stop: Offsets) -> Offsets:
    """Return 0 and every sentence where the part before it stops; documents follow each other."""
    stops = stop.tolist()
    begins = []
    position = 0
    while position < len(stops):
        begins.append(position)
        position = stops[position]
    return np.array(begins, dtype=np.int64)


def _multires(store: TokenStore, max_length: int, documents: Offsets, measure: Measure) -> Spans:
    starts = np.asarray(store.document_starts)
    begins, sizes = starts[documents], np.diff(starts)[documents]
    found = [np.empty(0, dtype=np.int64)]
    count = 1
    # A document takes part until an earlier resolution has cut it into single sentences.
    while (takes_part := sizes > count // 2).any():
        begin, size = begins[takes_part, None], sizes[takes_part, None]
        # Equal up to one sentence, and every cut is also a cut of all finer resolutions.
        cuts = begin + np.arange(count + 1) * size // count
        current, stop = cuts[:, :-1].ravel(), cuts[:, 1:].ravel()
        filled = current < stop
        found.append(current[filled] * (len(store) + 1) + stop[filled])
        count *= 2
    current, stop = np.divmod(np.unique(np.concatenate(found)), len(store) + 1)
    fits = _longest_side(measure, current, stop) <= measure.max_length
    if dropped := int((~fits).sum()):
        logger.warning(
            "%d of %d parts are longer than `windows.max_length` (%d tokens): left out, "
            "their halves remain.",
            dropped,
            len(fits),
            max_length,
        )
    return Spans(current, current, stop).select(fits)


def part_of(
    lengths: Sequence[int], number: int, config: WindowConfig, frame: Frame
) -> tuple[int, int]:
    """Return the window of a sentence in a document of which the source alone is known.

    With `multires` it is the largest part of the document that holds the sentence and fits; these
    parts joined are the document. With `sliding` it begins with the context of the sentence and
    ends with the last of `windows.stride` current ones.

    Args:
        lengths: source tokens of each sentence of the document.
        number: of the sentence.
        config: how windows are cut.
        frame: what the model reads around and between sentences.

    Returns:
        Numbers of the first sentence and of the one after the last; always at least the sentence.
    """
    (per_window, per_sentence), _ = frame.extra()

    def fits(first: int, stop: int) -> bool:
        tokens = sum(lengths[first:stop]) + (stop - first) * (1 + per_sentence) + per_window
        return tokens <= config.max_length or stop - first == 1

    size, count = len(lengths), 1
    if config.strategy == "multires":
        while True:
            # The last part that does not begin after the sentence; cuts as in `_multires`.
            part = ((number + 1) * count - 1) // size
            first, stop = part * size // count, (part + 1) * size // count
            if fits(first, stop):
                return first, stop
            count *= 2
    stop = min(number + config.stride, size)
    while not fits(number, stop):
        stop -= 1
    first = max(0, number - frame.context(config))
    while not fits(first, stop) and first < number:
        first += 1
    return first, stop


def _fitting(parts: Spans, config: WindowConfig, measure: Measure) -> Spans:
    """Leave out parts that are a single sentence too long for a window."""
    fits = _longest_side(measure, parts.current, parts.stop) <= measure.max_length
    if left_out := int((~fits).sum()):
        logger.warning(
            "%d of %d windows have a current sentence longer than `windows.max_length` (%d "
            "tokens): left out.",
            left_out,
            len(parts),
            config.max_length,
        )
    if not fits.any():
        raise DataError(
            f"Every sentence is longer than `windows.max_length` ({config.max_length} tokens), so "
            "there is no window. Raise the limit."
        )
    return parts.select(fits)


def _with_text(store: TokenStore, parts: Spans) -> Spans:
    """Leave out parts without a token on one of the sides, which teach nothing."""
    sentences = parts.stop - parts.current
    filled = np.ones(len(parts), dtype=np.bool_)
    for side in store.sides:
        offsets = np.asarray(side.offsets)
        # Every sentence is followed by `<sep>`.
        filled &= offsets[parts.stop] - offsets[parts.current] > sentences
    if left_out := int((~filled).sum()):
        logger.warning(
            "%d of %d windows have a current part with an empty side: kept as context, not "
            "trained on.",
            left_out,
            len(parts),
        )
    if not filled.any():
        raise DataError(
            "No sentence pair has text on both sides, so there is no window. "
            "Check that the files of the two sides belong together."
        )
    return parts.select(filled)


def _refuse_long_sentences(
    store: TokenStore, max_length: int, documents: Offsets, measure: Measure
) -> None:
    sentences = np.arange(len(store))
    lengths = _longest_side(measure, sentences, sentences + 1) + max_length - measure.max_length
    over = np.flatnonzero(lengths > max_length)
    over = over[_is_among(store.document_of[over], documents)]
    if len(over):
        worst = int(over[0])
        document = int(store.document_of[worst])
        number = worst - int(store.document_starts[document]) + 1
        raise DataError(
            f"{store.document_names[document]}: sentence {number} needs {lengths[worst]} tokens "
            f"but `windows.max_length` is {max_length} ({len(over)} such sentences). "
            "Split the sentence on both sides, raise the limit, or set `windows.on_long` to "
            "`leave_out` or `split`."
        )


def _is_among(found: Offsets, documents: Offsets) -> npt.NDArray[np.bool_]:
    """(sentences,): whether each document number of `found` is one of `documents`."""
    return np.isin(found, documents)


def _longest_side(measure: Measure, first: Offsets, stop: Offsets) -> Offsets:
    """(windows,): tokens of the longest side of sentences first to stop - 1."""
    lengths = [offsets[stop] - offsets[first] for offsets in measure.sides]
    return np.asarray(np.maximum.reduce(lengths))
