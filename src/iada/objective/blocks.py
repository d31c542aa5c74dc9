"""Losses and their gradients at the logits, for one block of rows.

Gradients are written over the logits they belong to, so a block needs little memory beside them.
Two views of the same rows are P and Q. Each gradient is that of the weighted sum of the terms.

Label smoothing takes `smoothing / vocabulary` from the gradient of every entry. That share is the
same in all rows, so it is left to the caller, who applies it once to the finished products.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from iada.objective.terms import Agreement


@dataclass(frozen=True)
class Softmax:
    """The distribution of each row of a block."""

    probabilities: Tensor
    """(rows, vocabulary)."""
    log_normalizer: Tensor
    """(rows, 1): the logarithm of the sum of the exponentials."""

    @classmethod
    def of(cls, logits: Tensor) -> "Softmax":
        """Normalise (rows, vocabulary) logits, which stay as they are."""
        probabilities = torch.softmax(logits, dim=-1)
        # The largest probability is at least 1/vocabulary, so its logarithm is accurate. Two
        # cheap passes replace a second exponential.
        largest = probabilities.amax(dim=-1, keepdim=True).log()
        return cls(probabilities, logits.amax(dim=-1, keepdim=True) - largest)


def write_nll_gradient(logits: Tensor, softmax: Softmax, weight: float) -> None:
    """Overwrite (rows, vocabulary) logits with `weight` times their probabilities.

    This is the gradient of the NLL but for the labels: see `subtract_labels`.
    """
    torch.mul(softmax.probabilities, weight, out=logits)


def subtract_labels(gradient: Tensor, labels: Tensor, mass: float) -> None:
    """Take `mass` from the entry of each row's label.

    Args:
        gradient: (rows, vocabulary).
        labels: (rows, 1).
        mass: weight of the NLL times what smoothing leaves to the label.
    """
    gradient.scatter_add_(1, labels, gradient.new_full(labels.shape, -mass))


def compare(
    logits: tuple[Tensor, Tensor],
    views: tuple[Softmax, Softmax],
    agreement: Agreement,
    *,
    nll_weights: tuple[float, float],
    write_gradients: bool,
) -> Tensor:
    """Sum the divergence of two views over rows, unweighted; destroy or overwrite their logits.

    Args:
        logits: (rows, vocabulary) of each view.
        views: the distributions of `logits`.
        agreement: the divergence and its weight.
        nll_weights: the weight of each view's own NLL, which is part of the gradient.
        write_gradients: leave the gradients of `write_nll_gradient` plus those of the weighted
            divergence in `logits`. Otherwise the content of `logits` is undefined.
    """
    first, second = logits
    p, q = views
    half = 0.5 * agreement.weight
    if agreement.divergence == "js":
        ratio, other_ratio = _log_ratios_to_mixture(logits, views)
        sign, shared = 1.0, 0.0
    else:
        ratio = first.sub_(second).sub_(p.log_normalizer - q.log_normalizer)
        # log Q − log P is the negative of log P − log Q: no second matrix.
        other_ratio, sign, shared = ratio, -1.0, half
    divergence, other_divergence = _expectation(p, ratio), sign * _expectation(q, other_ratio)
    if write_gradients:
        # At P's logits: ½[P (log P − log Q − KL(P‖Q)) + P − Q] for the symmetric KL, and
        # ½ P (log P − log M − KL(P‖M)) for Jensen-Shannon; at Q's with names exchanged.
        scale = nll_weights[1] + shared - half * other_divergence
        torch.add(scale, other_ratio, alpha=sign * half, out=second).mul_(q.probabilities)
        if agreement.stop_first:
            write_nll_gradient(first, p, nll_weights[0])
        else:
            scale = nll_weights[0] + shared - half * divergence
            torch.add(scale, ratio, alpha=half, out=first).mul_(p.probabilities)
        if shared:
            second.sub_(p.probabilities, alpha=shared)
            if not agreement.stop_first:
                first.sub_(q.probabilities, alpha=shared)
    return 0.5 * (divergence + other_divergence).sum()


def _log_ratios_to_mixture(
    logits: tuple[Tensor, Tensor], views: tuple[Softmax, Softmax]
) -> tuple[Tensor, Tensor]:
    """Overwrite logits with log P − log M and log Q − log M, M = ½(P + Q)."""
    for values, view in zip(logits, views, strict=True):
        values.sub_(view.log_normalizer)
    mixture = torch.logaddexp(*logits).sub_(math.log(2))
    return logits[0].sub_(mixture), logits[1].sub_(mixture)


def _expectation(view: Softmax, values: Tensor) -> Tensor:
    """(rows, 1): the mean of (rows, vocabulary) values under each row's distribution."""
    means: Tensor = torch.linalg.vecdot(view.probabilities, values)
    return means.unsqueeze(-1)
