"""From trained runs to the report of them, with curves and a heat map."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from iada.cli.main import main
from iada.config.run import mini_run
from iada.experiments.results import Results, Row, write_results
from iada.experiments.scheduler import Job


@pytest.fixture(scope="module")
def scored_run(mini_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three updates, scored; tests only read it."""
    output = tmp_path_factory.mktemp("report") / "runs" / "gnorm" / "seed-1"
    config = mini_run("iada_replace_gnorm", corpus=mini_corpus, output=output, updates=3)
    Job(config, mini_corpus / "contrastive.json").run()
    return output


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., str]:
    def report(*arguments: str) -> str:
        page = tmp_path / "page.html"
        assert main(["report", *arguments, f"--output={page}"]) == 0
        return page.read_text(encoding="utf-8")

    return report


def test_a_run_is_reported_with_curves_and_heat_map(
    scored_run: Path, read: Callable[..., str], tmp_path: Path
) -> None:
    html = read(str(scored_run), "--windows=2")
    for heading in ("In short", "Results", "Translations", "Training", "Token importance"):
        assert f">{heading}</h2>" in html
    assert html.count('class="window"') == 2
    assert "IADA (Repl, GNorm)" in html
    assert (tmp_path / "page_files" / "figures" / "training-1.png").is_file()
    assert 'class="window"' not in read(str(scored_run), "--windows=0")


def test_an_experiment_is_reported_from_its_runs(
    scored_run: Path, read: Callable[..., str], tmp_path: Path
) -> None:
    row = Row(
        key="gnorm",
        label="IADA (Repl, GNorm)",
        settings={"method": "iada_replace_gnorm"},
        runs=("../runs/gnorm/seed-1",),
        metrics={"s_bleu": (12.5,)},
    )
    results = Results("main", "Main results", "mini", {}, (1,), "gnorm", (row,))
    root = tmp_path / "mini"
    shutil.copytree(scored_run.parents[1], root / "runs")
    (root / "main").mkdir()
    write_results(root / "main" / "results.json", results)
    html = read(str(root))
    assert ">12.50</td>" in html
    # Published for this method on TED; the run belongs to the experiment and is not shown twice.
    assert ">26.2</td>" in html
    assert "Other runs" not in html
    assert html.count('class="window"') == 4
    assert f"Importance as the run {root.as_posix()}/runs/gnorm/seed-1 measures it" in html
    assert ">Training</h2>" in html


def test_without_its_data_a_run_has_no_heat_map_and_the_page_says_why(
    scored_run: Path, mini_corpus: Path, read: Callable[..., str], tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(scored_run, copy)
    text = (copy / "config.yaml").read_text(encoding="utf-8")
    moved = text.replace(str(mini_corpus), str(tmp_path / "moved"))
    assert moved != text
    (copy / "config.yaml").write_text(moved, encoding="utf-8")
    html = read(str(copy))
    assert 'class="window"' not in html
    assert "No heat map of" in html
    # Asked for by name, it is an error.
    assert main(["report", str(copy), f"--heat_map={copy}", f"--output={tmp_path / 'x.html'}"]) == 2
