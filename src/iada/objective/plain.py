"""The losses from whole matrices of logits: the readable reference of the fused computation."""

from collections.abc import Sequence

from torch import Tensor

from iada.objective.agreement import jensen_shannon, symmetric_kl
from iada.objective.nll import nll_sum
from iada.objective.terms import Sums, Terms
from iada.precision import at_least_float32


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
    compare = symmetric_kl if terms.agreement.divergence == "symmetric_kl" else jensen_shannon
    divergence = compare(first, second)
    total = total + terms.agreement.weight * divergence
    return Sums(total, tuple(nlls), divergence.detach())
