"""Finding experiments and runs below folders, and naming what cannot be shown."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from iada.config.base import to_mapping, write_yaml
from iada.config.method import augmentation
from iada.config.run import RunConfig
from iada.errors import RunError
from iada.experiments.definitions import experiment_names
from iada.experiments.results import Results, write_results
from iada.report.overview import find_material

NewResults = Callable[..., Results]


def make_run_folder(
    folder: Path, *, seed: int = 1, trained: bool = True, scored: bool = True
) -> Path:
    folder.mkdir(parents=True)
    config = RunConfig(output=folder, method="doc2doc", seed=seed, augment=augmentation("doc2doc"))
    write_yaml(folder / "config.yaml", to_mapping(config))
    line = {"update": 1, "dev_nll": 2.0, "seconds": 1.0}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    if trained:
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{}", encoding="utf-8")
    if scored:
        (folder / "scores.json").write_text("{}", encoding="utf-8")
    return folder


def test_everything_below_a_folder_is_found(experiment_folder: Path) -> None:
    make_run_folder(experiment_folder / "mini" / "runs" / "Doc2Doc" / "seed-1")
    make_run_folder(experiment_folder / "other" / "deep" / "run")
    material = find_material([experiment_folder])
    assert [item.results.experiment for item in material.experiments] == list(experiment_names())
    # The first run is one of an experiment.
    assert [run.folder.name for run in material.runs] == ["run"]
    assert material.left_out == ()


def test_a_single_folder_of_either_kind_is_enough(experiment_folder: Path, tmp_path: Path) -> None:
    assert len(find_material([experiment_folder / "mini" / "main"]).experiments) == 1
    run = make_run_folder(tmp_path / "run")
    assert [found.folder for found in find_material([run]).runs] == [run]
    # The same folder twice is shown once.
    assert len(find_material([run, tmp_path]).runs) == 1


def test_unfinished_runs_are_named_and_left_out(tmp_path: Path) -> None:
    make_run_folder(tmp_path / "a")
    make_run_folder(tmp_path / "b", seed=2, trained=False, scored=False)
    make_run_folder(tmp_path / "c", seed=3, scored=False)
    material = find_material([tmp_path])
    assert [run.folder.name for run in material.runs] == ["a"]
    assert material.left_out == (
        f"{tmp_path}/b (not trained to the end)",
        f"{tmp_path}/c (not scored)",
    )


def test_nothing_to_show_is_an_error_with_reasons(tmp_path: Path) -> None:
    make_run_folder(tmp_path / "a", scored=False)
    with pytest.raises(
        RunError, match=r"nothing to report on in .*a \(not scored\).*iada evaluate"
    ):
        find_material([tmp_path])
    with pytest.raises(RunError, match=r"absent is not a folder"):
        find_material([tmp_path / "absent"])


def test_an_experiment_without_rows_is_left_out(
    experiment_folder: Path, every_result: list[Results]
) -> None:
    empty = replace(every_result[0], rows=(), baseline=None)
    write_results(experiment_folder / "mini" / "main" / "results.json", empty)
    material = find_material([experiment_folder])
    assert "main" not in [item.results.experiment for item in material.experiments]
    assert material.left_out == (f"{experiment_folder}/mini/main (no row is finished)",)


def test_an_unknown_experiment_is_refused(tmp_path: Path, every_result: list[Results]) -> None:
    write_results(tmp_path / "results.json", replace(every_result[0], experiment="mian"))
    with pytest.raises(RunError, match=r"results\.json: the experiment is 'mian'"):
        find_material([tmp_path])


def test_results_of_one_corpus_in_two_places_are_told_apart(experiment_folder: Path) -> None:
    again = experiment_folder.parent / "again"
    shutil.copytree(experiment_folder / "mini" / "main", again / "mini" / "main")
    material = find_material([experiment_folder, again])
    labels = {item.label for item in material.experiments}
    assert labels == {f"mini, {experiment_folder}/mini", f"mini, {again}/mini"}
    names = [item.name() for item in material.experiments]
    assert len(names) == len(set(names)) == len(experiment_names()) + 1


def test_runs_that_are_not_seeds_of_one_system_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run_folder(tmp_path / name)
    make_run_folder(tmp_path / "seeds" / "one", seed=5)
    names = [run.name for run in find_material([tmp_path / "a", tmp_path / "b"]).runs]
    assert names == [f"Doc2Doc ({tmp_path}/{name})" for name in ("a", "b")]
    both = find_material([tmp_path / "a", tmp_path / "seeds"]).runs
    assert [run.name for run in both] == ["Doc2Doc", "Doc2Doc"]


def test_other_files_called_config_are_no_runs(tmp_path: Path) -> None:
    run = make_run_folder(tmp_path / "outer" / "run")
    (tmp_path / "outer" / "config.yaml").write_text("theme: dark\n", encoding="utf-8")
    assert [found.folder for found in find_material([tmp_path]).runs] == [run]
