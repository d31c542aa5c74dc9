"""Negative log-likelihood with label smoothing."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from iada.precision import at_least_float32


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
