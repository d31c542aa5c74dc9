"""The losses fused with the output projection, as one node of the graph.

The plain computation keeps several (tokens × vocabulary) matrices until the backward pass. Here a
chunk of tokens is projected, its losses and their gradients at the logits are computed at once and
multiplied into the gradients at the hidden states and at the weight, and the chunk is forgotten.
The backward pass only scales. The result is that of `iada.method.losses`.

Costs, in products of (tokens × dim × vocabulary): three for each view that is learned from
(logits, gradient at the states, gradient at the weight), as in the plain computation. GNorm needs
the gradient of the original NLL before the perturbed view exists: two more (`nll_gradient`), of
which the first, the original logits, is not repeated as far as they fit into a memory of fixed size
(`iada.method.kept_logits`). The gradient at the states is, since that of the agreement needs both
views.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import cross_entropy

from iada.method.chunks import Head, RequiredGradients, accumulate_losses, default_chunk_rows
from iada.method.kept_logits import KeptLogits
from iada.method.losses import Sums, Terms
from iada.method.selection import at_least_float32
from iada.models.observation import LinearProjection, capped


def fused_losses(
    projection: LinearProjection,
    states: Sequence[Tensor],
    labels: Tensor,
    terms: Terms,
    *,
    chunk_rows: int | None = None,
    kept: KeptLogits | None = None,
    weight: Tensor | None = None,
) -> Sums:
    """Compute all terms, and at once the gradients that anything requires.

    Args:
        projection: weight and bias.
        states: (tokens, dim) for each view: what enters the projection at the loss positions.
        labels: (tokens,), all of them in the loss.
        terms: weights, smoothing and agreement.
        chunk_rows: see `iada.method.chunks.accumulate_losses`.
        kept: memory that may hold logits of the first view, by `nll_gradient`.
        weight: what gets the gradient of the projection's weight, if that is not the weight itself.
    """
    product_type = _product_type(projection.weight)
    known = None if kept is None else kept.take(states[0])
    settings = _Settings(terms, product_type, chunk_rows, projection.cap, known)
    if torch.is_grad_enabled():
        learned = projection.weight if weight is None else weight
        arguments = (settings, labels, learned, projection.bias(), *states)
        total, sums = cast(tuple[Tensor, Tensor], _Fused.apply(*arguments))  # type: ignore[no-untyped-call]
    else:
        head = _head(projection.weight, projection.bias(), product_type, projection.cap)
        views = [view.to(product_type) for view in states]
        sums = accumulate_losses(
            terms,
            views,
            labels,
            head,
            RequiredGradients((False,) * len(views)),
            chunk_rows=chunk_rows,
            kept=known,
        ).sums
        total = _weighted(terms, sums)
    *nlls, agreement = sums.unbind()
    return Sums(
        total,
        tuple(
            nll if weight > 0 else None for nll, weight in zip(nlls, terms.nll_weights, strict=True)
        ),
        None if terms.agreement is None else agreement,
    )


@torch.no_grad()
def nll_gradient(
    projection: LinearProjection,
    states: Tensor,
    labels: Tensor,
    *,
    smoothing: float = 0.0,
    keep: KeptLogits | None = None,
) -> Tensor:
    """Return the gradient of the summed NLL at the states, and no other.

    Args:
        projection: weight and bias.
        states: (tokens, dim).
        labels: (tokens,).
        smoothing: label smoothing of the NLL.
        keep: memory that gets the logits, for `fused_losses`.

    Returns:
        (tokens, dim), of the type of `states`.
    """
    product_type = _product_type(projection.weight)
    head = _head(projection.weight, projection.bias(), product_type, projection.cap)
    terms = Terms(nll_weights=(1.0,), smoothing=smoothing)
    if keep is not None:
        keep.begin(states, head.weight)
    result = accumulate_losses(
        terms, [states.to(product_type)], labels, head, RequiredGradients((True,)), keep=keep
    )
    gradient = result.states[0]
    assert gradient is not None
    return gradient.to(states.dtype)


@torch.no_grad()
def token_nll(projection: LinearProjection, states: Tensor, labels: Tensor) -> Tensor:
    """Return the NLL of each label, (tokens,), a chunk of tokens at a time; arguments as above."""
    product_type = _product_type(projection.weight)
    head = _head(projection.weight, projection.bias(), product_type, projection.cap)
    rows = default_chunk_rows(head.weight)
    found = []
    with torch.autocast(states.device.type, enabled=False):
        for start in range(0, max(1, len(labels)), rows):
            chunk, targets = states[start : start + rows], labels[start : start + rows]
            logits = at_least_float32(chunk.to(product_type) @ head.weight.T)
            logits = logits if head.bias is None else logits.add_(head.bias)
            logits = logits if head.cap is None else capped(logits, head.cap)
            found.append(cross_entropy(logits, targets, reduction="none"))
    return torch.cat(found)


@dataclass(frozen=True)
class _Settings:
    terms: Terms
    product_type: torch.dtype
    chunk_rows: int | None
    cap: float | None
    known: Tensor | None
    """(rows, vocabulary), logits of the first tokens of the first view."""


class _Fused(torch.autograd.Function):
    """A node whose gradients are ready before anyone asks for them."""

    @staticmethod
    def forward(
        ctx: Any,
        settings: _Settings,
        labels: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *states: Tensor,
    ) -> tuple[Tensor, Tensor]:
        terms, product_type = settings.terms, settings.product_type
        _, _, for_weight, for_bias, *for_states = ctx.needs_input_grad
        result = accumulate_losses(
            terms,
            [view.to(product_type) for view in states],
            labels,
            _head(weight, bias, product_type, settings.cap),
            RequiredGradients(tuple(for_states), for_weight, for_bias),
            chunk_rows=settings.chunk_rows,
            kept=settings.known,
        )
        # Neither inputs nor outputs, so they need not be saved in autograd's own way, which would
        # forbid to give them away.
        ctx.ready = (result.weight, result.bias, *result.states)
        ctx.types = [None if i is None else i.dtype for i in (weight, bias, *states)]
        ctx.mark_non_differentiable(result.sums)
        return _weighted(terms, result.sums), result.sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.ready is None:
            raise RuntimeError(
                "The gradients of the fused losses were given away by an earlier backward pass. "
                "Call that one with `retain_graph=True`."
            )
        ready = tuple(zip(ctx.ready, ctx.types, strict=True))
        if torch._C._autograd._get_current_graph_task_keep_graph():
            scaled = (None if g is None else (g * outer).to(dtype) for g, dtype in ready)
        else:
            # Memory is at its peak now: scale in place, and let go.
            ctx.ready = None
            scaled = (None if g is None else g.mul_(outer).to(dtype) for g, dtype in ready)
        return (None, None, *scaled)


def _weighted(terms: Terms, sums: Tensor) -> Tensor:
    agreement = 0.0 if terms.agreement is None else terms.agreement.weight
    weights = (*terms.nll_weights, agreement)
    # A product of two vectors would move the weights to the device, and wait for it.
    parts = [weight * part for weight, part in zip(weights, sums.unbind(), strict=True)]
    return torch.stack(parts).sum()


def _head(
    weight: Tensor, bias: Tensor | None, product_type: torch.dtype, cap: float | None
) -> Head:
    return Head(
        weight.detach().to(product_type),
        None if bias is None else at_least_float32(bias.detach()),
        cap,
    )


def _product_type(weight: Tensor) -> torch.dtype:
    """Return the type of the projection's products: what autocast would choose, if it is on."""
    device = weight.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return weight.dtype
