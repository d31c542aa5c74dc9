"""Projection, losses and gradients, a chunk of tokens at a time: the loop of the fused objective.

Nothing here belongs to a graph. Both views of a chunk go through each product together, so that the
weight's gradient is read and written half as often. Gradients are written over their logits.

Two views of the same rows are P and Q. Each gradient is that of the weighted sum of the terms.
Label smoothing takes `smoothing / vocabulary` from the gradient of every entry. That share is the
same in all rows, so it is subtracted once from the finished products. Where a model caps its logits
(`cap * tanh(logits / cap)`), it is not, and every entry is multiplied by the slope of the cap.
"""

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from iada.method.kept_logits import KeptLogits, project
from iada.method.losses import AgreementTerm, Terms
from iada.method.selection import at_least_float32


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
    agreement: AgreementTerm,
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
    if agreement.divergence == "kl":
        return _compare_one_way(
            logits, views, agreement, nll_weights=nll_weights, write_gradients=write_gradients
        )
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


def _compare_one_way(
    logits: tuple[Tensor, Tensor],
    views: tuple[Softmax, Softmax],
    agreement: AgreementTerm,
    *,
    nll_weights: tuple[float, float],
    write_gradients: bool,
) -> Tensor:
    """Sum KL(P‖Q) over rows; arguments and result as in `compare`."""
    first, second = logits
    p, q = views
    weight = agreement.weight
    ratio = first.sub_(second).sub_(p.log_normalizer - q.log_normalizer)
    divergence = _expectation(p, ratio)
    if write_gradients:
        # P (log P − log Q − KL) at P's logits, Q − P at Q's.
        torch.mul(q.probabilities, nll_weights[1] + weight, out=second)
        second.sub_(p.probabilities, alpha=weight)
        if agreement.stop_first:
            write_nll_gradient(first, p, nll_weights[0])
        else:
            scale = nll_weights[0] - weight * divergence
            torch.add(scale, ratio, alpha=weight, out=first).mul_(p.probabilities)
    return divergence.sum()


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


CPU_CHUNK_BYTES = 32 * 2**20
"""Size of a chunk's logits: the products are efficient, and memory stays small."""
CPU_BLOCK_BYTES = 2**20
"""Size of what one elementwise operation reads: a few of these fit into a CPU's cache."""
DEVICE_CHUNK_BYTES = 256 * 2**20
"""Size of a chunk's logits on other devices, which need larger matrices to be busy."""


@dataclass(frozen=True)
class RequiredGradients:
    """Which gradients to compute."""

    states: tuple[bool, ...]
    weight: bool = False
    bias: bool = False

    def for_view(self, view: int) -> bool:
        """Whether a view's gradient at the logits serves anything."""
        return self.states[view] or self.weight or self.bias


@dataclass(frozen=True)
class LossesAndGradients:
    """Sums over all tokens, and gradients of the weighted total."""

    sums: Tensor
    """(views + 1,): the NLL of each view and their divergence, unweighted; 0 if left out."""
    states: tuple[Tensor | None, ...]
    """(tokens, dim) for each view."""
    weight: Tensor | None
    """(vocabulary, dim)."""
    bias: Tensor | None
    """(vocabulary,)."""


@dataclass(frozen=True)
class Head:
    """The projection in the precision of its products."""

    weight: Tensor
    """(vocabulary, dim)."""
    bias: Tensor | None
    """(vocabulary,), float32 or better."""
    cap: float | None = None

    @cached_property
    def mean_row(self) -> Tensor:
        """(dim,): the mean of the weight over the vocabulary."""
        return at_least_float32(self.weight).mean(dim=0)

    def mean_logits(self, states: Tensor) -> Tensor:
        """(rows, 1): the mean logit over the vocabulary, without a pass over the logits."""
        means = at_least_float32(states) @ self.mean_row[:, None]
        return means if self.bias is None else means + self.bias.mean()


@torch.no_grad()
def accumulate_losses(
    terms: Terms,
    states: Sequence[Tensor],
    labels: Tensor,
    head: Head,
    required: RequiredGradients,
    *,
    chunk_rows: int | None = None,
    keep: KeptLogits | None = None,
    kept: Tensor | None = None,
) -> LossesAndGradients:
    """Add up losses and gradients over chunks.

    Args:
        terms: what to add up.
        states: (tokens, dim) for each view, in the precision of the products.
        labels: (tokens,).
        head: weight and bias.
        required: which gradients to compute.
        chunk_rows: rows of logits, of all views together, that exist at a time. By default
            chosen by the size of the vocabulary; the result does not depend on it.
        keep: memory that gets the logits of the first view, without the bias.
        kept: (rows, vocabulary), those of the first tokens of the first view from such a memory.
    """
    views, vocabulary = len(states), len(head.weight)
    rows = chunk_rows or default_chunk_rows(head.weight)
    size = max(1, min(len(labels), rows // views))
    # One buffer serves all chunks: fresh ones would be paged in again and again.
    buffer = head.weight.new_empty(views * size, vocabulary)
    # Autocast has done its part: all is in the type of the products.
    with torch.autocast(head.weight.device.type, enabled=False):
        total = _Accumulated(terms, states, head, required)
        smooths = terms.smoothing > 0 and head.cap is None
        means = [
            head.mean_logits(view) if smooths and weight > 0 else None
            for view, weight in zip(states, terms.nll_weights, strict=True)
        ]
        sums_of = kernel_sums(buffer, terms, head) or chunk_sums
        for start in range(0, len(labels), size):
            tokens = slice(start, start + size)
            stacked = torch.cat([view[tokens] for view in states])
            known = None if kept is None else kept[tokens]
            logits = project(stacked, head.weight, known, out=buffer[: len(stacked)])
            if keep:
                keep.put(logits[: len(stacked) // views])
            total.sums += sums_of(
                logits.view(views, -1, vocabulary),
                labels[tokens, None],
                terms,
                [None if mean is None else mean[tokens] for mean in means],
                bias=head.bias,
                cap=head.cap,
                write_gradients=bool(total.learned),
            )
            total.add_products(logits, stacked, tokens)
        return total.finished()


def kernel_sums(logits: Tensor, terms: Terms, head: Head) -> Callable[..., Tensor] | None:
    """Return what computes `chunk_sums` on a GPU, if Triton is there and takes these terms."""
    if not logits.is_cuda or importlib.util.find_spec("triton") is None:
        return None
    # Not above: few machines have Triton.
    from iada.method import kernel

    is_taken = kernel.takes(logits.dtype, terms) and kernel.agrees_with(
        chunk_sums,
        logits.device,
        logits.dtype,
        terms,
        has_bias=head.bias is not None,
        cap=head.cap,
    )
    return kernel.chunk_sums if is_taken else None


def default_chunk_rows(weight: Tensor) -> int:
    """Return how many rows of logits make a chunk, given the (vocabulary, dim) weight."""
    size = CPU_CHUNK_BYTES if weight.is_cpu else DEVICE_CHUNK_BYTES
    return max(1, size // (weight.element_size() * len(weight)))


def chunk_sums(
    logits: Tensor,
    labels: Tensor,
    terms: Terms,
    mean_logits: Sequence[Tensor | None],
    *,
    bias: Tensor | None,
    cap: float | None = None,
    write_gradients: bool,
) -> Tensor:
    """Return the sums of one chunk, and overwrite its logits with their gradients.

    Args:
        logits: (views, tokens, vocabulary), without the bias.
        labels: (tokens, 1).
        terms: what to add up.
        mean_logits: (tokens, 1) for each view that has a smoothed NLL and no cap.
        bias: (vocabulary,).
        cap: what the size of logits is capped at, if it is.
        write_gradients: whether to write gradients. They lack the even share that smoothing
            takes from every entry: the same in all rows, it is cheaper to take from the products.
            Only with a cap it is taken here.
    """
    sums = at_least_float32(logits[:, :0, 0]).new_zeros(len(logits) + 1)
    vocabulary = logits.shape[-1]
    rows = max(1, CPU_BLOCK_BYTES // (4 * vocabulary)) if logits.is_cpu else logits.shape[1]
    for start in range(0, logits.shape[1], rows):
        part = slice(start, start + rows)
        values = [at_least_float32(view[part]) for view in logits]
        if bias is not None:
            values = [view.add_(bias) for view in values]
        means = [None if mean is None else mean[part] for mean in mean_logits]
        slopes = [] if cap is None else [_cap_logits(view, cap) for view in values]
        if slopes and terms.smoothing > 0:
            means = [view.mean(dim=-1, keepdim=True) for view in values]
        sums += _block_sums(
            values,
            labels[part],
            terms,
            means,
            write_gradients=write_gradients,
        )
        if write_gradients and slopes:
            for gradient, slope, weight in zip(values, slopes, terms.nll_weights, strict=True):
                share = terms.smoothing * weight / vocabulary
                gradient.sub_(share).mul_(slope)
        if write_gradients and values[0].dtype != logits.dtype:
            for view, gradient in zip(logits, values, strict=True):
                view[part] = gradient
    return sums


def _cap_logits(logits: Tensor, cap: float) -> Tensor:
    """Cap logits in place, and return the derivative of what they are now by what they were."""
    logits.div_(cap).tanh_()
    slope = 1 - logits.square()
    logits.mul_(cap)
    return slope


def _block_sums(
    logits: Sequence[Tensor],
    labels: Tensor,
    terms: Terms,
    mean_logits: Sequence[Tensor | None],
    *,
    write_gradients: bool,
) -> Tensor:
    softmaxes = [Softmax.of(view) for view in logits]
    sums, kept = logits[0].new_zeros(len(logits) + 1), 1 - terms.smoothing
    for view, weight in enumerate(terms.nll_weights):
        if weight > 0:
            nll = softmaxes[view].log_normalizer - kept * logits[view].gather(1, labels)
            mean = mean_logits[view]
            sums[view] = (nll if mean is None else nll - terms.smoothing * mean).sum()
    if terms.agreement is not None:
        sums[-1] = compare(
            (logits[0], logits[1]),
            (softmaxes[0], softmaxes[1]),
            terms.agreement,
            nll_weights=(terms.nll_weights[0], terms.nll_weights[1]),
            write_gradients=write_gradients,
        )
    if write_gradients:
        for view, weight in enumerate(terms.nll_weights):
            if weight > 0:
                if terms.agreement is None:
                    write_nll_gradient(logits[view], softmaxes[view], weight)
                subtract_labels(logits[view], labels, kept * weight)
    return sums


class _Accumulated:
    """Sums and gradients of the chunks so far."""

    def __init__(
        self, terms: Terms, states: Sequence[Tensor], head: Head, required: RequiredGradients
    ) -> None:
        exact = at_least_float32(head.weight[:0])
        self.terms, self.given, self.head, self.required = terms, states, head, required
        self.sums = exact.new_zeros(len(states) + 1)
        # Views are stacked, and the learned ones lie side by side.
        self.learned = [
            view
            for view in range(len(states))
            if terms.learns_from(view) and required.for_view(view)
        ]
        self.states = [
            torch.zeros_like(view) if want else None
            for view, want in zip(states, required.states, strict=True)
        ]
        self.weight = exact.new_zeros(head.weight.shape) if required.weight else None
        self.bias = exact.new_zeros(len(head.weight)) if required.bias else None

    def add_products(self, gradient: Tensor, stacked: Tensor, tokens: slice) -> None:
        """Multiply a chunk's gradient at the logits into the required gradients.

        Args:
            gradient: (views · chunk, vocabulary).
            stacked: (views · chunk, dim), the states.
            tokens: where the chunk stands.
        """
        if not self.learned:
            return
        size = len(stacked) // len(self.given)
        part = slice(self.learned[0] * size, (self.learned[-1] + 1) * size)
        gradient, stacked = gradient[part], stacked[part]
        if any(self.required.states):
            products = torch.split(torch.mm(gradient, self.head.weight), size)
            for view, product in zip(self.learned, products, strict=True):
                goal = self.states[view]
                if goal is not None:
                    goal[tokens] = product
        if self.weight is not None:
            if gradient.dtype == self.weight.dtype:
                self.weight.addmm_(gradient.T, stacked)
            else:
                self.weight += gradient.T @ stacked
        if self.bias is not None:
            self.bias += gradient.sum(dim=0, dtype=self.bias.dtype)

    def finished(self) -> LossesAndGradients:
        """Take the even share of label smoothing from every gradient."""
        for view in self.learned:
            share = self.terms.smoothing * self.terms.nll_weights[view]
            if share == 0 or self.head.cap is not None:
                continue
            goal = self.states[view]
            if goal is not None:
                goal -= (share * self.head.mean_row).to(goal.dtype)
            entry = share / len(self.head.weight)
            if self.weight is not None:
                self.weight -= entry * self.given[view].sum(dim=0, dtype=self.weight.dtype)
            if self.bias is not None:
                self.bias -= entry * len(self.given[view])
        return LossesAndGradients(self.sums, tuple(self.states), self.weight, self.bias)
