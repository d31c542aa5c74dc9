"""Run folders: what is read or refused, what a system is called and which runs are its seeds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from iada.config.base import to_mapping, write_yaml
from iada.config.data import WindowConfig
from iada.config.method import METHOD_NAMES, AugmentConfig, augmentation
from iada.config.run import RunConfig
from iada.errors import RunError
from iada.evaluation.metrics import mean_over_seeds
from iada.report.runs import METHOD_LABELS, RunSummary, group_runs, load_run, system_name

NewRun = Callable[..., RunSummary]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = RunConfig(method="doc2doc", seed=7, augment=augmentation("doc2doc"))
    write_yaml(tmp_path / "config.yaml", to_mapping(config))
    line = json.dumps({"update": 5, "seconds": 2.0, "dev_nll": 4.0})
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n", encoding="utf-8")
    (tmp_path / "scores.json").write_text('{"s_bleu": {"score": 7.5}}', encoding="utf-8")
    return tmp_path


def test_a_run_is_read_from_its_folder(folder: Path) -> None:
    run = load_run(folder)
    assert (run.name, run.method, run.seed, run.folder) == ("Doc2Doc", "doc2doc", 7, folder)
    assert run.value("dev_nll") == 4.0
    assert run.value("s_bleu") == 7.5
    assert run.value("d_bleu") is None
    assert run.accuracy("context") is None


def test_a_given_name_wins(folder: Path) -> None:
    assert load_run(folder, name="Ours").name == "Ours"


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.yaml", "is not a run folder: it has no config.yaml"),
        ("metrics.jsonl", "metrics.jsonl does not exist.*iada train"),
        ("scores.json", "scores.json does not exist.*iada evaluate"),
    ],
)
def test_a_missing_file_is_named_with_the_next_step(
    folder: Path, missing: str, message: str
) -> None:
    (folder / missing).unlink()
    with pytest.raises(RunError, match=message):
        load_run(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metrics.jsonl", '{"update": 1}\n{"upd', "metrics.jsonl:2: is not a line of metrics"),
        ("metrics.jsonl", "[]\n", "metrics.jsonl:1"),
        ("scores.json", "[1]", "scores.json does not hold scores"),
        ("scores.json", "{", "scores.json does not hold scores"),
        ("config.yaml", "method: doc2doc\n", "has no `method` or no `seed`"),
    ],
)
def test_a_broken_file_is_named(folder: Path, file: str, content: str, message: str) -> None:
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=message):
        load_run(folder)


def test_every_method_has_a_label_of_its_own() -> None:
    assert set(METHOD_LABELS) == set(METHOD_NAMES)
    assert len(set(METHOD_LABELS.values())) == len(METHOD_NAMES)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (RunConfig(), "IADA (Repl, GNorm)"),
        (RunConfig(augment=AugmentConfig(alpha=0.3)), "IADA (Repl, GNorm), α = 0.3"),
        (
            RunConfig(
                method="doc2doc", augment=augmentation("doc2doc"), windows=WindowConfig(context=0)
            ),
            "Sentence-level",
        ),
        (RunConfig(windows=WindowConfig(context=0)), "Sentence-level, IADA (Repl, GNorm)"),
    ],
)
def test_a_name_tells_the_method_and_what_was_changed(config: RunConfig, name: str) -> None:
    assert system_name(yaml.safe_load(yaml.safe_dump(to_mapping(config)))) == name


def test_runs_of_one_name_are_seeds_of_one_system(runs: list[RunSummary]) -> None:
    systems = group_runs(runs)
    assert [system.name for system in systems] == ["Doc2Doc", "IADA (Repl, GNorm)"]
    assert [run.seed for run in systems[1].runs] == [1, 2, 3]


def test_the_same_seed_does_not_count_twice(new_run: NewRun) -> None:
    with pytest.raises(RunError, match="both shown as “Doc2Doc” with seed 1"):
        group_runs([new_run(seed=1), new_run(seed=1)])


def test_runs_that_differ_in_more_than_the_seed_are_not_averaged(new_run: NewRun) -> None:
    wide = new_run(seed=2, config={"windows": {"context": 3}, "model": {"dim": 8}})
    with pytest.raises(RunError, match=r"differ in model\.dim\. Give one of them another name"):
        group_runs([new_run(seed=1), wide])
    elsewhere = {"windows": {"context": 3}, "data": {"folder": "b"}, "output": "x", "seed": 2}
    assert len(group_runs([new_run(seed=1), new_run(seed=2, config=elsewhere)])) == 1


def test_the_clock_of_a_resumed_run_begins_again(new_run: NewRun) -> None:
    seconds = (10.0, 40.0, 5.0, 25.0)
    metrics = tuple({"update": n, "seconds": value} for n, value in enumerate(seconds))
    assert replace(new_run(), metrics=metrics).seconds == 40.0 + 25.0
    assert replace(new_run(), metrics=()).seconds is None


def test_spread_is_the_sample_standard_deviation_of_what_was_measured() -> None:
    found = mean_over_seeds([2.0, None, 4.0, 6.0])
    assert found is not None
    assert (found.mean, found.deviation, found.count) == (4.0, 2.0, 3)
    single = mean_over_seeds([2.0])
    assert single is not None
    assert single.deviation is None
    assert mean_over_seeds([None]) is None
