"""How long a run will take: a few updates are timed, the rest is arithmetic.

The timed updates are those of the run itself (its model, batches, method and threads) on batches
spread over an epoch, so that short and long windows count as often as they occur. Nothing is
written and no random number of the run is drawn: the estimate leaves a later training unchanged.
"""

import hashlib
import math
import statistics
import time
from dataclasses import dataclass, replace

import torch
from safetensors.torch import save
from torch import nn

from iada.config.run import RunConfig
from iada.data.windows.batch import Collator, to_device
from iada.data.windows.sampler import TokenBatchSampler
from iada.data.windows.windows import Windows
from iada.method.lagged import ScoreMemory
from iada.method.objective import AugmentedObjective
from iada.method.perturbation import Vocabulary
from iada.models.pretrained import build_shape, start_model
from iada.runs.corpus import Corpus
from iada.runs.environment import fastest_precision

_MOST_BATCHES = 40
TOO_LARGE = 20
"""Parameters per training token from which a model is far too large for its corpus."""
MANY_EPOCHS = 300
FINISH = 1.0
"""Seconds between the last validation and the end of a run, beside those that grow with the
model: its folder, card and tokenizer."""
LONG = 24 * 3600
"""Seconds from which a run on a processor is worth a word."""


@dataclass(frozen=True)
class Estimate:
    """What a run will take on this machine."""

    seconds_per_update: float
    seconds_per_validation: float
    """A pass over the validation windows, and the checkpoint that follows it."""
    updates: int
    """Updates at most; early stopping may end the run before."""
    validate_every: int
    """Updates from one validation to the next."""
    seconds_to_start: float = 0.0
    """Until the first update: programs and the corpus."""
    seconds_to_finish: float = 0.0
    """After the last validation: the best weights are loaded and the model is written."""

    @property
    def validations(self) -> int:
        """Number of validations; the last update is always validated."""
        return math.ceil(self.updates / self.validate_every)

    @property
    def seconds(self) -> float:
        """The whole run, from the command to its end."""
        training = self.updates * self.seconds_per_update
        beside = self.seconds_to_start + self.seconds_to_finish
        return beside + training + self.validations * self.seconds_per_validation

    def describe(self) -> str:
        """Return one line for a plan."""
        return (
            f"{duration(self.seconds)} for {self.updates:,} updates "
            f"({self.seconds_per_update:.2g} s each, {self.seconds_per_validation:.2g} s per "
            "validation); less if it stops early"
        )


def estimate_time(
    config: RunConfig, corpus: Corpus, *, seconds: float = 3.0, to_start: float = 0.0
) -> Estimate:
    """Time micro-batches of a run and extrapolate.

    Args:
        config: the run.
        corpus: its data.
        seconds: how long to time updates, after one that is not measured; at least two are.
        to_start: how long it took to get here, which a run will need as well.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    threads = torch.get_num_threads()
    if config.train.threads:
        torch.set_num_threads(config.train.threads)
    try:
        with torch.random.fork_rng():
            return replace(_timed(config, corpus, seconds, device), seconds_to_start=to_start)
    finally:
        torch.set_num_threads(threads)


def mismatches(config: RunConfig, corpus: Corpus, estimate: Estimate | None = None) -> list[str]:
    """Say where model, data and hardware do not fit each other; nothing if they do."""
    found = []
    tokens = corpus.train.loss_tokens()
    model = trainable_parameters(config, corpus)
    if config.model.pretrained is None and model > TOO_LARGE * tokens:
        found.append(
            f"The model has {model:,} parameters for {tokens:,} training tokens, so it will learn "
            "them by heart. `iada init` writes a recipe that fits the corpus; from less than a few "
            "thousand sentence pairs no model learns to translate."
        )
    epoch = len(_sampler(corpus.train, config)) / config.train.accumulation
    epochs = config.train.max_updates / max(epoch, 1)
    if epochs > MANY_EPOCHS:
        found.append(
            f"`train.max_updates: {config.train.max_updates}` are {epochs:,.0f} passes over the "
            "corpus. A smaller number is enough, or let `train.patience` end the run."
        )
    if estimate is not None and not torch.cuda.is_available() and estimate.seconds > LONG:
        found.append(
            f"On this processor the run takes {duration(estimate.seconds)}. A smaller model or "
            "fewer updates take less; `iada init FOLDER --minutes 30` chooses them."
        )
    return found


def trainable_parameters(config: RunConfig, corpus: Corpus) -> int:
    """Return the number of trainable parameters of a run, without building them."""
    with torch.device("meta"):
        model = build_shape(config, corpus.subwords)
    return sum(one.numel() for one in model.parameters() if one.requires_grad)


def duration(seconds: float) -> str:
    """Write a duration in the unit that people would use."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def _timed(config: RunConfig, corpus: Corpus, seconds: float, device: torch.device) -> Estimate:
    collate = Collator(corpus.subwords.special.pad, config.train.length_multiple)
    model: nn.Module = start_model(config, corpus.subwords, None)
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
        begun = time.perf_counter()
        batch = to_device(collate(windows.__getitems__(keys)), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            losses = objective(batch, update=late)
        if model.training:
            torch.autograd.backward(losses.total)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    def update() -> float:
        begun = time.perf_counter()
        if config.train.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), config.train.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - begun

    batches = _spread(corpus.train, config, _MOST_BATCHES)
    # The first ones allocate memory and the states of the optimiser.
    step(corpus.train, batches[0])
    update()
    steps, updates = [], []
    for keys in batches:
        steps.append(step(corpus.train, keys))
        updates.append(update())
        if len(steps) > 1 and sum(steps) + sum(updates) > seconds:
            break
    per_update = config.train.accumulation * statistics.mean(steps) + statistics.mean(updates)
    checkpoint = _checkpoint_seconds(model)
    model.eval()
    with torch.no_grad():
        chosen = _spread(corpus.dev, config, _MOST_BATCHES // 4)
        step(corpus.dev, chosen[0])
        dev = [step(corpus.dev, keys) for keys in chosen]
    dev_batches = len(_sampler(corpus.dev, config))
    return Estimate(
        seconds_per_update=per_update,
        seconds_per_validation=statistics.mean(dev) * dev_batches + checkpoint,
        updates=config.train.max_updates,
        validate_every=config.train.validate_every,
        # Read, loaded and written once more.
        seconds_to_finish=FINISH + checkpoint,
    )


def _checkpoint_seconds(model: nn.Module) -> float:
    """Time what a checkpoint takes without the disk: tensors to bytes and their checksum.

    The weights and the two moments of the optimiser are three times the model.
    """
    tensors = {name: one.detach().cpu().contiguous() for name, one in model.named_parameters()}
    begun = time.perf_counter()
    hashlib.sha256(save(tensors)).digest()
    return 3 * (time.perf_counter() - begun)


def _sampler(windows: Windows, config: RunConfig) -> TokenBatchSampler:
    return TokenBatchSampler(
        windows.planned_lengths(),
        max_tokens=config.train.max_tokens,
        seed=config.seed,
        length_multiple=config.train.length_multiple,
    )


def _spread(windows: Windows, config: RunConfig, count: int) -> list[list[tuple[int, int]]]:
    """Return batches at even distances through an epoch; its batches are in random order."""
    batches = list(_sampler(windows, config))
    step = max(len(batches) // count, 1)
    return batches[::step][:count]
