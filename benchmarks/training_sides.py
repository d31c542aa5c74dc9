"""A process that makes updates on a prepared corpus, through the trainer or bare; see `trainer`."""

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from protocol import serve
from transformers import TrainerCallback

from iada.config.data import DataConfig
from iada.config.run import RunConfig, load_run_config
from iada.data.windows.batch import Batch
from iada.models.build import build_model
from iada.runs.corpus import load_corpus
from iada.runs.environment import keep_freed_memory
from iada.runs.folder import RunFolder
from iada.training.train import make_trainer
from iada.training.trainer import IadaTrainer


def main(request: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    config = run_config(request)
    corpus = load_corpus(config)
    model = build_model(
        config.model, vocabulary_size=len(corpus.subwords), special=corpus.subwords.special
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(config, corpus, model, RunFolder(Path(folder)))
        if request["side"] == "bare":
            batches = first_batches(trainer, config, request["updates"])
            serve(bare_update(trainer, config, batches))
        else:
            serve(trainer_update(trainer))


def run_config(request: dict[str, Any]) -> RunConfig:
    """Return the recipe on the prepared corpus, without validation in the updates measured."""
    config = load_run_config(Path(request["recipe"]), method=request["method"])
    # One more update than is asked for: the Trainer validates and saves after its last one.
    beyond = request["updates"] + 1
    return replace(
        config,
        data=DataConfig(folder=Path(request["data"]), prepared=Path(request["prepared"])),
        train=replace(
            config.train,
            max_updates=beyond,
            validate_every=beyond,
            log_every=request["log_every"],
            threads=1,
        ),
    )


def first_batches(trainer: IadaTrainer, config: RunConfig, updates: int) -> list[list[Batch]]:
    """Return the micro-batches of each update."""
    count = config.train.accumulation
    taken = list(islice(trainer.get_train_dataloader(), updates * count))
    return [cast(list[Batch], taken[k : k + count]) for k in range(0, len(taken), count)]


def bare_update(
    trainer: IadaTrainer, config: RunConfig, batches: list[list[Batch]]
) -> Callable[[], None]:
    """Make the update's losses, gradients and optimizer step, and nothing else."""
    objective, optimizer = trainer.augmented_objective, trainer.create_optimizer()
    model = objective.model.train()
    parameters = list(model.parameters())
    remaining = iter(batches)

    def update() -> None:
        micro_batches = next(remaining)
        count = sum(int((batch["labels"] >= 0).sum()) for batch in micro_batches)
        for batch in micro_batches:
            (objective(batch).total / count).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, config.train.clip_norm)
        optimizer.step()
        optimizer.zero_grad()

    return update


def trainer_update(trainer: IadaTrainer) -> Callable[[], None]:
    """Let the trainer run in a thread, and hold it between two updates."""
    pause = _Pause()
    trainer.add_callback(pause)
    thread = threading.Thread(target=trainer.train, daemon=True)

    def update() -> None:
        if not thread.is_alive():
            thread.start()
        pause.go.release()
        pause.done.acquire()

    return update


class _Pause(TrainerCallback):
    """Wait for a permission after each update; what comes between two updates counts to the next.

    The first update needs one too.
    """

    def __init__(self) -> None:
        self.go, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.go.acquire()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.done.release()
        self.go.acquire()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
