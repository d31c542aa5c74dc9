"""What an engine is asked to do for one sentence, and the interface of engines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """Translate one sentence in its window."""

    source: tuple[int, ...]
    """Source window, `</s>` included."""
    prefix: tuple[int, ...]
    """What the decoder has already said: `<s> c1 <sep> c2 <sep> c3 <sep>`."""
    max_new: int
    """Most tokens of the translation, `</s>` not counted."""
    min_new: int = 0
    """Fewest tokens of the translation."""
    may_separate: bool = False
    """Whether `<sep>` may be said, because the window holds several sentences to translate."""

    @property
    def size(self) -> int:
        """Tokens of the longer side, for batching."""
        return max(len(self.source), len(self.prefix) + self.max_new)


@dataclass(frozen=True)
class Hypothesis:
    """A translation that a search has found."""

    tokens: tuple[int, ...]
    """Without prefix and `</s>`; `<sep>` only where it was allowed."""
    score: float
    """Log-probability divided by the length, `</s>` counted, to the power of the penalty."""


class Engine(Protocol):
    """Searches for the best translations of each request."""

    @property
    def name(self) -> str:
        """What tables call the engine."""
        ...

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each request, best first, at least one."""
        ...


def batches(requests: Sequence[Request], max_tokens: int) -> list[list[int]]:
    """Group request numbers, alike in length, into batches of at most `max_tokens` with padding.

    A request that is larger than the budget gets a batch of its own.
    """
    order = sorted(range(len(requests)), key=lambda i: (requests[i].size, i), reverse=True)
    grouped: list[list[int]] = []
    for number in order:
        if grouped:
            batch = grouped[-1]
            # The first of a batch is its largest.
            if (len(batch) + 1) * requests[batch[0]].size <= max_tokens:
                batch.append(number)
                continue
        grouped.append([number])
    return grouped
