"""The conditions of the paper's data experiments: fewer documents, and noisy context.

Subsets are nested and consist of whole documents, which join in the order of one seeded permutation
until the wanted share of the sentences is reached. So 20% is part of 30%, and so on, and two
systems with the same seed learn from the same documents.

Noisy context replaces context sentence pairs of training windows by pairs of other documents. Which
positions are replaced, and by which pairs, is a function of the seed and the window's first current
sentence alone, whatever the order of batches and the number of processes. Both sides get the same
foreign pair, and the current part is never touched.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.prepared.store import Offsets, TokenStore
from iada.data.windows.frame import Frame
from iada.data.windows.spans import Measure, Spans, report_lost_context, wanted_first
from iada.errors import DataError
from iada.seeding import derive_seed

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the low-resource experiments."""


class SubsetDescription(TypedDict):
    """What a manifest says of one subset."""

    share: float
    """Wanted share of the sentences."""
    documents: int
    """Number of documents."""
    sentences: int
    """Number of their sentences."""
    sha256: str
    """Hash of the document numbers."""


def subset_documents(document_sizes: Offsets, share: float, seed: int) -> Offsets:
    """Return the ascending numbers of the documents of a subset.

    Args:
        document_sizes: (documents,) sentences of each document.
        share: wanted share of the sentences, in (0, 1]; the fewest documents that reach it.
        seed: seed of the order in which documents join.
    """
    if share >= 1:
        return np.arange(len(document_sizes))
    order = np.random.default_rng(derive_seed(seed, "subset")).permutation(len(document_sizes))
    reached = np.cumsum(document_sizes[order])
    # Of the decimal number as written: 0.55 * 100 is more than 55 in floating point.
    wanted = math.ceil(Fraction(str(share)) * int(document_sizes.sum()))
    count = int(np.searchsorted(reached, wanted)) + 1
    return np.sort(order[:count])


def describe_subsets(document_sizes: Offsets, seed: int) -> list[SubsetDescription]:
    """Describe the subsets of all `SHARES`; `document_sizes` is (documents,)."""
    chosen = [(share, subset_documents(document_sizes, share, seed)) for share in SHARES]
    return [
        SubsetDescription(
            share=share,
            documents=len(documents),
            sentences=int(document_sizes[documents].sum()),
            sha256=sha256_of_numbers(documents),
        )
        for share, documents in chosen
    ]


def sha256_of_numbers(numbers: npt.NDArray[np.integer]) -> str:
    """Return the hash of integers as 64-bit little-endian values, the same on every machine."""
    return hashlib.sha256(np.ascontiguousarray(numbers, dtype="<i8").tobytes()).hexdigest()


ABSENT = -1
"""Where a window has no context sentence."""


@dataclass(frozen=True)
class ContextNoise:
    """How noisy the context is."""

    replaced: int
    """Number of context pairs to replace in a window, as far as `replaced_count` allows."""
    seed: int


class NoiseDescription(TypedDict):
    """What a manifest says of the noise, every sentence being the current one of a window."""

    context: int
    """Number of context sentences."""
    replaced: int
    """Number of them to replace."""
    seed: int
    pairs: int
    """Number of replaced pairs in all windows together."""
    sha256: str
    """Hash of the context sentence numbers of all windows."""


def context_noise(config: WindowConfig) -> ContextNoise | None:
    """Return the configured noise, or nothing."""
    if config.noisy_context == 0:
        return None
    return ContextNoise(config.noisy_context, config.noise_seed)


def replaced_count(context: Offsets, replaced: int) -> Offsets:
    """Return how many context pairs of a window are replaced.

    One true pair stays where there are two or more; a single pair is replaced. So of 3, 2, 1 and 0
    context pairs, `replaced=2` takes 2, 1, 1 and 0.

    Args:
        context: (windows,) number of context pairs of each window.
        replaced: number of pairs to replace.
    """
    return np.where(context > 0, np.minimum(replaced, np.maximum(1, context - 1)), 0)


def noisy_context(
    store: TokenStore, parts: Spans, noise: ContextNoise, *, context: int, documents: Offsets
) -> Offsets:
    """Choose the sentences that stand before each part, as if length were no matter.

    Args:
        store: the sentences.
        parts: the windows.
        noise: how much to replace.
        context: number of context sentences.
        documents: (documents,) ascending numbers of the documents that foreign pairs may come from.

    Returns:
        (windows, context) sentence numbers, the last column directly before the part; ABSENT where
        the document has no sentence.

    Raises:
        DataError: fewer than two documents have a pair with text on both sides.
    """
    own = parts.current[:, None] - np.arange(context, 0, -1)
    present = own >= wanted_first(store, parts, context)[:, None]
    # Row by row from one stream: a row does not depend on which other windows there are.
    random = np.random.default_rng(derive_seed(noise.seed, "noisy context"))
    drawn = random.random((len(store), 2, context))[parts.current]
    # The positions of the smallest numbers; absent ones come last.
    order = np.argsort(np.where(present, drawn[:, 0], 2.0), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    foreign = rank < replaced_count(present.sum(axis=1), noise.replaced)[:, None]
    others = _foreign_pairs(store, documents, store.document_of[parts.current], drawn[:, 1])
    return np.where(present, np.where(foreign, others, own), ABSENT)


def with_noisy_context(
    store: TokenStore,
    parts: Spans,
    config: WindowConfig,
    noise: ContextNoise,
    *,
    documents: Offsets,
    measure: Measure,
    frame: Frame,
) -> tuple[Spans, Offsets]:
    """Put noisy context before each part, as many sentences as fit on the sides that have context.

    Returns:
        The windows, and the sentences that stand before each part as in `noisy_context`; what did
        not fit is ABSENT.
    """
    context = frame.context(config)
    table = noisy_context(store, parts, noise, context=context, documents=documents)
    kept = table != ABSENT
    for offsets in measure.sides if frame.target_context else measure.source:
        lengths = np.where(table == ABSENT, 0, np.diff(offsets)[table])
        # What a window would need from each context sentence on.
        needed = np.cumsum(lengths[:, ::-1], axis=1)[:, ::-1]
        needed += (offsets[parts.stop] - offsets[parts.current])[:, None]
        kept &= needed <= measure.max_length
    lost = kept.sum(axis=1) < (table != ABSENT).sum(axis=1)
    report_lost_context(lost, config.max_length)
    first = parts.current - kept.sum(axis=1)
    return replace(parts, first=first), np.where(kept, table, ABSENT)


def describe_noise(
    store: TokenStore, noise: ContextNoise, *, context: int, documents: Offsets | None = None
) -> NoiseDescription:
    """Describe the noise of a corpus for its manifest.

    Args:
        store: the sentences.
        noise: how much to replace.
        context: number of context sentences.
        documents: (documents,) ascending numbers of the documents in use; all of them by default.
    """
    if documents is None:
        documents = np.arange(len(store.document_names))
    sentences = np.flatnonzero(np.isin(store.document_of, documents))
    parts = Spans(sentences, sentences, sentences + 1)
    table = noisy_context(store, parts, noise, context=context, documents=documents)
    own = sentences[:, None] - np.arange(context, 0, -1)
    return NoiseDescription(
        context=context,
        replaced=noise.replaced,
        seed=noise.seed,
        pairs=int(((table != ABSENT) & (table != own)).sum()),
        sha256=sha256_of_numbers(table),
    )


def _foreign_pairs(
    store: TokenStore,
    documents: Offsets,
    own_document: Offsets,
    drawn: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> Offsets:
    """Turn numbers in [0, 1), (windows, context), into pairs of other documents with text."""
    filled = (store.source.lengths() > 0) & (store.target.lengths() > 0)
    pool = np.flatnonzero(filled & np.isin(store.document_of, documents))
    sizes = np.bincount(store.document_of[pool], minlength=len(store.document_starts) - 1)
    if (sizes > 0).sum() < 2:
        raise DataError(
            f"Noisy context needs pairs of other documents, but {(sizes > 0).sum()} of "
            f"{len(documents)} documents have a sentence pair with text on both sides. "
            "Set `windows.noisy_context` to 0, or check `data.boundaries`."
        )
    # The pairs of a document are neighbours in the pool: draw from the rest and step over them.
    begin = (np.cumsum(sizes) - sizes)[own_document][:, None]
    own = sizes[own_document][:, None]
    number = (drawn * (len(pool) - own)).astype(np.int64)
    return np.asarray(pool[np.where(number >= begin, number + own, number)])
