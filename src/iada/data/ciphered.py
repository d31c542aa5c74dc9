"""Training windows with a second, enciphered view of their source (CipherDAug).

The store holds the source once for each cipher, so that a view is index arithmetic like the window
itself. Which cipher a window gets is drawn anew in every epoch, as a function of the seed, the
epoch and the window alone. Context and current part share it, and both views have one target.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iada.config.data import WindowConfig
from iada.data.noise import ContextNoise
from iada.data.rows import CipheredRows, Gathered, Rows
from iada.data.store import Offsets, TokenStore
from iada.data.windows import Windows
from iada.seeding import derive_seed


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
        documents: Offsets | None = None,
        noise: ContextNoise | None = None,
    ) -> None:
        """Cut windows.

        Args:
            store: the sentences, with at least one enciphered source.
            config: how to cut; its noise is not used.
            seed: seed of the choice of ciphers.
            documents: see `Windows`.
            noise: see `Windows`.
        """
        if not store.ciphered:
            raise ValueError("the store has no enciphered source")
        super().__init__(store, config, documents=documents, noise=noise)
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
        ids, lengths, _ = _in_order(
            [
                self.gather(side, numbers[choices == choice])
                for choice, side in enumerate(self.store.ciphered)
            ],
            choices,
        )
        ids[np.cumsum(lengths) - 1] = self.store.special.eos
        return replace(super().__getitems__(keys), ciphered=CipheredRows(ids, lengths))


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
