"""A run of a second, and a place to train it again and again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iada.config.data import SubwordConfig
from iada.config.model import ModelConfig
from iada.config.run import RunConfig, mini_run
from iada.training.trainer import IadaTrainer

TINY = ModelConfig(
    dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.1
)
TinyRun = Callable[..., RunConfig]


@pytest.fixture
def tiny_run(mini_corpus: Path, tmp_path: Path) -> TinyRun:
    """Return a function from the name of a run and settings under `train` to its configuration."""

    def configure(name: str = "run", **settings: Any) -> RunConfig:
        config = mini_run("doc2doc", corpus=mini_corpus, output=tmp_path / name, updates=6)
        defaults = {"validate_every": 2, "log_every": 1, "keep_checkpoints": 5}
        return replace(
            config,
            model=TINY,
            subwords=SubwordConfig(vocabulary_size=450),
            train=replace(config.train, **(defaults | settings)),
        )

    return configure


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file under a folder, by relative name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def read_folder() -> Callable[[Path], dict[str, bytes]]:
    """Return `contents`."""
    return contents


@pytest.fixture
def best_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that makes a validation the best one of every run, whatever is learned."""

    def choose(update: int) -> None:
        def evaluate(self: IadaTrainer, *_: object, **__: object) -> dict[str, float]:
            metrics = {"eval_nll": 1.0 + abs(self.state.global_step - update)}
            self.log(dict(metrics))
            self.control = self.callback_handler.on_evaluate(
                self.args, self.state, self.control, metrics
            )
            return metrics

        monkeypatch.setattr(IadaTrainer, "evaluate", evaluate)

    return choose
