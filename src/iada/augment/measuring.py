"""Importance and replacement probability of every token of given windows, dropout off.

What training draws from, for a look from outside: the same measures, statistics and rules, on
windows that are not trained on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from iada.augment.importance import present_tokens, separate_importance
from iada.augment.selection import configured_probability, spread, standardize
from iada.config.augment import AugmentConfig
from iada.data.batching import TokenBatchSampler
from iada.data.collate import Batch, Collator, to_device
from iada.data.windows import Windows
from iada.models.observation import Observer
from iada.seeding import generator as seeded_generator


@dataclass(frozen=True)
class MeasuredStream:
    """The tokens of one side of a batch; every tensor is (rows, length)."""

    ids: Tensor
    roles: Tensor
    importance: Tensor
    """φ, in the measure's own unit; 0 for the measures `uniform` and `random`."""
    z: Tensor
    """Standard deviations above the mean of the row; 0 on special tokens."""
    probability: Tensor
    """Probability that augmentation replaces the token; 0 on special tokens."""


@dataclass(frozen=True)
class MeasuredBatch:
    """Some windows, measured."""

    numbers: tuple[int, ...]
    """Which windows the rows are."""
    source: MeasuredStream
    target: MeasuredStream


def measure_windows(
    model: nn.Module,
    windows: Windows,
    config: AugmentConfig,
    *,
    max_tokens: int,
    seed: int,
) -> Iterator[MeasuredBatch]:
    """Measure all windows, in batches of like lengths.

    Args:
        model: the model to ask.
        windows: what to measure.
        config: measure, statistics, probabilities and directions.
        max_tokens: budget of a batch, padding included: rows times the longer side.
        seed: of the scores of the measure `random`.
    """
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=max_tokens, seed=seed)
    collate = Collator(windows.store.special.pad)
    device = next(model.parameters()).device
    observer = Observer(model, state_point=config.tnorm_at)
    try:
        for keys in sampler:
            batch = to_device(collate(windows.__getitems__(keys)), device)
            source, target = measure_batch(observer, batch, config, seed=seed)
            yield MeasuredBatch(tuple(number for _, number in keys), source, target)
    finally:
        observer.remove()


def measure_batch(
    observer: Observer, batch: Batch, config: AugmentConfig, *, seed: int
) -> tuple[MeasuredStream, MeasuredStream]:
    """Measure source and decoder input of one batch; arguments as in `measure_windows`."""
    ids = (batch["input_ids"], batch["decoder_input_ids"])
    roles = (batch["source_roles"], batch["target_roles"])
    counted = present_tokens(batch) if config.statistics_specials else (None, None)
    scores: Sequence[Tensor]
    if config.measure in ("tnorm", "gnorm"):
        scores = separate_importance(observer, batch, replace(config, importance_pass="separate"))
        psi = tuple(
            spread(score, role, alpha=config.alpha, normalize=config.normalize, counted=counts)
            for score, role, counts in zip(scores, roles, counted, strict=True)
        )
    else:
        scores = tuple(torch.zeros(role.shape, device=role.device) for role in roles)
        psi = scores if config.measure == "uniform" else _random(batch, roles, config, seed)
    source, target = (
        MeasuredStream(
            ids=stream_ids,
            roles=stream_roles,
            importance=score,
            z=standardize(score, stream_roles, alpha=1.0, counted=counts),
            probability=configured_probability(stream_psi, stream_roles, config),
        )
        for stream_ids, stream_roles, score, stream_psi, counts in zip(
            ids, roles, scores, psi, counted, strict=True
        )
    )
    return source, target


def _random(
    batch: Batch, roles: tuple[Tensor, Tensor], config: AugmentConfig, seed: int
) -> tuple[Tensor, ...]:
    device = roles[0].device
    generator = seeded_generator(seed, "random_scores", *batch["noise_key"], device=device)
    return tuple(
        config.alpha * torch.randn(role.shape, generator=generator, device=device) for role in roles
    )
