"""From importance scores to replacement probabilities: φ → ψ → p.

The equations are pure functions on (batch, length) tensors. Below them stand the two that apply a
configuration to the role groups of a stream, and how that configuration changes in the course of
training. Nothing here runs a model or draws a number.

Losses, norms and statistics are computed in float32 or better: see `at_least_float32`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from iada.config.method import AugmentConfig, Direction
from iada.data.windows.batch import Batch, Role
from iada.models.observation import Stream, tensors


def at_least_float32(values: Tensor) -> Tensor:
    """Return float64 as it is and everything narrower as float32."""
    return values if values.dtype == torch.float64 else values.float()


_BUDGET_STEPS = 20


def standardize(
    scores: Tensor, roles: Tensor, *, alpha: float, counted: Tensor | None = None
) -> Tensor:
    """Return ψ, the z-scores of importance times alpha (eqs. 6 to 8).

    Each row has its own mean and population variance, over context and current tokens together.
    A stream with several statistics groups calls this once per group, with the other groups'
    roles set to SPECIAL, and adds the results.

    Args:
        scores: (batch, length) importance φ, finite everywhere.
        roles: (batch, length) `Role` of each token.
        alpha: spread of the result.
        counted: (batch, length) bool, tokens that enter mean and variance; by default those that
            are not SPECIAL.

    Returns:
        (batch, length); 0 on SPECIAL tokens and in rows whose scores are all equal.
    """
    scores = at_least_float32(scores)
    eligible = roles != Role.SPECIAL
    counted = eligible if counted is None else counted
    weight = counted.to(scores.dtype)
    count = weight.sum(dim=1, keepdim=True).clamp(min=1)
    mean = (scores * weight).sum(dim=1, keepdim=True) / count
    centred = scores - mean
    deviation = ((centred.square() * weight).sum(dim=1, keepdim=True) / count).sqrt()
    # Equal scores leave a deviation of rounding errors; dividing by it would invent importance.
    flat = deviation <= 16 * torch.finfo(scores.dtype).eps * mean.abs()
    z = centred / deviation.masked_fill(flat, 1.0)
    return (alpha * z).masked_fill(flat | ~eligible, 0.0)


def normalize_scores(
    scores: Tensor,
    roles: Tensor,
    *,
    alpha: float,
    normalize: Literal["standard", "none", "scale"],
    counted: Tensor | None = None,
) -> Tensor:
    """Return ψ: standardised, or one of the two readings of "not normalized" (ψ=φ, ψ=αφ)."""
    if normalize == "standard":
        return standardize(scores, roles, alpha=alpha, counted=counted)
    scores = at_least_float32(scores)
    psi = scores if normalize == "none" else alpha * scores
    return psi.masked_fill(roles == Role.SPECIAL, 0.0)


def replacement_probability(
    psi: Tensor,
    roles: Tensor,
    *,
    p_context: float,
    p_current: float,
    context_direction: Direction = "down",
    current_direction: Direction = "up",
    budget: Literal["free", "matched"] = "free",
) -> Tensor:
    """Tilt the initial probabilities by ψ in logit space (eq. 5).

    Args:
        psi: (batch, length) normalised importance.
        roles: (batch, length) `Role` of each token.
        p_context: initial probability of context tokens, in [0, 1).
        p_current: initial probability of current tokens, in [0, 1).
        context_direction: sign of ψ in the context.
        current_direction: sign of ψ in the current sentence.
        budget: with `matched`, the mean probability of the context tokens of a row is `p_context`
            and that of its current tokens `p_current`, whatever ψ: see `budget_offsets`.

    Returns:
        (batch, length) probabilities; 0 on SPECIAL tokens.
    """
    in_context, in_current = roles == Role.CONTEXT, roles == Role.CURRENT
    context, current = (
        psi if direction == "up" else -psi for direction in (context_direction, current_direction)
    )
    if budget == "matched":
        offsets = budget_offsets(
            torch.where(in_context, context, current),
            torch.stack([in_context, in_current]),
            (p_context, p_current),
        )
        context, current = context + offsets[0], current + offsets[1]
    tilted = torch.where(in_context, _tilted(context, p_context), _tilted(current, p_current))
    return tilted.masked_fill(roles == Role.SPECIAL, 0.0)


def _tilted(tilt: Tensor, p: float) -> Tensor:
    return torch.zeros_like(tilt) if p == 0 else torch.sigmoid(_logit(p) + tilt)


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def budget_offsets(tilt: Tensor, members: Tensor, budgets: Sequence[float]) -> Tensor:
    """Return what to add to the tilts of each part of a row so that their mean probability is p.

    Newton's method on the logit of the mean, which is nearly linear in the offset, inside a bracket
    that each step narrows; the midpoint stands in for steps that leave it. The number of steps is
    fixed, so that no device is waited for. The mean is right to 1e-6 for tilts up to a hundred in
    float32, where rounding sets the limit, and far beyond in float64.

    Args:
        tilt: (rows, length), what is added to the logit of p.
        members: (parts, rows, length) bool, tokens of each part; no token is in two of them.
        budgets: p of each part, in [0, 1).

    Returns:
        (parts, rows, 1); exactly 0 where all tilts are 0 and in rows without members, and without
        meaning where p is 0.
    """
    # Filled on the device: a copy from the host would wait for it.
    bases = torch.stack([tilt.new_full((1, 1), _logit(p) if p > 0 else 0.0) for p in budgets])
    even = torch.sigmoid(bases)
    even_logit = torch.logit(even)
    count = members.sum(dim=-1, keepdim=True)
    weight = members.to(tilt.dtype) / count.clamp(min=1)
    # Less the largest tilt no token lies above the base, less the smallest none below it.
    low = -tilt.masked_fill(~members, -math.inf).amax(dim=-1, keepdim=True)
    high = -tilt.masked_fill(~members, math.inf).amin(dim=-1, keepdim=True)
    low, high = low.masked_fill(count == 0, 0.0), high.masked_fill(count == 0, 0.0)
    offset = torch.zeros_like(low).clamp(low, high)
    for _ in range(_BUDGET_STEPS):
        tilted = torch.sigmoid(bases + tilt + offset)
        # A sum of differences, which is exactly 0 where nothing is tilted.
        excess = torch.linalg.vecdot(tilted - even, weight).unsqueeze(-1)
        slope = torch.linalg.vecdot(tilted - tilted.square(), weight).unsqueeze(-1)
        low, high = torch.where(excess < 0, offset, low), torch.where(excess > 0, offset, high)
        mean = even + excess
        newton = offset - (torch.logit(mean) - even_logit) * mean * (1 - mean) / slope
        # Comparisons with NaN are false, so a flat or saturated mean takes the midpoint.
        inside = (newton >= low) & (newton <= high)
        offset = torch.where(inside, newton, (low + high) / 2)
    return offset


def configured_probability(psi: Tensor, roles: Tensor, config: AugmentConfig) -> Tensor:
    """Return `replacement_probability` with the probabilities and directions of a configuration."""
    return replacement_probability(
        psi,
        roles,
        p_context=config.p_context,
        p_current=config.p_current,
        context_direction=config.context_direction,
        current_direction=config.current_direction,
        budget=config.budget,
    )


@dataclass(frozen=True)
class Scores:
    """Importance of the tokens of a stream."""

    values: Tensor
    """(rows, length): φ, finite everywhere."""
    known: Tensor | None = None
    """(rows, length) bool: tokens that have a score; None if all have. The others get ψ = 0 and
    enter no statistics."""
    is_standard: bool = False
    """Whether the values are z-scores as they are: ψ is α times the value, whatever
    `augment.normalize`."""
    heads: Tensor | None = None
    """`word_heads` where all pieces of a word share their score; None if pieces have their own."""


def word_heads(ids: Tensor, word_starts: Tensor, roles: Sequence[Tensor]) -> Tensor:
    """Find the words of a stream.

    A word begins with a piece that begins words, with every special token, and where the role or
    the side changes.

    Args:
        ids: (rows, length) tokens.
        word_starts: (vocabulary,) bool, whether a word begins with a piece.
        roles: for each role group (rows, length).

    Returns:
        (rows, length): position of the first piece of each token's word.
    """
    stacked = torch.stack(list(roles))
    begins = word_starts[ids] | stacked.eq(Role.SPECIAL).all(dim=0)
    begins[:, 0] = True
    begins[:, 1:] |= stacked[..., 1:].ne(stacked[..., :-1]).any(dim=0)
    positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
    return positions.masked_fill(~begins, 0).cummax(dim=1).values


def stream_heads(stream: Stream, batch: Batch, word_starts: Tensor) -> Tensor:
    """Return `word_heads` of a stream of a batch."""
    values = tensors(batch)
    roles = [values[group.roles] for group in stream.groups]
    return word_heads(values[stream.ids], word_starts, roles)


def average_over_words(scores: Scores, heads: Tensor) -> Scores:
    """Give all pieces of a word the mean of their scores.

    The mean, not the sum: a word is not more important for being spelled in more pieces, and a word
    of one piece keeps its score.

    Args:
        scores: of a stream; unknown ones are left out of the mean.
        heads: see `word_heads`.
    """
    if scores.is_standard:
        # A mean of drawn z-scores would be narrower than they are.
        return replace(scores, values=scores.values.gather(1, heads), heads=heads)
    # A product with the membership of words: deterministic on every device, unlike scattered sums.
    values = at_least_float32(scores.values)
    together = heads[:, :, None].eq(heads[:, None, :]).to(values.dtype)
    known = torch.ones_like(values) if scores.known is None else scores.known.to(values.dtype)
    sums, counts = (together @ torch.stack([values * known, known], dim=-1)).unbind(dim=-1)
    # Read at the head, so that all pieces have the same value to the bit.
    means = (sums / counts.clamp(min=1)).gather(1, heads)
    return replace(scores, values=means, heads=heads)


def scores_of_units(
    scores: Sequence[Scores], streams: Sequence[Stream], batch: Batch, word_starts: Tensor | None
) -> tuple[Scores, ...]:
    """Return the scores of pieces as they are, or those of words; one `Scores` per stream.

    Args:
        scores: of the pieces.
        streams: the streams of the model.
        batch: what was scored.
        word_starts: (vocabulary,) bool, whether a word begins with a piece; None for pieces.
    """
    if word_starts is None:
        return tuple(scores)
    return tuple(
        average_over_words(found, stream_heads(stream, batch, word_starts))
        for stream, found in zip(streams, scores, strict=True)
    )


def group_probabilities(
    scores: Scores, stream: Stream, batch: Batch, config: AugmentConfig
) -> tuple[Tensor, ...]:
    """Return the replacement probability of every token, for each role group of a stream.

    Groups have statistics of their own and share no token, so that the probabilities of the stream
    are the sum over its groups.

    Args:
        scores: importance of the stream's tokens.
        stream: which stream of the batch.
        batch: for the roles.
        config: normalisation, probabilities and directions.

    Returns:
        For each group (rows, length); 0 on tokens of other groups and on special ones.
    """
    roles = [tensors(batch)[group.roles] for group in stream.groups]
    counted = _counted(stream, batch, roles, config)
    found = (
        configured_probability(
            _psi(scores, group_roles, group_counted, config), group_roles, config
        )
        for group_roles, group_counted in zip(roles, counted, strict=True)
    )
    if scores.heads is None:
        return tuple(found)
    # Equal scores may differ in the last bit here: vectors are computed otherwise than their ends.
    return tuple(probabilities.gather(1, scores.heads) for probabilities in found)


def group_z_scores(
    scores: Scores, stream: Stream, batch: Batch, config: AugmentConfig
) -> tuple[Tensor, ...]:
    """Return the z-score of every token, for each role group; arguments as above."""
    roles = [tensors(batch)[group.roles] for group in stream.groups]
    counted = _counted(stream, batch, roles, config)
    standard = replace(config, alpha=1.0, normalize="standard")
    measured = replace(scores, is_standard=False)
    return tuple(
        _psi(measured, group_roles, group_counted, standard)
        for group_roles, group_counted in zip(roles, counted, strict=True)
    )


def _psi(scores: Scores, roles: Tensor, counted: Tensor | None, config: AugmentConfig) -> Tensor:
    if scores.is_standard:
        return config.alpha * scores.values
    if scores.known is not None:
        roles = roles.masked_fill(~scores.known, Role.SPECIAL)
        counted = None if counted is None else counted & scores.known
    return normalize_scores(
        scores.values, roles, alpha=config.alpha, normalize=config.normalize, counted=counted
    )


def _counted(
    stream: Stream, batch: Batch, roles: list[Tensor], config: AugmentConfig
) -> list[Tensor | None]:
    """Return for each group which tokens enter its statistics; None for its own tokens alone."""
    if not config.statistics_specials:
        return [None] * len(roles)
    present = stream.present(batch)
    return [
        # Specials of the stream belong to all groups, ordinary tokens to one.
        present & (own.ne(Role.SPECIAL) | torch.stack(roles).eq(Role.SPECIAL).all(dim=0))
        for own in roles
    ]


def ramped(probability: float, update: int, *, ramp: float) -> float:
    """Return a replacement probability on its way up (Takase & Kiyono).

    A token is kept with probability max(1 - p, k / (k + exp(u / k))).

    Args:
        probability: p, which is reached in the end.
        update: u, the number of updates made.
        ramp: k, the slowness of the rise.
    """
    # The complement of the second term, in a form that cannot overflow.
    return min(probability, 1 / (1 + ramp * math.exp(-update / ramp)))


def settings_at(config: AugmentConfig, update: int) -> AugmentConfig:
    """Return the augmentation as it is at an update.

    Before `joint_update` the perturbed view is learned from alone, and its NLL carries the weight
    of both. With `ramp` the initial probabilities are still on their way up, and α is with
    `alpha_updates`.
    """
    if update < config.joint_update:
        weight = config.weight_original + config.weight_perturbed
        config = replace(config, weight_original=0.0, weight_perturbed=weight, weight_agreement=0.0)
    if update < config.alpha_updates:
        config = replace(config, alpha=config.alpha * update / config.alpha_updates)
    if config.ramp is not None:
        config = replace(
            config,
            p_context=ramped(config.p_context, update, ramp=config.ramp),
            p_current=ramped(config.p_current, update, ramp=config.ramp),
        )
    return config
