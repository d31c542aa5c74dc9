"""The terms of the objective, from whole matrices of logits: the readable reference.

NLL with label smoothing, and the divergence between the predictions of two views. The paper calls
its agreement loss a Jensen-Shannon divergence, but its equation is half the sum of the two KL
divergences. The equation is the default; the true divergence is an option.

Views are numbered: with two, the first is the original and the second the perturbed one.
`iada.method.fused` computes the same sums without the matrices.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from iada.method.selection import at_least_float32


def nll_sum(logits: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Sum the (label-smoothed) NLL of the labels (eq. 13).

    Smoothing spreads its mass evenly over the whole vocabulary, the label included.

    Args:
        logits: (positions, vocabulary).
        labels: (positions,), all of them in the loss.
        smoothing: mass taken from the label, in [0, 1).

    Returns:
        Scalar, float32 or better.
    """
    return cross_entropy(
        at_least_float32(logits), labels, reduction="sum", label_smoothing=smoothing
    )


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


def kl_divergence(logits: Tensor, other_logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Sum KL(P‖Q) over positions: how far Q lies from P.

    Arguments and result as in `symmetric_kl`.
    """
    log_p, log_q = _log_softmax(logits, mask), _log_softmax(other_logits, mask)
    return (log_p.exp() * (log_p - log_q)).sum()


def _log_softmax(logits: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        logits = logits[mask.bool()]
    return at_least_float32(logits).log_softmax(dim=-1)


Divergence = Literal["symmetric_kl", "js", "kl"]


@dataclass(frozen=True)
class AgreementTerm:
    """How two views are compared."""

    weight: float
    """Weight of the divergence, above 0."""
    divergence: Divergence = "symmetric_kl"
    """½[KL(P‖Q) + KL(Q‖P)], the Jensen-Shannon divergence, or KL(P‖Q)."""
    stop_first: bool = False
    """Let no gradient of the divergence flow into the first view."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is added up."""

    nll_weights: tuple[float, ...]
    """Weight of the NLL of each view; 0 leaves the term out."""
    smoothing: float = 0.0
    """Label smoothing of every NLL: mass that is spread evenly over the whole vocabulary."""
    agreement: AgreementTerm | None = None
    """How the two views are compared; None leaves the term out."""

    def learns_from(self, view: int) -> bool:
        """Whether a gradient flows into a view."""
        stopped = self.agreement is None or (view == 0 and self.agreement.stop_first)
        return self.nll_weights[view] > 0 or not stopped


@dataclass(frozen=True)
class Sums:
    """Terms, summed over tokens."""

    total: Tensor
    """Weighted sum of all terms, with its graph."""
    nlls: tuple[Tensor | None, ...]
    """NLL of each view, detached and unweighted; None where its weight is 0."""
    agreement: Tensor | None = None
    """Divergence of the two views, detached and unweighted; None if it is no term."""

    def plus(self, other: "Sums", *, weight: float) -> "Sums":
        """Add the sums of further tokens, whose total alone is weighted."""
        return Sums(
            self.total + weight * other.total,
            tuple(_added(a, b) for a, b in zip(self.nlls, other.nlls, strict=True)),
            _added(self.agreement, other.agreement),
        )


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return None if one is None or other is None else one + other


def plain_losses(logits: Sequence[Tensor], labels: Tensor, terms: Terms) -> Sums:
    """Compute all terms.

    Args:
        logits: (tokens, vocabulary) for each view.
        labels: (tokens,), all of them in the loss.
        terms: weights, smoothing and agreement.
    """
    total = at_least_float32(logits[0][:0]).sum()
    nlls: list[Tensor | None] = []
    for view, weight in zip(logits, terms.nll_weights, strict=True):
        nll = nll_sum(view, labels, smoothing=terms.smoothing) if weight > 0 else None
        if nll is not None:
            total = total + weight * nll
        nlls.append(None if nll is None else nll.detach())
    if terms.agreement is None:
        return Sums(total, tuple(nlls))
    first, second = logits
    if terms.agreement.stop_first:
        first = first.detach()
    compare = {"symmetric_kl": symmetric_kl, "js": jensen_shannon, "kl": kl_divergence}
    divergence = compare[terms.agreement.divergence](first, second)
    total = total + terms.agreement.weight * divergence
    return Sums(total, tuple(nlls), divergence.detach())
