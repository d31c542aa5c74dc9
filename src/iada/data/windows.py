"""Windows: the current sentence and up to `context` sentences before it, on both sides.

    source         c1 <sep> c2 <sep> c3 <sep> x </s>
    decoder input  <s> c1 <sep> c2 <sep> c3 <sep> y
    labels         c1 <sep> c2 <sep> c3 <sep> y </s>      ignored up to the last <sep>

Every sentence is the current sentence of exactly one window. A window never crosses a document;
when it is too long, the oldest context sentence goes first, on both sides together.
"""

import logging
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iada.config.data import WindowConfig
from iada.data.roles import Role
from iada.data.store import Ids, Offsets, Side, TokenStore
from iada.errors import DataError

IGNORED = -100
"""Label of positions outside the loss, as PyTorch and Transformers expect it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Window:
    """One training instance."""

    source_ids: Ids
    source_roles: npt.NDArray[np.int8]
    target_ids: Ids
    """Decoder input."""
    target_roles: npt.NDArray[np.int8]
    labels: npt.NDArray[np.int64]
    """What the decoder must predict at each position; IGNORED outside the loss."""
    sentence: int
    """Number of the current sentence in the store."""
    epoch: int = 0
    """Epoch in which the window was drawn: with `sentence` it identifies the draw."""


class Windows:
    """All windows of a token store, as an indexable data set."""

    def __init__(self, store: TokenStore, config: WindowConfig) -> None:
        self.store = store
        self.config = config
        self.first = _first_sentences(store, config)
        """(sentences,): oldest context sentence of each window."""
        lengths = (store.source.lengths(), store.target.lengths())
        filled = (lengths[0] > 0) & (lengths[1] > 0)
        self.sentences: Offsets = np.flatnonzero(filled)
        """Current sentences of the windows; a pair with an empty side teaches nothing."""
        if left_out := len(store) - len(self.sentences):
            logger.warning(
                "%d of %d sentence pairs have an empty side: kept as context, not trained on.",
                left_out,
                len(store),
            )
        if not len(self.sentences):
            raise DataError("No sentence pair has text on both sides, so there is no window.")

    def __len__(self) -> int:
        return len(self.sentences)

    def lengths(self) -> Offsets:
        """(windows, 2): tokens of each window on the source and target side."""
        last, first = self.sentences, self.first[self.sentences]
        sides = (self.store.source, self.store.target)
        return np.stack([side.offsets[last + 1] - side.offsets[first] for side in sides], axis=1)

    def loss_tokens(self) -> int:
        """Number of labels in the loss of all windows together."""
        if self.config.loss_on == "all":
            return int(self.lengths()[:, 1].sum())
        return int((self.store.target.lengths()[self.sentences] + 1).sum())

    def __getitem__(self, key: tuple[int, int]) -> Window:
        """Return window number `key[1]` as drawn in epoch `key[0]`."""
        epoch, index = key
        sentence = int(self.sentences[index])
        first = int(self.first[sentence])
        special = self.store.special
        source, source_current = _slice(self.store.source, first, sentence)
        target, target_current = _slice(self.store.target, first, sentence)
        labels = target.astype(np.int64)
        source[-1] = labels[-1] = special.eos
        if self.config.loss_on == "current":
            labels[:target_current] = IGNORED
        decoder_input = np.concatenate(([special.bos], target[:-1])).astype(np.int32)
        return Window(
            source_ids=source,
            source_roles=_roles(source, source_current, special.all),
            target_ids=decoder_input,
            target_roles=_roles(decoder_input, target_current + 1, special.all),
            labels=labels,
            sentence=sentence,
            epoch=epoch,
        )


def _slice(side: Side, first: int, sentence: int) -> tuple[Ids, int]:
    """Return a copy of the window's tokens and where the current sentence begins in it."""
    start, current, stop = (int(side.offsets[i]) for i in (first, sentence, sentence + 1))
    return side.ids[start:stop].copy(), current - start


def _roles(ids: Ids, current: int, special: tuple[int, ...]) -> npt.NDArray[np.int8]:
    roles = np.full(len(ids), Role.CONTEXT, dtype=np.int8)
    roles[current:] = Role.CURRENT
    roles[np.isin(ids, special)] = Role.SPECIAL
    return roles


def _first_sentences(store: TokenStore, config: WindowConfig) -> Offsets:
    """Choose each window's oldest context sentence so that both sides fit."""
    sentences = np.arange(len(store))
    starts = store.document_starts[store.document_of]
    wanted = np.maximum(starts, sentences - config.context)
    first = wanted.copy()
    for _ in range(config.context):
        too_long = _longer_side(store, first, sentences) > config.max_length
        first = np.where(too_long & (first < sentences), first + 1, first)
    lengths = _longer_side(store, sentences, sentences)
    over = np.flatnonzero(lengths > config.max_length)
    if len(over):
        worst = int(over[0])
        document = int(store.document_of[worst])
        number = worst - int(store.document_starts[document]) + 1
        raise DataError(
            f"{store.document_names[document]}: sentence {number} needs {lengths[worst]} tokens "
            f"but `windows.max_length` is {config.max_length} ({len(over)} such sentences). "
            "Split the sentence on both sides, or raise the limit."
        )
    if shortened := int((first > wanted).sum()):
        logger.warning(
            "%d of %d windows lost their oldest context to fit `windows.max_length` (%d tokens).",
            shortened,
            len(store),
            config.max_length,
        )
    return first


def _longer_side(store: TokenStore, first: Offsets, last: Offsets) -> Offsets:
    sides = (store.source, store.target)
    lengths = [side.offsets[last + 1] - side.offsets[first] for side in sides]
    return np.asarray(np.maximum(*lengths), dtype=np.int64)
