"""The losses of a chunk and their gradients in one Triton kernel, for GPUs.

It does what `iada.method.chunks.chunk_sums` does, which stays the reference and serves wherever
this kernel does not: on CPUs, without Triton, in float64, and for divergences other than the
symmetric KL. The matrix products before and after stay those of the libraries.

A program takes one token. It reads its logits once for the normalisers and the divergence, with
sums that are rescaled whenever a larger logit turns up, and once more to write the gradients over
them: two readings and one writing, where the operators of PyTorch make about twenty. Numbers are
float32 inside, whatever the type of the logits.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from iada.method.losses import Terms

logger = logging.getLogger(__name__)

BLOCK = 2048
"""Most logits of a row that a program holds at a time."""
_WARPS = 8
# Its exponential is 0, its difference from itself too, and its square is a float32.
_OUTSIDE = tl.constexpr(-1e15)

ChunkSums = Callable[..., Tensor]
"""Arguments and result of `iada.method.chunks.chunk_sums`."""


def takes(dtype: torch.dtype, terms: Terms) -> bool:
    """Whether the kernel computes these terms of logits of this type."""
    agreement = terms.agreement
    return dtype in (torch.float32, torch.bfloat16, torch.float16) and (
        agreement is None or agreement.divergence == "symmetric_kl"
    )


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
    """Do what `iada.method.chunks.chunk_sums` does; logits are contiguous."""
    views, tokens, vocabulary = logits.shape
    # For each token the NLLs but for the mean logit, the mean logits, and the divergence.
    found = logits.new_zeros(2 * views + 1, tokens, dtype=torch.float32)
    settings = {
        "kept": 1 - terms.smoothing,
        "cap": 0.0 if cap is None else cap,
        "HAS_BIAS": bias is not None,
        "HAS_CAP": cap is not None,
        "WRITES": write_gradients,
        "BLOCK": min(BLOCK, triton.next_power_of_2(vocabulary)),
        "num_warps": _WARPS,
    }
    shares = [0.0 if cap is None else terms.smoothing * w / vocabulary for w in terms.nll_weights]
    # What is not there is never read, but needs an address.
    added = found if bias is None else bias
    labels = labels.contiguous()
    if tokens and terms.agreement is not None:
        _two_views[(tokens,)](
            *(logits[0], logits[1], labels, added, found, tokens, vocabulary),
            *(0.5 * terms.agreement.weight, *terms.nll_weights, *shares),
            STOPS_FIRST=terms.agreement.stop_first,
            **settings,
        )
    elif tokens:
        for view, weight in enumerate(terms.nll_weights):
            if weight > 0:
                _one_view[(tokens,)](
                    *(logits[view], labels, added, found[view:], views * tokens, vocabulary),
                    *(weight, shares[view]),
                    **settings,
                )
    for view, weight in enumerate(terms.nll_weights):
        if weight > 0 and terms.smoothing > 0:
            given = mean_logits[view]
            mean = found[views + view] if given is None else given.squeeze(1)
            found[view] -= terms.smoothing * mean
        elif weight == 0:
            found[view] = 0
    sums = found.sum(dim=1)
    return torch.cat([sums[:views], sums[-1:]])


def agrees_with(
    reference: ChunkSums,
    device: torch.device,
    dtype: torch.dtype,
    terms: Terms,
    *,
    has_bias: bool,
    cap: float | None,
) -> bool:
    """Whether the kernel compiles here and gives what the reference gives; tried once and noted.

    Args:
        reference: `iada.method.chunks.chunk_sums`.
        device: where.
        dtype: of the logits.
        terms: what to add up; which terms there are matters, their weights do not.
        has_bias: whether there is a bias.
        cap: what the size of logits is capped at, if it is.
    """
    agreement = terms.agreement and replace(terms.agreement, weight=1.0)
    weights = tuple(float(weight > 0) for weight in terms.nll_weights)
    kind = replace(terms, nll_weights=weights, agreement=agreement)
    return _agrees_with(reference, device, dtype, kind, has_bias, cap)


@cache
def _agrees_with(
    reference: ChunkSums,
    device: torch.device,
    dtype: torch.dtype,
    terms: Terms,
    has_bias: bool,
    cap: float | None,
) -> bool:
    views, tokens, vocabulary = len(terms.nll_weights), 3, BLOCK + 5
    # No random numbers: those of the training would go on differently.
    count = torch.arange(views * tokens * vocabulary, device=device)
    values = (5 * torch.sin(count * 0.7)).view(views, tokens, vocabulary).to(dtype)
    labels = torch.arange(tokens, device=device)[:, None] * (vocabulary // tokens)
    bias = torch.cos(count[:vocabulary] * 0.3) if has_bias else None
    means = [None if cap else view.float().mean(dim=1, keepdim=True) for view in values]

    def run(compute: ChunkSums) -> tuple[Tensor, Tensor]:
        logits = values.clone()
        sums = compute(logits, labels, terms, means, bias=bias, cap=cap, write_gradients=True)
        return sums, logits.float()

    sums, gradients = run(reference)
    try:
        own_sums, own_gradients = run(chunk_sums)
    except Exception as error:  # whatever a compiler says of a device that nobody has tried
        logger.warning("The Triton kernel does not run on %s (%s): not used.", device, error)
        return False
    # Gradients in bf16 may be rounded the other way.
    allowed = max(1e-4, torch.finfo(dtype).eps) * gradients.abs().amax()
    is_equal = torch.allclose(own_sums, sums, rtol=1e-4, atol=1e-4) and bool(
        (own_gradients - gradients).abs().amax() <= allowed
    )
    if not is_equal:
        logger.warning("The Triton kernel computes other numbers on %s: not used.", device)
    return is_equal


@triton.jit
def _read(values, bias, columns, vocabulary, cap, HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr):
    """Return logits of one token in float32, and the same low number behind the last."""
    inside = columns < vocabulary
    found = tl.load(values + columns, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        found += tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    if HAS_CAP:
        # cap · tanh(found / cap), which Triton has not for every device.
        found = cap * (2 * tl.sigmoid(2 * found / cap) - 1)
    return tl.where(inside, found, _OUTSIDE)


@triton.jit
def _write(place, inside, gradient, logits, is_label, mass, share, cap, HAS_CAP: tl.constexpr):
    """Take the label's mass from a gradient, go back through the cap, and store it."""
    gradient -= tl.where(is_label, mass, 0.0)
    if HAS_CAP:
        capped = logits / cap
        gradient = (gradient - share) * (1 - capped * capped)
    tl.store(place, gradient.to(place.dtype.element_ty), mask=inside)


@triton.jit
def _one_view(
    logits,
    labels,
    bias,
    found,
    apart,
    vocabulary,
    weight,
    share,
    kept,
    cap,
    HAS_BIAS: tl.constexpr,
    HAS_CAP: tl.constexpr,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One token: its NLL, its mean logit `apart` numbers behind that, and the gradient."""
    token = tl.program_id(0)
    values = logits + token.to(tl.int64) * vocabulary
    label = tl.load(labels + token)
    # Read before the reductions, where threads wait for each other: later another thread could
    # have overwritten it.
    at_label = _read(values, bias, label, vocabulary, cap, HAS_BIAS, HAS_CAP)
    largest = float("-inf")
    total = 0.0
    added = 0.0
    for start in range(0, vocabulary, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        block = _read(values, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
        larger = tl.maximum(largest, tl.max(block))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(block - larger))
        added += tl.sum(tl.where(columns < vocabulary, block, 0.0))
        largest = larger
    tl.store(found + token, largest + tl.log(total) - kept * at_label)
    tl.store(found + apart + token, added / vocabulary)
    if WRITES:
        scale = weight / total
        mass = kept * weight
        for start in range(0, vocabulary, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            block = _read(values, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
            gradient = tl.exp(block - largest) * scale
            place = values + columns
            inside = columns < vocabulary
            is_label = columns == label
            _write(place, inside, gradient, block, is_label, mass, share, cap, HAS_CAP)


@triton.jit
def _first_reading(
    values,
    others,
    bias,
    vocabulary,
    cap,
    HAS_BIAS: tl.constexpr,
    HAS_CAP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Return of each view the largest logit, the sum of exponentials, and two expectations.

    The expectations are the mean logit, and the logits of P minus those of Q under the view.
    """
    p_largest = float("-inf")
    q_largest = float("-inf")
    p_total = 0.0
    q_total = 0.0
    p_added = 0.0
    q_added = 0.0
    p_apart = 0.0
    q_apart = 0.0
    for start in range(0, vocabulary, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < vocabulary
        p = _read(values, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
        q = _read(others, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
        apart = p - q
        p_added += tl.sum(tl.where(inside, p, 0.0))
        q_added += tl.sum(tl.where(inside, q, 0.0))
        larger = tl.maximum(p_largest, tl.max(p))
        shrunk = tl.exp(p_largest - larger)
        p = tl.exp(p - larger)
        p_total = p_total * shrunk + tl.sum(p)
        p_apart = p_apart * shrunk + tl.sum(p * apart)
        p_largest = larger
        larger = tl.maximum(q_largest, tl.max(q))
        shrunk = tl.exp(q_largest - larger)
        q = tl.exp(q - larger)
        q_total = q_total * shrunk + tl.sum(q)
        q_apart = q_apart * shrunk + tl.sum(q * apart)
        q_largest = larger
    p_added /= vocabulary
    q_added /= vocabulary
    p_apart /= p_total
    q_apart /= q_total
    return p_largest, p_total, p_added, p_apart, q_largest, q_total, q_added, q_apart


@triton.jit
def _two_views(
    logits,
    other_logits,
    labels,
    bias,
    found,
    tokens,
    vocabulary,
    half,
    weight,
    other_weight,
    share,
    other_share,
    kept,
    cap,
    HAS_BIAS: tl.constexpr,
    HAS_CAP: tl.constexpr,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
    STOPS_FIRST: tl.constexpr,
):
    """One token in both views, P and Q: NLLs, mean logits, divergence, gradients of all."""
    token = tl.program_id(0)
    values = logits + token.to(tl.int64) * vocabulary
    others = other_logits + token.to(tl.int64) * vocabulary
    label = tl.load(labels + token)
    # Before the reductions: see `_one_view`.
    p_label = _read(values, bias, label, vocabulary, cap, HAS_BIAS, HAS_CAP)
    q_label = _read(others, bias, label, vocabulary, cap, HAS_BIAS, HAS_CAP)
    p_largest, p_total, p_mean, p_apart, q_largest, q_total, q_mean, q_apart = _first_reading(
        values, others, bias, vocabulary, cap, HAS_BIAS, HAS_CAP, BLOCK
    )
    p_normalizer = p_largest + tl.log(p_total)
    q_normalizer = q_largest + tl.log(q_total)
    shift = p_normalizer - q_normalizer
    # KL(P‖Q) and KL(Q‖P).
    p_divergence = p_apart - shift
    q_divergence = shift - q_apart
    tl.store(found + token, p_normalizer - kept * p_label)
    tl.store(found + tokens + token, q_normalizer - kept * q_label)
    tl.store(found + 2 * tokens + token, p_mean)
    tl.store(found + 3 * tokens + token, q_mean)
    tl.store(found + 4 * tokens + token, 0.5 * (p_divergence + q_divergence))
    if WRITES:
        mass = kept * weight
        other_mass = kept * other_weight
        for start in range(0, vocabulary, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            inside = columns < vocabulary
            is_label = columns == label
            p_logits = _read(values, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
            q_logits = _read(others, bias, columns, vocabulary, cap, HAS_BIAS, HAS_CAP)
            p = tl.exp(p_logits - p_largest) / p_total
            q = tl.exp(q_logits - q_largest) / q_total
            ratio = half * (p_logits - q_logits - shift)
            gradient = weight * p
            if not STOPS_FIRST:
                # ½[P (log P − log Q − KL(P‖Q)) + P − Q], weighted.
                gradient += p * (half + ratio - half * p_divergence) - half * q
            place = values + columns
            _write(place, inside, gradient, p_logits, is_label, mass, share, cap, HAS_CAP)
            gradient = other_weight * q + q * (half - ratio - half * q_divergence) - half * p
            place = others + columns
            _write(
                place, inside, gradient, q_logits, is_label, other_mass, other_share, cap, HAS_CAP
            )
