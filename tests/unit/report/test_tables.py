"""Tables: exact text of hand-made runs, missing values, and what must be said below."""

from collections.abc import Callable

import pytest

from iada.evaluation.metrics import SeedMean
from iada.report.runs import RunSummary
from iada.report.tables import (
    Table,
    accuracy_table,
    differences_table,
    mean_cell,
    results_table,
    to_markdown,
    to_text,
)

NewRun = Callable[..., RunSummary]

# IADA: BLEU 22, 23, 24 and 60, 70, 80 of 200 and of 100: means 23, 35 % and 70 %, deviations 1,
# 5 and 10; NLL 2.4, 2.6, 2.8; 90 seconds each.
EXPECTED = """\
System              Seeds        s-BLEU        d-BLEU  Pronouns (context needed) %  Pronouns (all) \
%  dev NLL (best)  Training time
───────────────────────────────────────────────────────────────────────────────────────────────────\
────────────────────────────────
Doc2Doc                 1         20.00         21.00                         25.0              50.\
0           3.000        1.5 min
IADA (Repl, GNorm)      3  23.00 ± 1.00  24.00 ± 1.00                   35.0 ± 5.0       70.0 ± 10.\
0   2.600 ± 0.200  1.5 ± 0.0 min

Signature: s-BLEU and d-BLEU nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1.
Pronouns: one of er, sie and es, so chance is 33.3%; “context needed” counts the 200 items whose \
antecedent is 1 to 3 sentences back.
± is the sample standard deviation over seeds.
"""


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_results_as_text(runs: list[RunSummary]) -> None:
    assert to_text(results_table(runs)) == EXPECTED


def test_results_as_markdown(runs: list[RunSummary]) -> None:
    lines = to_markdown(results_table(runs)).splitlines()
    assert lines[1] == "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[2] == "| Doc2Doc | 1 | 20.00 | 21.00 | 25.0 | 50.0 | 3.000 | 1.5 min |"
    assert r"nrefs:1\|case:mixed" in lines[5]


def test_what_was_not_measured_shows_a_dash(new_run: NewRun) -> None:
    table = results_table([new_run(scores={}), new_run("Scored")])
    assert texts(table)[0] == ["Doc2Doc", "1", "–", "–", "–", "–", "3.000", "1.5 min"]
    assert table.rows[0][2].value is None


def test_what_no_run_has_takes_no_column(new_run: NewRun) -> None:
    table = results_table([new_run(scores={})])
    names = [column.name for column in table.columns]
    assert names == ["System", "Seeds", "dev NLL (best)", "Training time"]
    assert table.notes[0] == "BLEU was not measured."


def test_a_mean_over_fewer_seeds_says_so(new_run: NewRun) -> None:
    table = results_table([new_run(seed=1), new_run(seed=2, scores={})])
    assert texts(table)[0][2] == "20.00 (n = 1)"


def test_different_signatures_are_pointed_out(new_run: NewRun) -> None:
    other = {"s_bleu": {"score": 1.0, "signature": "nrefs:1|tok:zh"}}
    notes = results_table([new_run(), new_run("B", scores=other)]).notes
    assert "do not compare" in notes[0]
    assert "nrefs:1|tok:zh" in notes[0]


def test_one_seed_each_needs_no_word_on_spread(new_run: NewRun) -> None:
    notes = results_table([new_run(), new_run("B")]).notes
    assert not any("±" in note for note in notes)


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (90.0, "1.5 min"), (5400.0, "1.5 h")]
)
def test_training_time_has_a_fitting_unit(new_run: NewRun, seconds: float, text: str) -> None:
    run = new_run()
    run.metrics[-1]["seconds"] = seconds
    for line in run.metrics[:-1]:
        line["seconds"] = 0.0
    assert texts(results_table([run]))[0][-1] == text


def test_accuracy_by_class(runs: list[RunSummary]) -> None:
    table = accuracy_table(runs, "by_class", ("er", "sie", "es"))
    assert texts(table)[0] == ["Doc2Doc", "25.0", "50.0", "75.0"]
    assert texts(table)[1] == ["IADA (Repl, GNorm)", "25.0 ± 0.0", "50.0 ± 0.0", "75.0 ± 0.0"]


def test_only_settings_that_differ_are_shown(new_run: NewRun) -> None:
    one = {"windows": {"context": 0}, "model": {"dim": 8}, "train": {"compile": False}}
    two = {"windows": {"context": 3}, "model": {"dim": 8}, "train": {"compile": True}}
    table = differences_table([new_run("A", config=one), new_run("B", config=two)])
    assert texts(table) == [["windows.context", "0", "3"], ["train.compile", "false", "true"]]


def test_a_mean_below_zero_has_a_true_minus() -> None:
    assert mean_cell(SeedMean(-1.25, 0.5, 2), 2, digits=2).text == "−1.25 ± 0.50"
