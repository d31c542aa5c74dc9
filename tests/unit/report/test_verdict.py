"""Does importance beat the uniform control? The answer follows the numbers, whatever they are."""

from collections.abc import Callable

import pytest

from iada.experiments.results import Results, Row
from iada.report.tables import to_markdown
from iada.report.verdict import comparison_table, importance_answers, sweep_answer

NewControls = Callable[..., Results]
NewRow = Callable[..., Row]
NewResults = Callable[..., Results]
GNORM = {"method": "iada_replace_gnorm"}


@pytest.mark.parametrize(
    ("gain", "beginning"),
    [
        ((0.9, 1.0, 1.1), "Yes: importance beats the uniform control in s-BLEU, d-BLEU, "),
        ((-0.9, -1.0, -1.1), "No: importance is worse than the uniform control in s-BLEU, "),
        ((1.0, -1.0, 0.5), "No: importance cannot be told from the uniform control in any metric."),
    ],
)
def test_the_answer_follows_the_numbers(
    new_controls: NewControls, gain: tuple[float, ...], beginning: str
) -> None:
    (answer,) = importance_answers(new_controls(gain))
    assert answer.headline.startswith(beginning)
    assert "IADA (Repl, GNorm) against Uniform (Repl, all losses) on mini" in answer.headline


def test_the_numbers_are_told(new_controls: NewControls) -> None:
    (answer,) = importance_answers(new_controls((0.9, 1.0, 1.1)))
    # 4.303 · 0.1 / √3 = 0.25
    assert "3 seeds" in answer.numbers
    assert "s-BLEU +1.00 ± 0.10 (+0.75 to +1.25)" in answer.numbers
    assert "dev NLL (best) −0.100 ± 0.010 (−0.125 to −0.075)" in answer.numbers


def test_metrics_may_disagree(new_row: NewRow, new_results: NewResults) -> None:
    def with_nll(row: Row, *nll: float) -> Row:
        metrics = {"s_bleu": row.metrics["s_bleu"], "dev_nll": nll}
        return Row(row.key, row.label, row.settings, row.runs, metrics)

    uniform = with_nll(
        new_row("Uniform", {"method": "uniform_replace_all_losses"}, (20.0, 21.0, 22.0)), 2, 2, 2
    )
    better = new_row("IADA", GNORM, (21.0, 22.1, 23.2))
    mixed = new_results("controls", uniform, with_nll(better, 3, 3.1, 3.2))
    expected = "Mixed: importance beats the uniform control in s-BLEU, and loses in dev NLL (best)."
    assert importance_answers(mixed)[0].headline.startswith(expected)
    part = new_results("controls", uniform, with_nll(better, 1, 3, 2))
    expected = "In part: importance beats the uniform control in s-BLEU; not clearly in dev NLL"
    assert importance_answers(part)[0].headline.startswith(expected)


def test_one_seed_cannot_tell(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "controls",
        new_row("Uniform", {"method": "uniform_replace_all_losses"}, (20.0,)),
        new_row("IADA", GNORM, (29.0,)),
    )
    (answer,) = importance_answers(results)
    assert answer.headline.startswith("One seed cannot tell")
    assert "1 seed: s-BLEU +9.00;" in answer.numbers


def test_another_alpha_is_not_the_system(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "controls",
        new_row("Uniform", {"method": "uniform_replace_all_losses"}),
        new_row("IADA, α = 3", GNORM | {"augment.alpha": 3.0}),
    )
    assert importance_answers(results) == []
    assert comparison_table(results) is None


def test_what_each_part_adds(new_controls: NewControls) -> None:
    table = comparison_table(new_controls((0.9, 1.0, 1.1)))
    assert table is not None
    lines = to_markdown(table).splitlines()
    assert lines[2] == (
        "| Two-view objective | Uniform (Repl, all losses) − Doc2Doc | s-BLEU | +2.00 ± 0.00 ∗ | "
        "+2.00 to +2.00 | 3 of 3 seeds |"
    )
    assert lines[6].startswith("| Importance | IADA (Repl, GNorm) − Uniform (Repl, all losses) | ")
    assert "IADA (Repl, GNorm) − IADA (Repl, Random)" in lines[10]
    assert len(table.rows) == 12


def test_a_sweep_is_compared_with_its_zero(new_row: NewRow, new_results: NewResults) -> None:
    rows = [
        new_row(f"α = {alpha:g}", GNORM | {"augment.alpha": alpha}, bleu, value=alpha)
        for alpha, bleu in (
            (0.0, (20.0, 21.0)),
            (0.1, (20.2, 21.3)),
            (1.0, (22.0, 23.0)),
        )
    ]
    answer = sweep_answer(new_results("alpha_sweep", *rows), "s_bleu")
    assert answer == (
        "Sweep of α: s-BLEU is best at α = 1, +2.00 ± 0.00 (+2.00 to +2.00) from α = 0, which is "
        "uniform replacement: better. It is the best of 2 values, which flatters it."
    )
    # A lower NLL is better.
    answer = sweep_answer(new_results("alpha_sweep", *rows), "dev_nll")
    assert answer is not None
    assert "best at α = 1, −0.200" in answer
    assert sweep_answer(new_results("alpha_sweep", *rows[1:]), "s_bleu") is None


def test_a_sweep_without_gain_says_so(new_row: NewRow, new_results: NewResults) -> None:
    rows = [
        new_row(f"α = {alpha:g}", GNORM | {"augment.alpha": alpha}, bleu, value=alpha)
        for alpha, bleu in ((0.0, (22.0, 23.0)), (0.1, (21.5, 22.7)), (1.0, (20.0, 21.0)))
    ]
    assert sweep_answer(new_results("alpha_sweep", *rows), "s_bleu") == (
        "Sweep of α: in s-BLEU no value above 0 does better than α = 0, which is uniform "
        "replacement. The nearest is α = 0.1, −0.40 ± 0.14 (−1.67 to +0.87) from it: no more than "
        "chance."
    )
