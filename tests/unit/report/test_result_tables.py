"""Tables of an experiment: ours, marks of significance, and the paper's columns."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from iada.experiments.results import Results, Row
from iada.report import paper
from iada.report.result_tables import cost_table, group_table, result_table, unmatched_table
from iada.report.tables import Table, to_markdown

NewRow = Callable[..., Row]
NewResults = Callable[..., Results]
DOC2DOC, GNORM = {"method": "doc2doc"}, {"method": "iada_replace_gnorm"}


def row_texts(table: Table, number: int) -> list[str]:
    return [f"{cell.text}{cell.mark}" for cell in table.rows[number]]


def test_ours_and_the_papers_stand_side_by_side(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "main", new_row("Doc2Doc", DOC2DOC), new_row("R-Drop", {"method": "r_drop"})
    )
    table = result_table(results, paper.MAIN["news"])
    assert [column.full_name for column in table.columns] == [
        "System",
        "Seeds",
        "s-BLEU",
        "d-BLEU",
        "Pronouns (context needed) %",
        "Pronouns (all) %",
        "dev NLL (best)",
        "Paper, News: s-BLEU",
        "Paper, News: d-BLEU",
        "Paper, News: COMET",
    ]
    ours = ["21.00 ± 1.00", "22.00 ± 1.00", "42.0 ± 2.0", "21.0 ± 1.0", "2.900 ± 0.100"]
    assert row_texts(table, 0) == ["Doc2Doc", "3", *ours, "24.4", "26.4", "12.7"]
    assert row_texts(table, 1) == ["R-Drop", "3", *ours, "–", "–", "–"]
    assert [column.published for column in table.columns] == [False] * 7 + [True] * 3
    notes = " ".join(table.notes)
    assert "data mini; seeds 1, 2, 3; parameters 412,000; updates 1,000" in notes
    assert "Table 2 of the paper: News English-German" in notes
    assert "not measured here" in notes


def test_a_signature_is_named_once_after_its_metrics(
    new_row: NewRow, new_results: NewResults
) -> None:
    results = new_results("main", new_row("Doc2Doc", DOC2DOC))
    signatures = {"s_bleu": "tok:13a", "d_bleu": "tok:13a", "chrf": "nc:6", "contrastive": "sum"}
    signed = replace(results, base={"updates": 1000, "signatures": signatures})
    notes = result_table(signed).notes
    assert "Signatures: s-BLEU, d-BLEU: tok:13a; chrF: nc:6; pronouns: sum." in notes
    assert not any(note.startswith("Signatures") for note in result_table(results).notes)


@pytest.mark.parametrize(
    ("bleu", "p", "mark"),
    [
        ((25.0, 25.0, 25.0), (0.01, 0.05, 0.001), "∗"),
        ((25.0, 25.0, 25.0), (0.01, 0.051, 0.001), "∗2/3"),
        ((15.0, 15.0, 15.0), (0.01, 0.01, 0.01), "†"),
        ((25.0, 15.0, 25.0), (0.01, 0.01, 0.9), "∗1/3 †1/3"),
        ((25.0, 25.0, 25.0), (0.5, 0.5, 0.5), ""),
        ((20.0, 21.0, 22.0), (0.01, 0.01, 0.01), ""),
    ],
)
def test_marks(
    new_row: NewRow,
    new_results: NewResults,
    bleu: tuple[float, ...],
    p: tuple[float, ...],
    mark: str,
) -> None:
    results = new_results("main", new_row("Doc2Doc", DOC2DOC), new_row("IADA", GNORM, bleu, p=p))
    table = result_table(results)
    assert table.rows[1][2].mark == mark
    # Only what was tested has a mark.
    assert table.rows[1][3].mark == ""
    assert "∗ better, † worse than Doc2Doc with p ≤ 0.05 in every seed" in table.notes[0]
    assert "bs:10000" in table.notes[0]


def test_a_test_against_a_row_that_is_gone_has_no_mark(
    new_row: NewRow, new_results: NewResults
) -> None:
    row = new_row("IADA", GNORM, (25.0, 26.0, 27.0), p=(0.01,) * 3, against="gone")
    assert result_table(new_results("main", row)).rows[0][2].mark == ""


def test_rows_that_failed_are_named(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results("main", new_row("Doc2Doc", DOC2DOC), missing=("IADA", "WordRepl"))
    notes = " ".join(result_table(results).notes)
    assert "Left out, because a run failed: IADA, WordRepl." in notes


def test_one_seed_has_no_spread(new_row: NewRow, new_results: NewResults) -> None:
    table = result_table(new_results("main", new_row("Doc2Doc", DOC2DOC, (20.0,))))
    assert row_texts(table, 0)[:3] == ["Doc2Doc", "1", "20.00"]
    assert "±" not in " ".join(table.notes)


def test_what_was_not_measured_shows_a_dash(new_row: NewRow, new_results: NewResults) -> None:
    bare = replace(new_row("IADA", GNORM), metrics={"dev_nll": (1.0, 2.0, 3.0)})
    table = result_table(new_results("main", new_row("Doc2Doc", DOC2DOC), bare))
    assert row_texts(table, 1) == ["IADA", "3", "–", "–", "–", "–", "2.000 ± 1.000"]


def test_the_papers_other_rows_are_kept_apart(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results("pronouns", new_row("Doc2Doc", DOC2DOC), new_row("IADA", GNORM))
    rest = unmatched_table(results, paper.PRONOUNS)
    assert rest is not None
    assert [row[0].text for row in rest.rows] == ["WordRepl", "IADA Repl + TNorm"]
    assert row_texts(rest, 0) == ["WordRepl", "68.0", "56.6", "92.0", "55.5"]
    every = [new_row(row.label, row.settings[0]) for row in paper.PRONOUNS.rows]
    assert unmatched_table(new_results("pronouns", *every), paper.PRONOUNS) is None


def test_costs_stand_beside_each_other(new_row: NewRow, new_results: NewResults) -> None:
    cost = {"parameters": (508416.0,) * 3, "updates": (900.0, 1000, 1100), "minutes": (2.0, 2, 5)}
    row = new_row("Doc2Doc", DOC2DOC, breakdown={"cost": cost})
    table = cost_table(new_results("main", row, new_row("IADA", GNORM)))
    assert table is not None
    assert [row_texts(table, n) for n in range(len(table.rows))] == [
        ["Doc2Doc", "3", "508,416", "1,000", "3.0"]
    ]
    assert cost_table(new_results("main", new_row("IADA", GNORM))) is None


def test_groups_of_a_breakdown(new_row: NewRow, new_results: NewResults) -> None:
    row = new_row("IADA", GNORM, breakdown={"class": {"er": (0.5, 0.6, 0.7)}})
    table = group_table(
        new_results("pronouns", row), "class", ("er", "es"), paper.PRONOUNS, group="Accuracy"
    )
    assert row_texts(table, 0) == ["IADA", "3", "60.0 ± 10.0", "–", "73.8", "63.9", "89.4", "67.8"]
    assert "| System | Seeds | Accuracy: er |" in to_markdown(table)
