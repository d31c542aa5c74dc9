"""What a training step should cost on a GPU, from operations and bytes alone: an estimate.

    python benchmarks/roofline.py

Nothing is measured here. A step is split into matrix products, which are bound by the speed of the
tensor cores, and everything else, which is bound by memory; their times are added, since the second
kind waits for the first. Products are taken to reach a share of the card's peak (half, which
matrices of 512 columns need not reach), and memory likewise. Bytes are counted for bf16 under
autocast, with residuals, normalisations, logits and the optimiser in float32.
"""

import sys
from dataclasses import dataclass, replace

from measuring import table
from workload import SHAPES, Shape

from iada.cli.parsing import parse_dataclass


@dataclass(frozen=True, kw_only=True)
class Options:
    """The card and the training."""

    operations: float = 312e12
    """Peak of dense bf16 products per second; an A100's."""
    bandwidth: float = 1.555e12
    """Peak bytes per second of its memory; an A100's with 40 GB."""
    share: float = 0.5
    """Share of both peaks that is reached."""
    gpus: int = 2
    """Cards that train together."""
    hours: float = 5.0
    """Time in which updates are counted."""
    windows: int = 40
    """Windows of a micro-batch, of 100 tokens each: 4,000 tokens, as in the paper."""
    accumulation: int = 8
    """Micro-batches of an update."""


@dataclass(frozen=True)
class Method:
    """How often a step goes through the model."""

    views: int
    importance_pass: bool = False

    def product_passes(self) -> float:
        """Forward passes' worth of products: a backward pass has two."""
        return 3.0 * self.views + (1.0 if self.importance_pass else 0.0)

    def memory_passes(self) -> float:
        """Forward passes' worth of memory traffic; the pass for importance is a backward one."""
        return 3.0 * self.views + (2.0 if self.importance_pass else 0.0)


METHODS = {
    "plain": Method(1),
    "TNorm, or GNorm lagged": Method(2),
    "GNorm": Method(2, importance_pass=True),
}


def body_bytes(shape: Shape) -> float:
    """Bytes that a forward pass moves outside its products: activations of all layers."""
    pairs = shape.windows * shape.length
    # Per token and layer: queries, keys, values and outputs in bf16; sums with the residual,
    # dropout masks and normalisations in float32, each read and written; the wide layer and its
    # rectifier in bf16. The decoder has one attention more.
    attention = (3 + 1 + 2) * shape.dim * 2 + shape.heads * shape.length * 2
    join = 5 * shape.dim * 4
    feed_forward = 4 * shape.feed_forward * 2
    encoder = attention + feed_forward + 2 * join
    decoder = 2 * attention + feed_forward + 3 * join
    return float(pairs * shape.layers * (encoder + decoder))


def loss_bytes(shape: Shape, loss_on: str, views: int) -> float:
    """Bytes that the losses move: about ten passes over the logits of each view, in float32."""
    return 10.0 * 4 * views * shape.loss_tokens(loss_on) * shape.vocabulary


def parameters(shape: Shape) -> float:
    """Weights of the model."""
    layer = (4 + 8) * shape.dim**2 + 2 * 2 * shape.dim * shape.feed_forward
    return float(shape.layers * layer + shape.vocabulary * shape.dim)


def seconds(shape: Shape, method: Method, loss_on: str, options: Options) -> float:
    """Return the time of a micro-batch on one card."""
    products = method.product_passes() * shape.forward_operations(loss_on)
    moved = method.memory_passes() * body_bytes(shape)
    moved += loss_bytes(shape, loss_on, method.views)
    # Weights are read in every pass and their gradients written; the optimiser comes once an update
    # with its two moments.
    weights = parameters(shape) * (2 * method.product_passes() + 4 + 7 * 4 / options.accumulation)
    return (products / options.operations + (moved + weights) / options.bandwidth) / options.share


def main(options: Options) -> None:
    shape = replace(SHAPES["base"], windows=options.windows)
    tokens = 2 * shape.windows * shape.length
    rows = []
    for loss_on in ("all", "current"):
        for name, method in METHODS.items():
            time = seconds(shape, method, loss_on, options)
            updates = options.hours * 3600 / (time * options.accumulation / options.gpus)
            products = method.product_passes() * shape.forward_operations(loss_on)
            rows.append(
                (
                    f"{name}, loss on {loss_on}",
                    f"{products / tokens / 1e9:.2f}",
                    f"{1000 * time:.1f}",
                    f"{tokens / time:,.0f}",
                    f"{updates:,.0f}",
                )
            )
    names = ("", "GFLOP/token", "ms/micro-batch", "tokens/s, one card")
    print(table([(*names, f"updates in {options.hours:g} h, {options.gpus} cards"), *rows]))


if __name__ == "__main__":
    main(parse_dataclass(Options, sys.argv[1:], program="benchmarks/roofline.py"))
