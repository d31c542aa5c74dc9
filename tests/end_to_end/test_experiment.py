"""`iada experiment` from one command to its results, at toy size; runs are shared and kept."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from iada.cli.experiment import parse
from iada.cli.main import main
from iada.experiments.collection import collect
from iada.experiments.definitions import build_experiment
from iada.experiments.grid import build_grid, open_base
from iada.experiments.results import read_results
from iada.experiments.scheduler import Launcher, attempt
from iada.report.runs import load_run


@pytest.fixture
def command(
    tmp_path: Path, mini_corpus: Path, write_toy_recipe: Callable[[int, int], Path]
) -> list[str]:
    return [
        f"--data={write_toy_recipe(4, 2)}",
        f"--output={tmp_path / 'out'}",
        f"--contrastive={mini_corpus / 'contrastive.json'}",
    ]


@pytest.mark.slow
def test_experiments_share_their_runs_and_do_nothing_twice(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "out" / f"{tmp_path.name}-toy"
    rows = ["--rows", "alpha_0.1", "alpha_1"]
    sweep = ["experiment", "alpha_sweep", "--alphas", "0.1", "1", *rows, *command]
    assert main(sweep) == 0
    first = capsys.readouterr()
    assert "| α = 0.1 | 1 |" in first.out
    assert "2 tasks, 2 of them open" in first.err
    results = read_results(root / "alpha_sweep")
    assert [row.key for row in results.rows] == ["alpha_0.1", "alpha_1"]
    assert results.rows[1].settings == {"method": "iada_replace_gnorm", "augment.alpha": 1.0}
    folders = [root / "alpha_sweep" / row.runs[0] for row in results.rows]
    # Reports read the same folders and find the same scores.
    for row, folder in zip(results.rows, folders, strict=True):
        run = load_run(folder)
        assert row.metrics["s_bleu"] == (run.value("s_bleu"),)
        assert row.metrics["pronouns"] == (run.accuracy(),)
        assert row.metrics["dev_nll"] == (run.value("dev_nll"),)
        assert run.config["augment"]["alpha"] == row.value
        assert run.config["method"] == "iada_replace_gnorm"
    kept = [(folder / "model" / "model.safetensors").stat().st_mtime_ns for folder in folders]

    written = (root / "alpha_sweep" / "results.json").read_bytes()
    assert main(sweep) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert "2 tasks, 0 of them open" in again.err
    assert (root / "alpha_sweep" / "results.json").read_bytes() == written
    assert [(f / "model" / "model.safetensors").stat().st_mtime_ns for f in folders] == kept

    # What was not asked for before is measured, and nothing is trained again.
    assert main([*sweep, "--cxmi"]) == 0
    assert "2 tasks, 2 of them open" in capsys.readouterr().err
    measured = read_results(root / "alpha_sweep")
    assert all("cxmi" in row.metrics for row in measured.rows)
    assert measured.rows[0].metrics["s_bleu"] == results.rows[0].metrics["s_bleu"]
    assert [(f / "model" / "model.safetensors").stat().st_mtime_ns for f in folders] == kept

    # Another experiment finds the run at the usual alpha.
    assert main(["experiment", "pos", *command, "--dry_run"]) == 0
    assert "3 tasks in" in (plan := capsys.readouterr().out)
    assert "of which 1 are done" in plan


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_one_failed_run_loses_no_other(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "out" / f"{tmp_path.name}-toy"
    rows = ["--rows", "alpha_0.1", "alpha_1", "--jobs=1"]
    sweep = ["experiment", "alpha_sweep", "--alphas", "0.1", "1", *rows, *command]
    assert main([*sweep, "--dry_run"]) == 0
    listed = [line.strip() for line in capsys.readouterr().out.splitlines() if ": open" in line]
    first = root / listed[0].partition(":")[0]
    first.mkdir(parents=True)
    (first / "thesis.txt").write_text("in the way", encoding="utf-8")

    assert main(sweep) == 2
    shown = capsys.readouterr()
    assert "1 of 2 tasks failed; the others are done and kept." in shown.err
    assert f"{first} already holds files" in shown.err
    assert f"Its messages are in {first}.log" in shown.err
    assert "Left out, because a run failed: α = 0.1." in shown.out
    results = read_results(root / "alpha_sweep")
    assert [row.key for row in results.rows] == ["alpha_1"]
    assert results.missing == ("α = 0.1",)

    shutil.rmtree(first)
    assert main(sweep) == 0
    assert "2 tasks, 1 of them open" in capsys.readouterr().err
    assert len(read_results(root / "alpha_sweep").rows) == 2


@pytest.mark.slow
def test_synthetic_data_pass_from_run_to_run(
    tmp_path: Path, command: list[str], mini_corpus: Path, here: Launcher
) -> None:
    pytest.importorskip("iada.synthesis.translated", reason="this version makes no synthetic data")
    config = parse(["bt_ft", *command])
    base = open_base(config)
    whole = build_experiment("bt_ft")
    experiment = replace(whole, rows=whole.rows[:3])
    grid = build_grid(base, [experiment], config.seeds)
    # Three rows, the reverse run and two corpora.
    assert len(grid.tasks) == 6
    assert attempt(grid.tasks, workers=2, launcher=here) == ()
    results = collect(experiment, grid, base, config.seeds, base.root / "bt_ft")
    assert [row.key for row in results.rows] == ["doc2doc", "doc2doc_bt", "doc2doc_ft"]
    assert results.rows[1].settings == {"method": "doc2doc", "synthetic": "back_translate"}
    for language, corpora in (("de", "*-reverse-*-back_translate"), ("en", "*-forward_translate")):
        (corpus,) = (base.root / "corpora").glob(f"{corpora}/seed-1")
        file = f"train.{language}"
        real, doubled = ((path / file).read_text("utf-8") for path in (mini_corpus, corpus))
        # The side that was not translated is there twice.
        assert doubled.split() == 2 * real.split()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_parts_of_speech_of_perturbed_tokens(tmp_path: Path, command: list[str]) -> None:
    pytest.importorskip("iada.analysis.parts_of_speech", reason="this version counts no tags")
    assert main(["experiment", "pos", *command]) == 0
    results = read_results(tmp_path / "out" / f"{tmp_path.name}-toy" / "pos")
    for row in results.rows:
        for place in ("context", "current"):
            shares = [values[0] for values in row.pos[place].values()]
            assert sum(shares) == pytest.approx(1)
            assert row.pos[place]["NOUN"][0] > 0.05
