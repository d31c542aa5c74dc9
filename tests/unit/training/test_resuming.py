"""What `--resume` does to a run that is finished, was changed, or is damaged."""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from iada.config.method import augmentation
from iada.config.run import RunConfig
from iada.errors import RunError
from iada.method.lagged import ScoreMemory
from iada.runs.environment import environment, find_changes
from iada.runs.folder import RunFolder, write_manifest
from iada.training.train import make_trainer, train
from iada.training.trainer import IadaTrainer

TinyRun = Callable[..., RunConfig]
Read = Callable[[Path], dict[str, bytes]]
BestAt = Callable[[int], None]


class Killed(BaseException):
    """Stands for the end of the process."""


def _updates(folder: RunFolder, key: str = "dev_nll") -> list[int]:
    lines = folder.metrics_file.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["update"] for line in lines if key in json.loads(line)]


def _train_and_die_at(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, name: str, *, resume: bool = False
) -> RunFolder:
    """Train until a function is called."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(name, die)
        with pytest.raises(Killed):
            train(config, resume=resume)
    return RunFolder(config.output)


def test_resuming_a_run_at_its_last_update_changes_nothing(
    tiny_run: TinyRun, read_folder: Read, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny_run()
    folder = train(config)
    before = read_folder(folder.path)
    with caplog.at_level(logging.INFO, logger="iada"):
        train(config, resume=True)
    assert caplog.messages == [f"{folder.path} is finished after 6 updates."]
    assert read_folder(folder.path) == before


def test_resuming_a_run_that_was_stopped_early_changes_nothing(
    tiny_run: TinyRun, read_folder: Read
) -> None:
    # Nothing is ever 100 nats better: the first validation is the best, one more is allowed.
    config = tiny_run(patience=1, min_delta=100.0)
    folder = train(config)
    assert _updates(folder) == [2, 4]
    before = read_folder(folder.path)
    train(config, resume=True)
    assert read_folder(folder.path) == before


def test_a_run_killed_before_the_export_gets_the_model_of_an_uninterrupted_one(
    tiny_run: TinyRun,
    read_folder: Read,
    best_at: BestAt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    best_at(4)
    straight = train(tiny_run("straight", max_updates=8))
    config = tiny_run("killed", max_updates=8)
    killed = _train_and_die_at(config, monkeypatch, "iada.training.train.save_model")
    assert not killed.model.exists()
    metrics = killed.metrics_file.read_bytes()
    with caplog.at_level(logging.INFO, logger="iada"):
        train(config, resume=True)
    checkpoint = killed.last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.update == 8
    finished = f"{killed.path} is finished after 8 updates; its model is that of checkpoint-4."
    assert caplog.messages == [finished, f"Model saved in {killed.model}"]
    assert read_folder(killed.model) == read_folder(straight.model)
    assert killed.metrics_file.read_bytes() == metrics


def test_the_model_of_a_run_is_its_best_checkpoint_not_its_last(
    tiny_run: TinyRun, best_at: BestAt
) -> None:
    best_at(4)
    folder = train(tiny_run(max_updates=8))
    weights = (folder.model / "model.safetensors").read_bytes()
    for update in (2, 4, 6, 8):
        saved = folder.checkpoints / f"checkpoint-{update}" / "model.safetensors"
        assert (saved.read_bytes() == weights) == (update == 4)


def test_a_finished_run_can_be_extended(tiny_run: TinyRun, read_folder: Read) -> None:
    straight = train(tiny_run("straight"))
    short = train(tiny_run("short", max_updates=4))
    train(tiny_run("short", max_updates=6), resume=True)
    assert read_folder(short.model) == read_folder(straight.model)


def test_an_extension_killed_before_the_export_replaces_the_older_model(
    tiny_run: TinyRun, read_folder: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = train(tiny_run("straight"))
    train(tiny_run("short", max_updates=4))
    longer = tiny_run("short", max_updates=6)
    killed = _train_and_die_at(longer, monkeypatch, "iada.training.train.save_model", resume=True)
    assert read_folder(killed.model) != read_folder(straight.model)
    train(longer, resume=True)
    assert read_folder(killed.model) == read_folder(straight.model)


def test_a_finished_run_without_checkpoints_is_not_trained_again(
    tiny_run: TinyRun, read_folder: Read, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny_run(max_updates=2)
    folder = train(config)
    shutil.rmtree(folder.checkpoints)
    before = read_folder(folder.path)
    with caplog.at_level(logging.INFO, logger="iada"):
        train(config, resume=True)
    assert caplog.messages == [
        f"{folder.path} is finished and has no checkpoints to continue from."
    ]
    assert read_folder(folder.path) == before


def test_patience_given_on_resume_takes_effect_and_its_counter_goes_on(tiny_run: TinyRun) -> None:
    # Validations 4 and 6 are no better than that of update 2.
    folder = train(tiny_run(min_delta=100.0, patience=9))
    assert _updates(folder) == [2, 4, 6]
    # The counter stands at 2, so the third fruitless validation is the last.
    train(tiny_run(min_delta=100.0, patience=3, max_updates=12), resume=True)
    assert _updates(folder) == [2, 4, 6, 8]


def test_the_counter_runs_even_before_there_is_a_limit(tiny_run: TinyRun) -> None:
    folder = train(tiny_run(min_delta=100.0, patience=0))
    train(tiny_run(min_delta=100.0, patience=3, max_updates=12), resume=True)
    assert _updates(folder) == [2, 4, 6, 8]


def test_min_delta_given_on_resume_takes_effect(tiny_run: TinyRun) -> None:
    folder = train(tiny_run(patience=1, max_updates=2))
    # Better by less than 100 nats no longer counts as better.
    train(tiny_run(patience=1, min_delta=100.0, max_updates=12), resume=True)
    assert _updates(folder) == [2, 4]


def test_more_patience_continues_a_run_that_was_stopped(tiny_run: TinyRun) -> None:
    folder = train(tiny_run(min_delta=100.0, patience=1))
    assert _updates(folder) == [2, 4]
    train(tiny_run(min_delta=100.0, patience=2), resume=True)
    assert _updates(folder) == [2, 4, 6]


def test_a_moved_run_still_knows_its_best_checkpoint(
    tiny_run: TinyRun, best_at: BestAt, tmp_path: Path
) -> None:
    best_at(2)
    config = tiny_run()
    folder = train(config)
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    assert checkpoint.best != checkpoint.path
    weights = (folder.model / "model.safetensors").read_bytes()
    folder.path.rename(tmp_path / "moved")
    moved = replace(config, output=tmp_path / "moved")
    shutil.rmtree(moved.output / "model")
    train(moved, resume=True)
    assert (moved.output / "model" / "model.safetensors").read_bytes() == weights
    # Two updates later the best checkpoint is still the one from before the move.
    train(replace(moved, train=replace(moved.train, max_updates=8)), resume=True)
    assert (moved.output / "model" / "model.safetensors").read_bytes() == weights


# What was changed since the run began.


def _change_corpus(config: RunConfig, tmp_path: Path) -> RunConfig:
    copy = tmp_path / "corpus"
    shutil.copytree(config.data.folder, copy)
    with (copy / "train.en").open("r+", encoding="utf-8") as file:
        text = file.read()
        file.seek(0)
        file.write(text.upper())
    return replace(config, data=replace(config.data, folder=copy))


def test_a_changed_corpus_is_named_and_refused(tiny_run: TinyRun, tmp_path: Path) -> None:
    config = tiny_run(max_updates=2)
    folder = train(config)
    before = folder.config_file.read_bytes()
    longer = _change_corpus(tiny_run(max_updates=4), tmp_path)
    expected = (
        r"would not continue as it began\. sha256 of the train files: was .*`--accept_changes`"
    )
    with pytest.raises(RunError, match=expected):
        train(longer, resume=True)
    assert folder.config_file.read_bytes() == before
    assert _updates(folder) == [2]


def test_accepted_changes_are_recorded(
    tiny_run: TinyRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = train(tiny_run(max_updates=2))
    longer = _change_corpus(tiny_run(max_updates=4), tmp_path)
    train(longer, resume=True, accept_changes=True)
    assert _updates(folder) == [2, 4]
    (change,) = folder.environment()["resumed"]
    assert change["update"] == 2
    assert change["changed"][0].startswith("sha256 of the train files: was ")
    assert change["changed"][0] in caplog.text


def test_another_number_of_threads_is_refused(tiny_run: TinyRun) -> None:
    train(tiny_run(max_updates=2, threads=1))
    with pytest.raises(RunError, match=r"CPU threads: was 1, is 2\."):
        train(tiny_run(max_updates=4, threads=2), resume=True)


def test_versions_processes_and_data_are_compared() -> None:
    data = {"files": {"train": ["a" * 64], "dev": ["b" * 64], "test": ["c" * 64]}, "documents": 3}
    saved = environment() | {"processes": 1, "data": data}
    assert find_changes(saved, saved) == []
    packages = saved["packages"]
    assert isinstance(packages, dict)
    other = {
        **saved,
        "packages": packages | {"iada": "9.0", "torch": "9.1", "sacrebleu": "9.2"},
        "processes": 2,
        # The test split is not trained on.
        "data": {"files": data["files"] | {"dev": ["d" * 64], "test": ["e" * 64]}, "documents": 4},
    }
    assert find_changes(saved, other) == [
        f"iada version: was {packages['iada']}, is 9.0",
        f"torch version: was {packages['torch']}, is 9.1",
        "processes: was 1, is 2",
        "sha256 of the dev files: was bbbbbbbbbbbb, is dddddddddddd",
        "training documents: was 3, is 4",
    ]


def test_a_run_of_a_newer_format_is_refused(tiny_run: TinyRun) -> None:
    config = tiny_run(max_updates=2)
    folder = train(config)
    record = folder.environment()
    assert record["format"] == 1
    folder.environment_file.write_text(json.dumps(record | {"format": 2}), encoding="utf-8")
    with pytest.raises(RunError, match="has format 2; this version of iada reads formats up to 1"):
        folder.config()


# Beginning, and not beginning twice.


def test_a_run_killed_before_its_configuration_was_written_can_begin_again(
    tiny_run: TinyRun, read_folder: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = train(tiny_run("straight", max_updates=2))
    config = tiny_run("killed", max_updates=2)
    killed = _train_and_die_at(config, monkeypatch, "iada.runs.folder.write_yaml")
    assert {path.name for path in killed.path.iterdir()} == {"environment.json", "tokenizer"}
    # What other processes may have left that were killed at other places.
    (killed.path / ".config.yaml.123").write_text("cut", encoding="utf-8")
    (killed.path / ".tokenizer.replaced").mkdir()
    train(config)
    assert read_folder(killed.model) == read_folder(straight.model)
    assert not list(killed.path.glob(".*"))


def test_a_folder_with_other_files_is_refused_and_left_alone(
    tiny_run: TinyRun, read_folder: Read
) -> None:
    config = tiny_run()
    config.output.mkdir()
    (config.output / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match=r"already holds files\. Choose another `--output`"):
        train(config)
    assert read_folder(config.output) == {"thesis.tex": b"mine"}


def test_a_run_that_cannot_begin_leaves_no_folder(tiny_run: TinyRun, tmp_path: Path) -> None:
    config = tiny_run()
    with pytest.raises(Exception, match="nowhere"):
        train(replace(config, data=replace(config.data, folder=tmp_path / "nowhere")))
    assert not config.output.exists()


def test_a_second_process_cannot_train_in_the_same_folder(tiny_run: TinyRun) -> None:
    config = tiny_run(max_updates=2)
    folder = train(config)
    for again in (False, True):
        with (
            folder.lock("training in"),
            pytest.raises(RunError, match=rf"Another process.* is training in {folder.path}\."),
        ):
            train(config, resume=again)


# Using a run before its end.


def test_the_best_checkpoint_stands_in_for_an_unfinished_model(
    tiny_run: TinyRun,
    best_at: BestAt,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from iada.decoding.translator import DocumentTranslator

    best_at(4)
    config = tiny_run(max_updates=8)
    folder = _train_and_die_at(config, monkeypatch, "iada.training.train.save_model")
    with pytest.raises(RunError, match="holds no finished model"):
        folder.trained_model()
    checkpoint = folder.last_checkpoint()
    assert checkpoint is not None
    assert folder.best_model() == checkpoint.best
    assert f"not finished: using its best checkpoint so far, {checkpoint.best.name}" in caplog.text
    weights = load_file(checkpoint.best / "model.safetensors")["model.shared.weight"]
    translator = DocumentTranslator.load(folder.path)
    assert translator.model.get_input_embeddings().weight.equal(weights)
    train(config, resume=True)
    assert folder.best_model() == folder.model


def test_without_a_checkpoint_there_is_no_model(tiny_run: TinyRun) -> None:
    config = tiny_run()
    folder = RunFolder(config.output)
    folder.begin(config, {})
    with pytest.raises(RunError, match="holds no finished model"):
        folder.best_model()


def test_interrupting_a_run_tells_how_to_resume_it(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from iada.cli.main import main
    from iada.config.base import to_mapping, write_yaml

    config = tiny_run()
    recipe = config.output.with_name("recipe.yaml")
    write_yaml(recipe, to_mapping(config))

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(IadaTrainer, "train", interrupt)
    assert main(["train", str(recipe)]) == 130
    shown = capsys.readouterr().err.splitlines()
    assert shown[-2:] == [
        f"Continue with: iada train {config.output / 'config.yaml'} --resume",
        "interrupted",
    ]


def test_kept_importance_is_found_again_in_the_middle_of_an_epoch(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configure(name: str) -> RunConfig:
        augment = replace(
            augmentation("iada_replace_gnorm"),
            importance_pass="lagged",
            lagged_decay=0.5,
            # Scores decide about tokens.
            alpha=2.0,
            p_context=0.3,
            p_current=0.3,
        )
        config = tiny_run(name, max_tokens=12_000, max_updates=10, validate_every=5)
        return replace(config, method="iada_replace_gnorm", augment=augment)

    straight = train(configure("straight"))
    config = configure("killed")
    killed = _train_and_die_at(config, monkeypatch, "iada.training.train.save_model")
    shutil.rmtree(killed.checkpoints / "checkpoint-10")
    checkpoint = killed.last_checkpoint()
    assert checkpoint is not None
    # Neither the first epoch nor the end of one.
    assert checkpoint.state["epoch"] > 1.1
    assert checkpoint.state["epoch"] % 1 > 0.1
    assert {"importance.json", "importance.safetensors"} <= {
        path.name for path in checkpoint.path.iterdir()
    }
    train(config, resume=True)
    weights = [folder.model / "model.safetensors" for folder in (straight, killed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    # Without the kept scores the run ends elsewhere.
    forgetful = _train_and_die_at(configure("none"), monkeypatch, "iada.training.train.save_model")
    shutil.rmtree(forgetful.checkpoints / "checkpoint-10")
    with monkeypatch.context() as patch:
        patch.setattr(ScoreMemory, "load", lambda *_: None)
        train(configure("none"), resume=True)
    other = forgetful.model / "model.safetensors"
    assert other.read_bytes() != weights[0].read_bytes()


def test_a_checkpoint_without_kept_importance_is_not_resumed_from(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_run(max_updates=4)
    augment = replace(augmentation("iada_replace_gnorm"), importance_pass="lagged")
    config = replace(config, method="iada_replace_gnorm", augment=augment)
    folder = _train_and_die_at(config, monkeypatch, "iada.training.train.save_model")
    newest = folder.checkpoints / "checkpoint-2"
    shutil.rmtree(folder.checkpoints / "checkpoint-4")
    for name in ("importance.json", "importance.safetensors"):
        (newest / name).unlink()
    write_manifest(newest)
    with pytest.raises(RunError, match="keeps no importance scores"):
        train(config, resume=True)


def test_a_resumed_run_keeps_the_precision_that_was_chosen(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bool] = []
    make = make_trainer

    def noted(*arguments: Any) -> IadaTrainer:
        trainer = make(*arguments)
        used.append(trainer.args.bf16)
        return trainer

    monkeypatch.setattr("iada.training.train.make_trainer", noted)
    config = tiny_run(precision="auto", max_updates=4)
    probe = "iada.training.train.fastest_precision"
    monkeypatch.setattr(probe, lambda *_: "bf16")
    folder = _train_and_die_at(config, monkeypatch, "iada.training.train.save_model")
    shutil.rmtree(folder.checkpoints / "checkpoint-4")
    assert folder.environment()["precision"] == "bf16"
    # On a machine where float32 is faster the run goes on as it began.
    monkeypatch.setattr(probe, lambda *_: "fp32")
    train(config, resume=True)
    assert used == [True, True]
    assert folder.config().train.precision == "auto"
    other = train(tiny_run("other", precision="auto", max_updates=2))
    assert used[2:] == [False]
    assert other.environment()["precision"] == "fp32"
