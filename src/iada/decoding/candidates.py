"""The most probable next tokens of every beam, without sorting the vocabulary.

The largest values of a row lie in the blocks with the largest maxima, so only those blocks are
looked at. Probabilities are normalised over all tokens, forbidden ones included, as `generate` of
Transformers does it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

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
