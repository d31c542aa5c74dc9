"""How long a run will take: a few updates are timed, the rest is arithmetic.

The timed updates are those of the run itself (its model, batches, method and threads) on batches
spread over an epoch, so that short and long windows count as often as they occur. Nothing is
written and no random number of the run is drawn: the estimate leaves a later training unchanged.
"""

import statistics
import time
from dataclasses import dataclass

import torch
from torch import nn

from iada.config.run import RunConfig
from iada.data.windows.batch import Collator, to_device
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Vocabulary
from iada.models.build import build_model
from iada.runs.corpus import Corpus
from iada.runs.environment import fastest_precision


@dataclass(frozen=True)
class Estimate:
    """What a run will take on this machine."""

    seconds_per_update: float
    seconds_per_validation: float
    updates: int
    """Updates at most; early stopping may end the run before."""
    validations: int

    @property
    def seconds(self) -> float:
        """Training and validation together, to the last update."""
        training = self.updates * self.seconds_per_update
        return training + self.validations * self.seconds_per_validation

    def describe(self) -> str:
        """Return one line for a plan."""
        return (
            f"{duration(self.seconds)} for {self.updates:,} updates "
            f"({self.seconds_per_update:.2g} s each, {self.seconds_per_validation:.2g} s per "
            "validation); less if it stops early"
        )


def estimate_time(config: RunConfig, corpus: Corpus, *, timed_updates: int = 6) -> Estimate:
    """Time a few micro-batches of a run and extrapolate.

    Args:
        config: the run.
        corpus: its data.
        timed_updates: number of micro-batches to time; one more goes before them unmeasured.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    try:
        with torch.random.fork_rng():
            return _timed(config, corpus, timed_updates, device)
    finally:
        torch.set_num_threads(threads)


def duration(seconds: float) -> str:
    """Write a duration in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _timed(config: RunConfig, corpus: Corpus, timed_updates: int, device: torch.device) -> Estimate:
    special = corpus.subwords.special
    model: nn.Module = build_model(
        config.model, vocabulary_size=len(corpus.subwords), special=special
    )
    model.to(device).train()
    precision = config.train.precision
    if precision == "auto":
        precision = fastest_precision(config.model.dim, config.model.feed_forward)
    is_lagged = config.augment.importance_pass == "lagged"
    objective = AugmentedObjective(
        model,
        config.augment,
        vocabulary=Vocabulary.of_tokenizer(corpus.subwords),
        label_smoothing=config.train.label_smoothing,
        computation=config.train.objective,
        memory=ScoreMemory(corpus.train.lengths()) if is_lagged else None,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    # Past every warm-up of the augmentation, so that both views are timed.
    late = config.train.max_updates

    def step(windows: Windows, keys: list[tuple[int, int]]) -> float:
        batch = to_device(Collator(special.pad)(windows.__getitems__(keys)), device)
        begun = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            losses = objective(batch, update=late)
        if model.training:
            torch.autograd.backward(losses.total)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    batches = _spread(corpus.train, config, timed_updates)
    step(corpus.train, batches[0])
    forward_backward = statistics.mean(step(corpus.train, keys) for keys in batches)
    begun = time.perf_counter()
    optimizer.step()
    optimizer.zero_grad()
    per_update = config.train.accumulation * forward_backward + time.perf_counter() - begun
    model.eval()
    with torch.no_grad():
        dev = [step(corpus.dev, keys) for keys in _spread(corpus.dev, config, 2)]
    dev_batches = len(_sampler(corpus.dev, config))
    return Estimate(
        seconds_per_update=per_update,
        seconds_per_validation=statistics.mean(dev) * dev_batches,
        updates=config.train.max_updates,
        validations=config.train.max_updates // config.train.validate_every,
    )


def _sampler(windows: Windows, config: RunConfig) -> TokenBatchSampler:
    return TokenBatchSampler(
        windows.planned_lengths(), max_tokens=config.train.max_tokens, seed=config.seed
    )


def _spread(windows: Windows, config: RunConfig, count: int) -> list[list[tuple[int, int]]]:
    """Return batches at even distances through an epoch; its batches are in random order."""
    batches = list(_sampler(windows, config))
    step = max(len(batches) // count, 1)
    return batches[::step][:count]
