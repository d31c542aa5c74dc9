"""Shapes, synthetic batches and the floating-point operations of a training step.

Needs PyTorch only, so that other toolkits can be measured on the same work in their own
environments.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_ORDINARY_ID = 6
"""Ids below are special tokens."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A Transformer and a batch."""

    layers: int = 6
    """Of the encoder and of the decoder, each."""
    dim: int = 512
    feed_forward: int = 2048
    heads: int = 8
    vocabulary: int = 32_000
    windows: int = 16
    """Rows of a batch."""
    length: int = 100
    """Tokens of a row, on each side."""
    current_share: float = 0.25
    """Share of a window that is its current sentence."""
    dropout: float = 0.3

    @property
    def current(self) -> int:
        """Tokens of the current sentence."""
        return round(self.length * self.current_share)

    def loss_tokens(self, loss_on: str) -> int:
        """Number of labels in a batch."""
        return self.windows * (self.length if loss_on == "all" else self.current)

    def forward_operations(self, loss_on: str = "all") -> float:
        """Operations of one forward pass in matrix products; a backward pass has twice as many."""
        tokens = self.windows * self.length
        weights = (4 + 8) * self.dim**2 + 2 * 2 * self.dim * self.feed_forward
        attention = 3 * 2 * self.length * self.dim
        body = 2.0 * tokens * self.layers * (weights + attention)
        return body + 2.0 * self.loss_tokens(loss_on) * self.dim * self.vocabulary


SHAPES = {
    "base": Shape(),
    "small": Shape(layers=3, dim=256, feed_forward=1024, heads=4, vocabulary=8000),
    "base 4000+4000": Shape(windows=40),
    "mini": Shape(
        layers=2, dim=96, feed_forward=192, heads=4, vocabulary=1400, windows=20, length=52
    ),
    "tiny": Shape(layers=1, dim=32, feed_forward=64, heads=2, vocabulary=200, windows=2, length=12),
}
"""The last one only shows that everything runs."""


def synthetic_ids(shape: Shape, seed: int) -> Tensor:
    """(windows, length): ordinary tokens, drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    size = (shape.windows, shape.length)
    return torch.randint(FIRST_ORDINARY_ID, shape.vocabulary, size, generator=generator)


def synthetic_labels(shape: Shape, loss_on: str) -> Tensor:
    """(windows, length): labels, -100 where they are not in the loss."""
    labels = synthetic_ids(shape, 3)
    if loss_on == "current":
        labels[:, : shape.length - shape.current] = -100
    return labels
