"""`iada experiment` on the command line: names, flags, and a plan that writes nothing."""

import os
import re
from pathlib import Path

import pytest

from iada.cli.experiment import parse
from iada.cli.main import main
from iada.config.experiment import ClusterConfig, ExperimentConfig
from iada.experiments.definitions import experiment_names
from iada.storage import lock_file


def test_flags_are_fields() -> None:
    line = "main losses --data r.yaml --seeds 1 2 3 --output out --jobs 2 --updates 5 --dry_run"
    assert parse(line.split()) == ExperimentConfig(
        names=("main", "losses"),
        data="r.yaml",
        seeds=(1, 2, 3),
        output=Path("out"),
        jobs=2,
        updates=5,
        dry_run=True,
    )
    there = parse(
        ["pos", "--executor", "slurm", "--cluster.partition", "long", "--cluster.gpus", "1"]
    )
    assert there.executor == "slurm"
    assert there.cluster == ClusterConfig(partition="long", gpus=1)
    more = parse(["all", "--shares", "0.5", "1", "--alphas", "0", "--contrastive", "c.json"])
    assert (more.shares, more.alphas, more.contrastive) == ((0.5, 1.0), (0.0,), Path("c.json"))


def test_an_unknown_name_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "mian", "--dry_run"]) == 2
    shown = capsys.readouterr().err
    assert "`names` has `mian`, but there is no such experiment." in shown
    assert "Did you mean `main`?" in shown


def test_a_missing_name_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--dry_run"]) == 2
    assert "`names` must be at least one experiment" in capsys.readouterr().err


def test_a_dry_run_lists_runs_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert main(["experiment", "bt_ft", "pos", f"--output={output}", "--dry_run"]) == 0
    shown = capsys.readouterr().out
    # Nine rows, the reverse run, two corpora, and WordRepl of `pos`.
    assert f"13 tasks in {output / 'mini'}, of which 0 are done; 1500 updates each:" in shown
    assert "back_translate/seed-1: open, after runs/doc2doc-reverse-" in shown
    assert "bt_ft: 9 rows, 9 runs" in shown
    assert "pos: 3 rows, 3 runs" in shown
    assert not output.exists()


def test_the_help_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "--help"]) == 0
    shown = capsys.readouterr().out
    words = set(re.findall(r"\w+", shown))
    assert {*experiment_names(), "all"} <= words


def test_a_second_command_in_the_same_folder_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iada.cli.experiment._run_all", lambda *_: pytest.fail("both went on"))
    root = tmp_path / "mini"
    root.mkdir()
    command = ["experiment", "pos", f"--output={tmp_path}"]
    with lock_file(root / ".lock", "running"):
        assert main(command) == 2
        shown = capsys.readouterr().err
        # Looking is allowed.
        assert main([*command, "--dry_run"]) == 0
    assert shown.startswith(f"error: Another process (pid {os.getpid()} on ")
    assert f"for 0 minutes) is running experiments in {root}." in shown
    assert len(shown.splitlines()) == 1
    assert not list(root.iterdir())


def test_the_lock_of_a_killed_command_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "mini"
    root.mkdir()
    (root / ".lock").write_text('{"pid": 1, "host": "gone", "since": 0.0}', encoding="utf-8")
    attempts: list[bool] = []

    def attempt(*tasks: object, **settings: object) -> tuple[()]:
        attempts.append((root / ".lock").exists())
        return ()

    monkeypatch.setattr("iada.experiments.scheduler.attempt", attempt)
    monkeypatch.setattr("iada.data.mini.write_mini_corpus", lambda folder, config: folder)
    assert main(["experiment", "pos", f"--output={tmp_path}"]) == 0
    assert attempts == [True]
    assert not (root / ".lock").exists()
