"""Checkpoints: what is in them, and what happens to damaged ones."""

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from iada.config.run import RunConfig
from iada.errors import RunError
from iada.runs.folder import RunFolder
from iada.training.checkpoints import (
    load_state,
    random_state,
    save_state,
    set_random_state,
)
from iada.training.train import train

TinyRun = Callable[..., RunConfig]
Read = Callable[[Path], dict[str, bytes]]
PARTS = (
    "model.safetensors",
    "optimizer.safetensors",
    "optimizer.json",
    "schedule.json",
    "random_0.json",
    "random_0.safetensors",
    "trainer_state.json",
    "manifest.json",
)


def test_a_state_comes_back_as_it_was(tmp_path: Path) -> None:
    state = {
        "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.tensor([[1.5, -0.1]])}, 1: {}},
        "param_groups": [{"lr": 0.1 + 0.2, "betas": (0.9, 0.98), "params": [0, 1], "fused": True}],
        "array": np.array([4294967295, 7], dtype=np.uint32),
        "nothing": None,
        # Not mistaken for one of our own marks.
        "tensor": {"tensor": "x"},
    }
    save_state(tmp_path, "optimizer", state)
    loaded = load_state(tmp_path, "optimizer")
    assert loaded["state"][0]["step"].equal(torch.tensor(3.0))
    assert loaded["state"][0]["exp_avg"].equal(torch.tensor([[1.5, -0.1]]))
    assert loaded["state"][1] == {}
    assert loaded["param_groups"] == state["param_groups"]
    assert isinstance(loaded["param_groups"][0]["betas"], tuple)
    assert loaded["array"].dtype == np.uint32
    assert loaded["array"].tolist() == [4294967295, 7]
    assert loaded["nothing"] is None
    assert loaded["tensor"] == {"tensor": "x"}


def test_what_is_neither_tensor_nor_plain_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a checkpoint cannot hold set at /held"):
        save_state(tmp_path, "state", {"held": {1}})


def test_random_numbers_continue_where_they_were(tmp_path: Path) -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(()))]

    np.random.standard_normal()  # leaves a second number for the next call
    save_state(tmp_path, "random_0", random_state())
    first = [draw(), np.random.standard_normal()]
    set_random_state(load_state(tmp_path, "random_0"))
    assert [draw(), np.random.standard_normal()] == first


def test_a_checkpoint_holds_safetensors_and_json_alone_and_vouches_for_all_of_it(
    tiny_run: TinyRun,
) -> None:
    folder = train(tiny_run(max_updates=2))
    checkpoint = folder.checkpoints / "checkpoint-2"
    names = {path.name for path in checkpoint.iterdir()}
    assert names >= {*PARTS}
    assert {path.suffix for path in folder.path.rglob("*.*") if path.is_file()} == {
        ".json",
        ".jsonl",
        ".md",
        ".safetensors",
        ".yaml",
    }
    manifest = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["files"].keys() == names - {"manifest.json"}


def test_a_run_folder_is_never_unpickled(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tiny_run(max_updates=2))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr("torch.load", refuse)
    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.Unpickler", refuse)
    checkpoint = train(tiny_run(max_updates=4), resume=True).last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.update == 4


@pytest.mark.parametrize("limit", [1, 2])
def test_the_newest_and_the_best_checkpoint_are_always_kept(
    tiny_run: TinyRun, best_at: Callable[[int], None], limit: int
) -> None:
    best_at(2)
    folder = train(tiny_run(keep_checkpoints=limit))
    kept = {path.name for path in folder.checkpoints.iterdir()}
    assert kept == {"checkpoint-2", "checkpoint-6"}


@pytest.fixture(scope="module")
def finished(mini_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> RunConfig:
    """A run of six updates with a checkpoint at every second one."""
    from dataclasses import replace

    from iada.config.data import SubwordConfig
    from iada.config.model import ModelConfig
    from iada.config.run import mini_run

    output = tmp_path_factory.mktemp("finished") / "run"
    config = mini_run("doc2doc", corpus=mini_corpus, output=output, updates=6)
    config = replace(
        config,
        subwords=SubwordConfig(vocabulary_size=450),
        model=ModelConfig(
            dim=16, feed_forward=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.1
        ),
        train=replace(config.train, validate_every=2, log_every=1, keep_checkpoints=5),
    )
    train(config)
    return config


@pytest.fixture
def unfinished(finished: RunConfig, tmp_path: Path) -> RunConfig:
    """A copy of it as it was before its model was exported."""
    from dataclasses import replace

    shutil.copytree(finished.output, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    return replace(finished, output=tmp_path / "run")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def _remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [_empty, _halve, _flip_a_bit, _remove])
@pytest.mark.parametrize("part", PARTS)
def test_any_damage_to_the_newest_checkpoint_is_noticed(
    unfinished: RunConfig,
    part: str,
    damage: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = RunFolder(unfinished.output)
    damage(folder.checkpoints / "checkpoint-6" / part)
    if part == "manifest.json" and damage is _flip_a_bit:
        # Wherever the bit is: no JSON, no file of that name, or another checksum.
        part = ""
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.path.name == "checkpoint-4"
    (message,) = caplog.messages
    assert message.startswith(f"Damaged: checkpoint-6 ({part}")
    assert message.endswith("Using checkpoint-4 instead.")


def test_a_run_with_a_damaged_checkpoint_ends_like_any_other(
    unfinished: RunConfig, finished: RunConfig, read_folder: Read
) -> None:
    _halve(unfinished.output / "checkpoints" / "checkpoint-6" / "optimizer.safetensors")
    folder = train(unfinished, resume=True)
    assert read_folder(folder.model) == read_folder(finished.output / "model")


def test_a_checkpoint_whose_best_one_is_damaged_is_not_used(
    unfinished: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder(unfinished.output)
    for update in (4, 6):
        # As if update 4 had been the best: update 6 then needs it for the end of the run.
        path = folder.checkpoints / f"checkpoint-{update}" / "trainer_state.json"
        state = json.loads(path.read_text(encoding="utf-8")) | {"best_global_step": 4}
        path.write_text(json.dumps(state), encoding="utf-8")
        from iada.runs.folder import write_manifest

        write_manifest(path.parent)
    _flip_a_bit(folder.checkpoints / "checkpoint-4" / "model.safetensors")
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.path.name == "checkpoint-2"
    assert "checkpoint-6 (its best checkpoint is checkpoint-4: model.safetensors has" in caplog.text


def test_without_a_complete_checkpoint_a_run_is_not_silently_begun_again(
    unfinished: RunConfig, read_folder: Read
) -> None:
    folder = RunFolder(unfinished.output)
    for path in folder.checkpoints.iterdir():
        _remove(path / "schedule.json")
    before = read_folder(folder.path)
    expected = r"holds no complete checkpoint: checkpoint-6 \(schedule.json is missing\); checkpoin"
    with pytest.raises(RunError, match=expected):
        train(unfinished, resume=True)
    assert read_folder(folder.path) == before


def test_as_the_message_says_removing_the_checkpoints_begins_again(
    unfinished: RunConfig, finished: RunConfig, read_folder: Read
) -> None:
    shutil.rmtree(unfinished.output / "checkpoints")
    folder = train(unfinished, resume=True)
    assert read_folder(folder.model) == read_folder(finished.output / "model")


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"global_step": "x"}', "null"])
def test_a_trainer_state_that_says_nothing_is_damage(unfinished: RunConfig, content: str) -> None:
    from iada.runs.folder import write_manifest

    folder = RunFolder(unfinished.output)
    newest = folder.checkpoints / "checkpoint-6"
    (newest / "trainer_state.json").write_text(content, encoding="utf-8")
    write_manifest(newest)
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.path.name == "checkpoint-4"


def test_what_an_interrupted_checkpoint_leaves_is_removed_on_resume(unfinished: RunConfig) -> None:
    folder = RunFolder(unfinished.output)
    shutil.rmtree(folder.checkpoints / "checkpoint-6")
    for name in (".checkpoint-6.staged", ".checkpoint-2.removed"):
        (folder.checkpoints / name).mkdir()
        (folder.checkpoints / name / "model.safetensors").touch()
    train(unfinished, resume=True)
    names = {path.name for path in folder.checkpoints.iterdir()}
    assert names == {"checkpoint-2", "checkpoint-4", "checkpoint-6"}


def test_resuming_names_the_checkpoint(
    unfinished: RunConfig, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(unfinished.output / "checkpoints" / "checkpoint-6")
    with caplog.at_level(logging.INFO, logger="iada"):
        train(unfinished, resume=True)
    assert caplog.messages[0] == f"Resuming {unfinished.output} from checkpoint-4."
