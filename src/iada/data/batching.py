"""Batches by token budget, the same on every process.

The plan of an epoch is a pure function of (lengths, budget, seed, epoch, processes): every window
once, no batch over the budget, as many batches for each process as for any other. So nothing
hangs, nothing is seen twice, and resuming is arithmetic on the plan.
"""

from collections.abc import Iterator

import numpy as np

from iada.data.store import Offsets
from iada.errors import ConfigError
from iada.seeding import derive_seed


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
    ) -> None:
        """Plan batches of windows.

        Args:
            lengths: (windows, 2) source and target tokens.
            max_tokens: budget of a batch, padding included: rows times the longer side.
            seed: seed of the order.
            rank: which process this sampler serves.
            processes: number of processes that share the windows.
        """
        self.longest: Offsets = lengths.max(axis=1)
        if len(lengths) < processes:
            raise ConfigError(
                f"{len(lengths)} windows cannot be shared by {processes} processes. Use fewer."
            )
        self.max_tokens = max_tokens
        self.seed = seed
        self.rank = rank
        self.processes = processes
        self.epoch = 0
        self._sizes = _batch_sizes(np.sort(self.longest), max_tokens, processes)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose plan is iterated next."""
        self.epoch = epoch

    def plan(self, epoch: int) -> list[Offsets]:
        """Return the batches of all processes; batch k belongs to process k mod processes."""
        random = np.random.default_rng(derive_seed(self.seed, "batches", epoch))
        # A stable sort of a shuffled order: random among windows of equal length.
        shuffled = random.permutation(len(self.longest))
        by_length = shuffled[np.argsort(self.longest[shuffled], kind="stable")]
        batches = np.split(by_length, np.cumsum(self._sizes)[:-1])
        return [batches[k] for k in random.permutation(len(batches))]

    def __len__(self) -> int:
        return len(self._sizes) // self.processes

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for batch in self.plan(self.epoch)[self.rank :: self.processes]:
            yield [(self.epoch, int(window)) for window in batch]


def _batch_sizes(sorted_lengths: Offsets, max_tokens: int, processes: int) -> list[int]:
    """Cut windows, sorted by length, into batches whose number is a multiple of `processes`.

    Sizes depend on the sorted lengths alone, so that every epoch has the same number of batches.
    """
    sizes: list[int] = []
    rows = 0
    for length in sorted_lengths.tolist():
        if rows and (rows + 1) * length > max_tokens:
            sizes.append(rows)
            rows = 0
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
