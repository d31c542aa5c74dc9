"""How far the predictions of two views lie apart.

The paper calls its agreement loss a Jensen-Shannon divergence, but its equation is half the sum
of the two KL divergences. The equation is the default; the true divergence is the option.
"""

import math

import torch
from torch import Tensor

from iada.precision import at_least_float32


def symmetric_kl(logits: Tensor, other_logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum ½[KL(P‖Q) + KL(Q‖P)] over positions (eq. 14).

    Args:
        logits: (..., vocabulary), P before the softmax.
        other_logits: the same shape, Q before the softmax.
        mask: (...) bool, positions to count; all of them by default.

    Returns:
        Scalar, float32 or better; gradients flow into both arguments.
    """
    log_p, log_q = _log_softmax(logits, mask), _log_softmax(other_logits, mask)
    # KL(P‖Q) + KL(Q‖P) = Σ (P − Q)(log P − log Q)
    return 0.5 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()


def jensen_shannon(logits: Tensor, other_logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum ½[KL(P‖M) + KL(Q‖M)], M = ½(P + Q), over positions; at most log 2 each.

    Arguments and result as in `symmetric_kl`.
    """
    log_p, log_q = _log_softmax(logits, mask), _log_softmax(other_logits, mask)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum()


def _log_softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        logits = logits[mask.bool()]
    return at_least_float32(logits).log_softmax(dim=-1)
