"""Measure windows outside training, with dropout off: what training would draw from.

For windows that are inspected, copied or counted. The measures themselves are in
`iada.method.importance`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from iada.config.method import AugmentConfig
from iada.data.windows.batch import Batch, Collator, to_device
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.importance import measure_tokens
from iada.method.selection import group_probabilities, group_z_scores
from iada.models.observation import Observer, tensors


@dataclass(frozen=True)
class MeasuredGroup:
    """The tokens of one side of a batch; every tensor is (rows, length of its stream)."""

    ids: Tensor
    roles: Tensor
    """SPECIAL on tokens of other groups of the stream."""
    importance: Tensor
    """φ, in the measure's own unit."""
    z: Tensor
    """Standard deviations above the mean of the row; 0 on special tokens."""
    probability: Tensor
    """Probability that augmentation replaces the token; 0 on special tokens."""
    known: Tensor | None = None
    """Whether the measure scores the token; None if it scores all."""


@dataclass(frozen=True)
class MeasuredBatch:
    """Some windows, measured."""

    numbers: tuple[int, ...]
    """Which windows the rows are."""
    groups: dict[str, MeasuredGroup]
    """By side: `source` and `target`, whatever the streams of the model."""


def measure_windows(
    model: nn.Module,
    windows: Windows,
    config: AugmentConfig,
    *,
    max_tokens: int,
    seed: int,
    word_starts: Tensor | None = None,
) -> Iterator[MeasuredBatch]:
    """Measure all windows, in batches of like lengths.

    Args:
        model: the model to ask.
        windows: what to measure.
        config: measure, statistics, probabilities and directions.
        max_tokens: budget of a batch, padding included: rows times the longer side.
        seed: of the scores of the measure `random`.
        word_starts: see `measure_tokens`.
    """
    sampler = TokenBatchSampler(windows.lengths(), max_tokens=max_tokens, seed=seed)
    collate = Collator(windows.store.special.pad)
    device = next(model.parameters()).device
    observer = Observer(model, state_point=config.tnorm_at)
    try:
        for keys in sampler:
            batch = to_device(collate(windows.__getitems__(keys)), device)
            groups = measure_batch(observer, batch, config, seed=seed, word_starts=word_starts)
            yield MeasuredBatch(tuple(number for _, number in keys), groups)
    finally:
        observer.remove()


def measure_batch(
    observer: Observer,
    batch: Batch,
    config: AugmentConfig,
    *,
    seed: int,
    word_starts: Tensor | None = None,
) -> dict[str, MeasuredGroup]:
    """Measure the tokens of both sides of one batch; arguments as in `measure_windows`."""
    measured: dict[str, MeasuredGroup] = {}
    values = tensors(batch)
    scores = measure_tokens(observer, batch, config, seed=seed, word_starts=word_starts)
    for stream, found in zip(observer.streams, scores, strict=True):
        z_scores = group_z_scores(found, stream, batch, config)
        probabilities = group_probabilities(found, stream, batch, config)
        for group, z, probability in zip(stream.groups, z_scores, probabilities, strict=True):
            ids, roles = values[stream.ids], values[group.roles]
            measured[group.name] = MeasuredGroup(
                ids, roles, found.values, z, probability, found.known
            )
    return measured
