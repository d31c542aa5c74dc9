"""Batches by token budget, the same on every process.

The plan of an epoch is a pure function of (lengths, budget, seed, epoch, processes): every window,
or every chosen one, once, no batch over the budget, as many batches for each process as for any
other. So nothing hangs, nothing is seen twice, and resuming is arithmetic on the plan.
"""

from collections.abc import Iterator
from itertools import pairwise, repeat

import numpy as np

from iada.data.prepared.store import Offsets
from iada.data.windows.batch import round_up
from iada.errors import ConfigError
from iada.seeding import derive_seed

# Windows of one length whose sides differ alike, to this many tokens, share a batch at random.
# Wider pads more: on Europarl 1 gives 0.6% padding, 4 gives 1.2%, 8 gives 1.8%.
_DIFFERENCE_STEP = 4


class TokenBatchSampler:
    """Yield, for one process, lists of (epoch, window) keys.

    It has no `batch_size` on purpose: batches are bounded by tokens, not by rows.
    """

    def __init__(
        self,
        lengths: Offsets,
        *,
        max_tokens: int,
        seed: int,
        rank: int = 0,
        processes: int = 1,
        chosen: Offsets | None = None,
        length_multiple: int = 1,
    ) -> None:
        """Plan batches of windows.

        Args:
            lengths: (windows, 2) source and target tokens.
            max_tokens: budget of a batch, padding included: rows times the longer side. A window
                that is longer by itself makes a batch of its own.
            seed: seed of the order.
            rank: which process this sampler serves.
            processes: number of processes that share the windows.
            chosen: (chosen,) numbers of the windows to plan; all by default.
            length_multiple: what lengths are padded to a multiple of.
        """
        self._chosen = np.arange(len(lengths)) if chosen is None else chosen
        lengths = round_up(lengths[self._chosen], length_multiple)
        if len(lengths) < processes:
            raise ConfigError(
                f"{len(lengths)} windows cannot be shared by {processes} processes. Use fewer."
            )
        self.max_tokens = max_tokens
        self.seed = seed
        self.rank = rank
        self.processes = processes
        self.epoch = 0
        self._order = _order(lengths)
        sizes = _batch_sizes(lengths.max(axis=1), max_tokens, processes)
        self._bounds = [0, *np.cumsum(sizes).tolist()]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose plan is iterated next."""
        self.epoch = epoch

    def plan(self, epoch: int) -> list[Offsets]:
        """Return the batches of all processes; batch k belongs to process k mod processes."""
        random = np.random.default_rng(derive_seed(self.seed, "batches", epoch))
        # A stable sort of a shuffled order: random among windows of like lengths.
        shuffled = random.permutation(len(self._order))
        sorted_windows = shuffled[np.argsort(self._order[shuffled], kind="stable")]
        numbers = self._chosen[sorted_windows]
        batches = [numbers[start:stop] for start, stop in pairwise(self._bounds)]
        return [batches[k] for k in random.permutation(len(batches)).tolist()]

    def __len__(self) -> int:
        return (len(self._bounds) - 1) // self.processes

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        epoch = self.epoch
        for batch in self.plan(epoch)[self.rank :: self.processes]:
            yield list(zip(repeat(epoch), batch.tolist(), strict=False))


def _order(lengths: Offsets) -> Offsets:
    """(windows,): what to sort windows by, so that neighbours need little padding on both sides.

    First the longer side, then the difference of the sides. Every other length runs through the
    differences backwards, so that a batch that spans two lengths meets like windows of both.
    """
    longest = lengths.max(axis=1)
    difference = (lengths[:, 0] - lengths[:, 1]) // _DIFFERENCE_STEP
    there_and_back = np.where(longest % 2, difference, -difference)
    # No difference is longer than the longest window.
    return np.asarray(longest * (2 * int(longest.max()) + 2) + there_and_back)


def _batch_sizes(longest: Offsets, max_tokens: int, processes: int) -> list[int]:
    """Cut windows, sorted by length, into batches whose number is a multiple of `processes`.

    Sizes depend on the lengths alone, (windows,), so that every epoch has the same number of
    batches.
    """
    sizes: list[int] = []
    rows = 0
    lengths, counts = np.unique(longest, return_counts=True)
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        if rows and (rows + 1) * length > max_tokens:
            sizes.append(rows)
            rows = 0
        # All windows of one length at once: fill up the open batch, then whole ones.
        capacity = max(1, max_tokens // length)
        full, rows = divmod(rows + count - 1, capacity)
        sizes += [capacity] * full
        rows += 1
    sizes.append(rows)
    while len(sizes) % processes:
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        half = sizes[largest] // 2
        if not half:
            raise ConfigError(
                f"{len(sizes)} windows that fill a batch each cannot be shared evenly by "
                f"{processes} processes. Raise `train.max_tokens` or use fewer processes."
            )
        sizes[largest : largest + 1] = [sizes[largest] - half, half]
    return sizes
