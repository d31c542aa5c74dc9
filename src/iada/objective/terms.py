"""What the objective adds up, and the sums it returns.

Views are numbered: with two, the first is the original and the second the perturbed one.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Divergence = Literal["symmetric_kl", "js"]


@dataclass(frozen=True)
class Agreement:
    """How two views are compared."""

    weight: float
    """Weight of the divergence, above 0."""
    divergence: Divergence = "symmetric_kl"
    """½[KL(P‖Q) + KL(Q‖P)], or the Jensen-Shannon divergence."""
    stop_first: bool = False
    """Let no gradient of the divergence flow into the first view."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is added up."""

    nll_weights: tuple[float, ...]
    """Weight of the NLL of each view; 0 leaves the term out."""
    smoothing: float = 0.0
    """Label smoothing of every NLL: mass that is spread evenly over the whole vocabulary."""
    agreement: Agreement | None = None
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
