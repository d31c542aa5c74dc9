"""The most probable next tokens of every beam, without sorting the vocabulary.

The largest values of a row lie in the blocks with the largest maxima, so only those blocks are
looked at. Probabilities are normalised over all tokens, forbidden ones included, as `generate` of
Transformers does it.

Beam search of one sentence: which hypotheses go on, which have ended, when to stop.

The rules are those of `generate` of Transformers, so that engines can be exchanged: twice as many
candidates as beams are looked at, an end counts if it is among the best half, the score of a
hypothesis is its log-probability divided by a power of its length (`</s>` counted), and the search
stops when every beam has ended and no open hypothesis scores better than the worst of them. A
single beam is greedy search and stops at its first end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iada.decoding.engines.interface import Hypothesis

_BLOCK = 128


@dataclass(frozen=True)
class Rules:
    """What the rows of a step may say."""

    forbidden: Tensor
    """(tokens,) ids that no row may say."""
    end: int
    """Id of `</s>`."""
    separator: int
    """Id of `<sep>`."""
    may_separate: Tensor
    """(rows,) bool: whether `<sep>` is allowed."""
    may_end: Tensor
    """(rows,) bool: whether `</s>` is allowed."""
    must_end: Tensor
    """(rows,) bool: whether nothing else is allowed."""

    def rows(self, part: slice) -> "Rules":
        """Return the rules of some of the rows."""
        return Rules(
            self.forbidden,
            self.end,
            self.separator,
            self.may_separate[part],
            self.may_end[part],
            self.must_end[part],
        )


def top_tokens(logits: Tensor, rules: Rules, count: int) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and ids of the most probable allowed tokens of each row.

    Args:
        logits: (rows, vocabulary), overwritten.
        rules: what the rows may say.
        count: number of tokens to return; all of them if there are fewer.

    Returns:
        (rows, count) log-probabilities, best first, minus infinity where no token is left, and
        (rows, count) ids.
    """
    total = logits.logsumexp(dim=1, keepdim=True)
    logits.index_fill_(1, rules.forbidden, -torch.inf)
    logits[:, rules.separator].masked_fill_(~rules.may_separate, -torch.inf)
    end = logits[:, rules.end].masked_fill(~rules.may_end, -torch.inf)
    if bool(rules.must_end.any()):
        logits.masked_fill_(rules.must_end[:, None], -torch.inf)
    logits[:, rules.end] = end
    values, ids = _top(logits, min(count, logits.shape[1]))
    return values - total, ids


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
    """One token that one beam may say next."""

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
    """Id of `</s>`."""
    max_new: int
    """Most tokens of a hypothesis, `</s>` not counted."""
    open: list[tuple[float, tuple[int, ...]]] = field(default_factory=lambda: [(0.0, ())])
    """Log-probability and tokens of the hypotheses that go on, best first; one at first."""
    ended: list[Hypothesis] = field(default_factory=list)
    """The best that have ended, best first."""
    is_done: bool = False

    @property
    def is_over(self) -> bool:
        """Whether open hypotheses may only end."""
        return len(self.open[0][1]) >= self.max_new

    def advance(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Take the best candidates of all beams, best first; return those that go on.

        The result is as long as there are beams, filled up with hopeless ones; it is empty when
        the search is done.
        """
        length = len(self.open[0][1]) + 1
        was_over = self.is_over
        possible = [c for c in candidates if c.log_probability > -math.inf]
        if self.beams == 1:
            possible = possible[:1]
        going_on: list[Candidate] = []
        for rank, candidate in enumerate(possible):
            if candidate.token != self.end:
                going_on.append(candidate)
            elif rank < self.beams:
                tokens = self.open[candidate.beam][1]
                score = candidate.log_probability / length**self.length_penalty
                self.ended.append(Hypothesis(tokens, score))
        going_on = going_on[: self.beams]
        self.ended = sorted(self.ended, key=lambda h: -h.score)[: self.beams]
        self.is_done = was_over or not going_on or self._nothing_better(going_on[0], length)
        if self.is_done:
            self.open = [(-math.inf, ())] * self.beams
            return []
        self.open = [(c.log_probability, (*self.open[c.beam][1], c.token)) for c in going_on]
        missing = self.beams - len(going_on)
        self.open += [(-math.inf, self.open[0][1])] * missing
        return going_on + [going_on[0]] * missing

    def _nothing_better(self, best: Candidate, length: int) -> bool:
        if len(self.ended) < self.beams:
            return False
        score: float = best.log_probability / length**self.length_penalty
        return score <= self.ended[-1].score
