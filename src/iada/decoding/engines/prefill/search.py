"""Beam search of one sentence, and the most probable next tokens of every beam.

The rules are those of `generate` of Transformers, so that engines can be exchanged: twice as many
candidates as beams are considered, an end counts if it is among the best half, the score of a
hypothesis is its log-probability divided by a power of its length (end token counted), and the
search stops when every beam has ended and no open hypothesis scores better than the worst of them.
A single beam is greedy search and stops at its first end.

The best tokens are found without sorting the vocabulary: the largest values of a row lie in the
blocks with the largest maxima, so only those blocks are examined. Probabilities are normalised over
all tokens, forbidden ones included, as `generate` does it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iada.decoding.engines.interface import Hypothesis
from iada.decoding.engines.prefill.cpu import powers_of_two, row_blocks

_BLOCK = 128


@dataclass(frozen=True)
class Rules:
    """What the rows of a step may generate."""

    forbidden: Tensor
    """(tokens,) ids that no row may generate, except as its end or separator."""
    end: Tensor
    """(rows,) id of the token that ends each row."""
    separator: int
    """Id of `<sep>`."""
    may_separate: Tensor
    """(rows,) bool: whether `<sep>` is allowed."""
    may_end: Tensor
    """(rows,) bool: whether the end token is allowed."""
    must_end: Tensor
    """(rows,) bool: whether nothing else is allowed."""

    def rows(self, part: slice) -> "Rules":
        """Return the rules of some of the rows."""
        return Rules(
            self.forbidden,
            self.end[part],
            self.separator,
            self.may_separate[part],
            self.may_end[part],
            self.must_end[part],
        )


def top_tokens(logits: Tensor, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and ids of the most probable allowed tokens of each row.

    Args:
        logits: (rows, vocabulary), overwritten.
        rules: what the rows may generate.
        count: number of tokens to return; all of them if there are fewer.

    Returns:
        (rows, count) log-probabilities, best first, minus infinity where no token is left, and
        (rows, count) ids.
    """
    total = torch.cat([_log_sum(logits[part]) for part in row_blocks(logits)])
    end_column = rules.end[:, None]
    end = logits.gather(1, end_column).masked_fill_(~rules.may_end[:, None], -torch.inf)
    separator = logits[:, rules.separator].masked_fill(~rules.may_separate, -torch.inf)
    logits.index_fill_(1, rules.forbidden, -torch.inf)
    logits[:, rules.separator] = separator
    if bool(rules.must_end.any()):
        logits.masked_fill_(rules.must_end[:, None], -torch.inf)
    logits.scatter_(1, end_column, end)
    values, ids = _top(logits, min(count, logits.shape[1]))
    return values - total, ids


def _log_sum(logits: Tensor) -> Tensor:
    """Return `logsumexp` of each row, (rows, 1), by powers of two, which CPUs find faster."""
    largest = logits.amax(dim=1, keepdim=True)
    powers = powers_of_two((logits - largest).mul_(math.log2(math.e)))
    return powers.sum(dim=1, keepdim=True).log_().add_(largest)


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` largest values of each row and their columns; (rows, columns) in."""
    rows, columns = values.shape
    blocks = columns // _BLOCK
    if blocks <= count:
        found = values.topk(count, dim=1)
        return found.values, found.indices
    whole = values[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK)
    chosen = whole.amax(dim=2).topk(count, dim=1).indices
    inside = whole.gather(1, chosen[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    columns_inside = chosen[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=values.device)
    rest = torch.arange(blocks * _BLOCK, columns, device=values.device).expand(rows, -1)
    found = torch.cat([inside, values[:, blocks * _BLOCK :]], dim=1).topk(count, dim=1)
    ids = torch.cat([columns_inside.flatten(1), rest], dim=1).gather(1, found.indices)
    return found.values, ids


@dataclass(frozen=True)
class Candidate:
    """One token that one beam may generate next."""

    log_probability: float
    """Of the whole hypothesis, this token included."""
    beam: int
    token: int


@dataclass
class BeamSearch:
    """Hypotheses of one sentence."""

    beams: int
    length_penalty: float
    end: int
    """Id of the token that ends a hypothesis."""
    max_new: int
    """Most tokens of a hypothesis, end token not counted."""
    open: list[tuple[float, tuple[int, ...]]] = field(default_factory=lambda: [(0.0, ())])
    """Log-probability and tokens of the unfinished hypotheses, best first; one at the start."""
    ended: list[Hypothesis] = field(default_factory=list)
    """The best that have ended, best first."""
    is_done: bool = False

    @property
    def is_full(self) -> bool:
        """Whether open hypotheses have reached their limit and may only end."""
        return len(self.open[0][1]) >= self.max_new

    def advance(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Take the best candidates of all beams, best first; return those that stay open.

        The result is as long as there are beams, filled up with candidates of probability 0; it is
        empty when the search is done.
        """
        length = len(self.open[0][1]) + 1
        was_full = self.is_full
        possible = [c for c in candidates if c.log_probability > -math.inf]
        if self.beams == 1:
            possible = possible[:1]
        continued: list[Candidate] = []
        for rank, candidate in enumerate(possible):
            if candidate.token != self.end:
                continued.append(candidate)
            elif rank < self.beams:
                tokens = self.open[candidate.beam][1]
                score = candidate.log_probability / length**self.length_penalty
                self.ended.append(Hypothesis(tokens, score))
        continued = continued[: self.beams]
        self.ended = sorted(self.ended, key=lambda h: -h.score)[: self.beams]
        self.is_done = was_full or not continued or self._is_settled(continued[0], length)
        if self.is_done:
            self.open = [(-math.inf, ())] * self.beams
            return []
        self.open = [(c.log_probability, (*self.open[c.beam][1], c.token)) for c in continued]
        missing = self.beams - len(continued)
        self.open += [(-math.inf, self.open[0][1])] * missing
        return continued + [continued[0]] * missing

    def _is_settled(self, best: Candidate, length: int) -> bool:
        """Tell whether no open hypothesis scores better than the worst that has ended."""
        if len(self.ended) < self.beams:
            return False
        score: float = best.log_probability / length**self.length_penalty
        return score <= self.ended[-1].score
