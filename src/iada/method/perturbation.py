"""Replace selected tokens.

Only ids change; roles, labels and masks are somebody else's and stay as they are. All randomness
comes from the generator that is passed in.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Replacement(Protocol):
    """Ω of eq. 4: what a token becomes when it is replaced."""

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return, for every position of `ids`, the token that would replace it."""
        ...


@dataclass(frozen=True)
class Drop:
    """Replace by the `<mask>` token (word dropout)."""

    mask_id: int

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return `<mask>` everywhere; draws nothing."""
        return torch.full_like(ids, self.mask_id)


@dataclass(frozen=True)
class Zero:
    """Keep the token; the model reads a zero vector where its embedding would be.

    The ids stay, so that whatever a model makes of them (positions, masks) stays too. See `zeroed`
    of `iada.models.observation.Observer.forward`.
    """

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Return the tokens themselves; draws nothing."""
        return ids


class Replace:
    """Replace by a token drawn uniformly from the vocabulary without the special tokens.

    The draw may hit the original token (probability 1 / vocabulary), as in the paper.
    """

    def __init__(self, vocab_size: int, special_ids: Collection[int]) -> None:
        excluded = set(special_ids)
        self.candidates = torch.tensor([i for i in range(vocab_size) if i not in excluded])
        if not len(self.candidates):
            raise ValueError(f"no ordinary token among {vocab_size} ids")

    def __call__(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Draw one token for every position."""
        if self.candidates.device != ids.device:
            self.candidates = self.candidates.to(ids.device)
        drawn = torch.randint(
            len(self.candidates), ids.shape, generator=generator, device=ids.device
        )
        return self.candidates[drawn].to(ids.dtype)


def perturb(
    ids: Tensor, probability: Tensor, replacement: Replacement, *, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Replace each token with its own probability (eq. 4).

    Args:
        ids: (batch, length) tokens.
        probability: (batch, length) replacement probabilities; 0 keeps a token for certain.
        replacement: what a selected token becomes.
        generator: source of all randomness, on the device of `ids`.

    Returns:
        The perturbed ids and the bool mask of the selected positions, both (batch, length).
    """
    # Always float32: the same generator draws the same numbers whatever the model's precision.
    uniform = torch.rand(ids.shape, generator=generator, device=ids.device, dtype=torch.float32)
    selected = uniform < probability
    return torch.where(selected, replacement(ids, generator), ids), selected
