"""Views: all that an experiment may name exist, and a new experiment needs no other edit."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from iada.config.experiment import ExperimentConfig
from iada.experiments import definitions
from iada.experiments.definitions import build_experiment, choose_experiments
from iada.experiments.grid import build_grid, open_base
from iada.experiments.plan import (
    AnswerView,
    Experiment,
    FigureView,
    PlannedRow,
    Ranges,
    System,
    TableView,
)
from iada.experiments.results import Results, Row, write_results
from iada.report.overview import find_material, report_sections
from iada.report.page import FigureBlock, Paragraph, TableBlock
from iada.report.views import ANSWERS, FIGURES, TABLES, results_markdown


def test_every_view_is_in_its_table() -> None:
    assert list(TABLES) == list(get_args(TableView))
    assert list(FIGURES) == list(get_args(FigureView))
    assert list(ANSWERS) == list(get_args(AnswerView))


def masking_rates(_: Ranges) -> Experiment:
    rows = tuple(
        PlannedRow(
            f"rate_{rate}",
            f"p = {rate}",
            System("iada_drop_gnorm", (("augment.p_context", rate),)),
            value=rate,
        )
        for rate in (0.1, 0.3)
    )
    return Experiment(
        "masking_rates",
        "How much to mask",
        rows,
        "rate_0.1",
        navigation="Masking",
        question="More noise, or less?",
        axis="augment.p_context",
        figure="sweep",
        caption="Scores by rate.",
    )


@pytest.fixture
def new_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(definitions.EXPERIMENTS, "masking_rates", masking_rates)


@pytest.mark.usefixtures("new_experiment")
def test_a_new_experiment_is_one_line_of_the_table(
    tmp_path: Path, new_row: Callable[..., Row], new_results: Callable[..., Results]
) -> None:
    assert choose_experiments(("masking_rates",)) == ("masking_rates",)
    experiment = build_experiment("masking_rates")
    base = open_base(ExperimentConfig(names=("masking_rates",), output=tmp_path))
    grid = build_grid(base, [experiment], (1,))
    assert [job.config.augment.p_context for job in grid.jobs.values()] == [0.1, 0.3]

    rows = [
        new_row(row.label, {"method": "iada_drop_gnorm"}, (20.0, 21.0), value=row.value)
        for row in experiment.rows
    ]
    results = new_results("masking_rates", *rows, title=experiment.title)
    write_results(tmp_path / "results.json", results)
    sections = report_sections(find_material([tmp_path]))
    (section,) = (one for one in sections if one.identifier == "masking_rates")
    assert (section.title, section.short) == ("How much to mask", "Masking")
    question, figure, table = section.blocks
    assert question == Paragraph("More noise, or less?")
    assert isinstance(figure, FigureBlock)
    assert figure.caption.startswith("Scores by rate.")
    assert isinstance(table, TableBlock)
    assert table.caption == "How much to mask (mini)"
    assert "| p = 0.3 | 2 | 20.50 ± 0.71 |" in results_markdown(results)


def test_agreement_of_measures_has_a_line_per_measure(every_result: list[Results]) -> None:
    (results,) = (one for one in every_result if one.experiment == "agreement")
    text = results_markdown(results)
    assert "| System | Seeds | Measure | gnorm |" in text
    assert "| Doc2Doc | 3 | tnorm | −0.20 ± 0.10 |" in text
    assert "| Doc2Doc | 3 | gnorm | – | 0.50 ± 0.25 |" in text
    assert "| Doc2Doc | 3 | tnorm | 0.50 ± 0.00 |" in text
    assert "| Doc2Doc | 3 | p_cxmi | 0.90 ± 0.10 |" in text
    assert "0.5 is chance" in text
    # What was measured on is said once for all tables, besides that of the systems.
    assert text.count("Ours: data mini") == 2
