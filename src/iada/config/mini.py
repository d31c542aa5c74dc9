"""The run that the embedded mini corpus is made for: minutes on two CPU cores."""

from dataclasses import replace
from pathlib import Path

from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.methods import Method, augmentation
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import TrainConfig


def mini_run(
    method: Method,
    *,
    corpus: Path,
    output: Path,
    seed: int = 1,
    context: int = 3,
    updates: int | None = None,
) -> RunConfig:
    """Return a run of a method on the mini corpus.

    Sizes and the optimiser differ from the paper's recipe, and every sentence of a window is
    learned, not the current one alone: four times the labels in an update, without which the few
    updates leave every system that perturbs its input half trained.

    Args:
        method: the named system.
        corpus: folder of the mini corpus.
        output: run folder.
        seed: seed of the run.
        context: context sentences; 0 gives a sentence-level system.
        updates: number of updates, if not the usual one.
    """
    train = TrainConfig(
        learning_rate=3e-3,
        warmup_updates=200,
        clip_norm=1.0,
        label_smoothing=0.0,
        max_tokens=1024,
        accumulation=1,
        max_updates=1000,  # All experiments with one seed are to fit in 90 minutes.
        validate_every=200,
        patience=0,
        keep_checkpoints=1,
        log_every=25,
        threads=1,
    )
    if updates is not None:
        train = replace(train, max_updates=updates, validate_every=min(200, updates))
    return RunConfig(
        output=output,
        method=method,
        seed=seed,
        data=DataConfig(folder=corpus),
        subwords=SubwordConfig(vocabulary_size=1400),
        windows=WindowConfig(context=context, loss_on="all", max_length=128),
        model=ModelConfig(
            dim=96,
            feed_forward=192,
            heads=4,
            encoder_layers=2,
            decoder_layers=2,
            dropout=0.05,
            max_positions=256,
        ),
        augment=augmentation(method),
        train=train,
    )
