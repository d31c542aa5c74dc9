"""A run that was killed and resumed ends with the very weights of one that was not."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.warm_processes import WarmProcess

from iada.config.base import to_mapping, write_yaml
from iada.config.method import Method
from iada.config.model import ModelConfig
from iada.config.run import RunConfig, mini_run
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.errors import RunError
from iada.runs.folder import RunFolder
from iada.training.train import train


def _config(folder: Path, name: str, method: Method) -> RunConfig:
    config = mini_run(method, corpus=folder / "corpus", output=folder / name)
    return replace(
        config,
        # The phases of a method that has several lie on both sides of the kill.
        augment=replace(config.augment, joint_update=min(config.augment.joint_update, 14)),
        # Dropout on: its random numbers must be found again too.
        model=ModelConfig(
            dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.3
        ),
        train=replace(
            config.train,
            max_updates=24,
            max_tokens=1024,
            validate_every=4,
            accumulation=2,
            log_every=1,
            keep_checkpoints=10,
            patience=5,
        ),
    )


def _train_until_killed(config: RunConfig, recipe: Path) -> None:
    write_yaml(recipe, to_mapping(config))
    process = WarmProcess(["-m", "iada", "train", str(recipe)])
    checkpoint = config.output / "checkpoints" / "checkpoint-8" / "trainer_state.json"
    deadline = time.monotonic() + 120
    while not checkpoint.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"no checkpoint: {process.communicate(0)[1].decode()[-2000:]}")
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize(
    "method",
    [
        "iada_replace_gnorm",
        pytest.param("bpe_dropout", marks=pytest.mark.slow),
        pytest.param("cipher", marks=pytest.mark.slow),
    ],
)
def test_a_killed_and_resumed_run_is_bit_identical(tmp_path: Path, method: Method) -> None:
    write_mini_corpus(
        tmp_path / "corpus",
        MiniConfig(train_documents=24, dev_documents=4, test_documents=2, contrastive_per_cell=1),
    )
    straight = train(_config(tmp_path, "straight", method))
    config = _config(tmp_path, "killed", method)
    _train_until_killed(config, tmp_path / "recipe.yaml")
    killed = RunFolder(config.output)
    assert not killed.model.exists()
    with pytest.raises(RunError, match="holds no finished model"):
        killed.trained_model()
    # What a kill in the middle of saving leaves behind is not taken for a checkpoint.
    broken = killed.checkpoints / "checkpoint-99"
    broken.mkdir()
    (broken / "trainer_state.json").write_text('{"global_step":', encoding="utf-8")

    with pytest.raises(RunError, match=r"seed: saved 1, given 2.*another `--output`"):
        train(replace(config, seed=2), resume=True)
    train(config, resume=True)

    weights = [f.model / "model.safetensors" for f in (straight, killed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    metrics = [_metrics(f) for f in (straight, killed)]
    assert metrics[0] == metrics[1]
    # 24 updates of two micro-batches: several epochs, resumed within one.
    assert metrics[0][-1]["epoch"] > 1.5


def _metrics(folder: RunFolder) -> list[dict[str, float]]:
    lines = folder.metrics_file.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        del record["seconds"]
    return records
