"""Does importance beat the uniform control? The answer follows the numbers, whatever they are."""

from collections.abc import Callable
from typing import Any

import pytest

from iada.evaluation.metrics import METRICS
from iada.experiments.results import Axis, Results, Row
from iada.report.tables import to_markdown
from iada.report.verdict import (
    ImportanceGain,
    comparison_table,
    difference,
    gain_table,
    importance_answers,
    importance_gains,
    importance_sentence,
    sweep_answers,
    sweep_series,
)

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
    assert answer.headline.startswith("Fewer than three seeds cannot tell")
    assert "1 seed: s-BLEU +9.00;" in answer.numbers


def test_another_alpha_is_not_the_system(new_row: NewRow, new_results: NewResults) -> None:
    results = new_results(
        "controls",
        new_row("Uniform", {"method": "uniform_replace_all_losses"}),
        new_row("IADA, α = 3", GNORM | {"augment.alpha": 3.0}),
    )
    assert importance_answers(results) == []
    assert comparison_table(results) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"augment.alpha": 1.0, "augment.budget": "matched"},
        {"augment.budget": "matched"},
        {"augment.importance_pass": "lagged"},
    ],
)
def test_as_much_noise_makes_a_fair_comparison(
    new_row: NewRow, new_results: NewResults, settings: dict[str, Any]
) -> None:
    results = new_results(
        "controls",
        new_row("Uniform", {"method": "uniform_replace_all_losses"}),
        new_row("IADA, varied", GNORM | settings, (21.0, 22.0, 23.1)),
    )
    (answer,) = importance_answers(results)
    assert "IADA, varied against Uniform on mini" in answer.headline
    assert answer.headline.startswith("Yes")


def test_another_tilt_makes_another_amount_of_noise(
    new_row: NewRow, new_results: NewResults
) -> None:
    results = new_results(
        "controls",
        new_row("Uniform", {"method": "uniform_replace_all_losses"}),
        new_row("IADA, α = 1", GNORM | {"augment.alpha": 1.0}, (21.0, 22.0, 23.1)),
    )
    assert importance_answers(results) == []


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
            (0.0, (20.0, 21.0, 22.0)),
            (0.1, (20.2, 21.3, 22.1)),
            (1.0, (22.0, 23.0, 24.0)),
        )
    ]
    (answer,) = sweep_answers(new_results("alpha_sweep", *rows), "s_bleu")
    assert answer == (
        "Sweep of α: s-BLEU is best at α = 1, +2.00 ± 0.00 (+2.00 to +2.00) from α = 0, which is "
        "uniform replacement: better. It is the best of 2 values, which flatters it."
    )
    # A lower NLL is better.
    (answer,) = sweep_answers(new_results("alpha_sweep", *rows), "dev_nll")
    assert "best at α = 1, −0.200" in answer
    assert sweep_answers(new_results("alpha_sweep", *rows[1:]), "s_bleu") == []


def test_a_sweep_without_gain_says_so(new_row: NewRow, new_results: NewResults) -> None:
    rows = [
        new_row(f"α = {alpha:g}", GNORM | {"augment.alpha": alpha}, bleu, value=alpha)
        for alpha, bleu in (
            (0.0, (22.0, 23.0, 24.0)),
            (0.1, (21.5, 22.7, 23.6)),
            (1.0, (20.0, 21.0, 22.0)),
        )
    ]
    assert sweep_answers(new_results("alpha_sweep", *rows), "s_bleu")[0] == (
        "Sweep of α: in s-BLEU no value above 0 does better than α = 0, which is uniform "
        "replacement. The nearest is α = 0.1, −0.40 ± 0.10 (−0.65 to −0.15) from it: worse."
    )


def test_importance_is_compared_with_the_control_of_the_same_settings(
    new_row: NewRow, new_results: NewResults
) -> None:
    uniform = {"method": "uniform_replace_all_losses"}
    few = {"data.subset": 0.2}
    results = new_results(
        "low_resource",
        new_row("Doc2Doc", {"method": "doc2doc"}),
        new_row("U", uniform, (20.0, 21.0, 22.0)),
        new_row("U, few", uniform | few, (10.0, 11.0, 12.0)),
        new_row("U, more noise", uniform | {"augment.p_context": 0.3}),
        new_row("G", GNORM, (21.0, 22.0, 23.0)),
        new_row("G, few", GNORM | few, (11.0, 13.0, 12.5)),
        new_row("G, stronger", GNORM | {"augment.alpha": 3.0}, (19.0, 20.0, 20.9)),
        new_row("Random", {"method": "iada_replace_random"}),
        new_row("Drop", {"method": "iada_drop_gnorm"}),
    )
    gains = importance_gains([("mini", results)])
    assert [(gain.system, gain.control) for gain in gains] == [
        ("G", "U"),
        ("G, few", "U, few"),
        ("G, stronger", "U"),
    ]
    assert gains[1].differences["s_bleu"].text == "+1.17 ± 0.76 (−0.73 to +3.06)"
    assert importance_sentence(gains) == (
        "Mixed: in 3 comparisons with the uniform control in s-BLEU, importance is better for G on "
        "mini (+1.00), worse for G, stronger on mini (−1.03). By chance alone about 0.2 of 3 "
        "intervals leave out zero."
    )
    rows = to_markdown(gain_table(gains)).splitlines()
    assert rows[2].startswith("| mini | G | U | s-BLEU | +1.00 ± 0.00 ∗ | +1.00 to +1.00 | 3 of 3")


def test_no_tilt_is_a_control_too(new_row: NewRow, new_results: NewResults) -> None:
    rows = [
        new_row(f"α = {alpha:g}", GNORM | {"augment.alpha": alpha}, series="GNorm", value=alpha)
        for alpha in (0.0, 0.1)
    ]
    sweep = new_results("alpha_sweep", *rows, axis=Axis("augment.alpha", (0.0, 0.1)))
    (gain,) = importance_gains([("mini", sweep)])
    assert (gain.name, gain.control) == ("GNorm, α = 0.1 on mini", "α = 0")
    matched = new_row(
        "α = 1, matched budget",
        GNORM | {"augment.alpha": 1.0, "augment.budget": "matched"},
        series="GNorm, matched budget",
        value=1.0,
    )
    both = new_results("alpha_sweep", *rows, matched, axis=Axis("augment.alpha", (0.0, 0.1, 1.0)))
    names = [gain.system for gain in importance_gains([("mini", both)])]
    assert names == ["GNorm, α = 0.1", "GNorm, matched budget, α = 1"]


def test_the_comparison_with_the_most_seeds_is_kept(
    new_controls: NewControls, new_row: NewRow, new_results: NewResults
) -> None:
    one_seed = new_results(
        "controls",
        new_row("U", {"method": "uniform_replace_all_losses"}, (20.0,)),
        new_row("G", GNORM, (30.0,)),
    )
    gains = importance_gains([("mini", one_seed), ("mini", new_controls()), ("other", one_seed)])
    assert [(gain.corpus, gain.differences["s_bleu"].seeds) for gain in gains] == [
        ("mini", 3),
        ("other", 1),
    ]


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        ([], "Whether importance helps is not known"),
        ([(5.0,)], "Whether importance helps is not known"),
        ([(0.9, 1.0, 1.1)], "Importance helps in 1 of 1 comparison with the uniform control in"),
        ([(-0.9, -1.0, -1.1)], "Importance does not help: in 1 comparison with the uniform"),
        ([(1.0, -1.0, 0.5)], "No evidence that importance helps: the only comparison with the"),
        ([(1.0, -1.0, 0.5)] * 2, "No evidence that importance helps: in none of 2 comparisons"),
        ([(0.9, 1.0, 1.1), (1.0, -1.0, 0.5)], "Importance helps in 1 of 2 comparisons with the"),
    ],
)
def test_the_sentence_follows_by_rule(gains: list[tuple[float, ...]], sentence: str) -> None:
    made = []
    for number, values in enumerate(gains):
        found = difference(values, (0.0,) * len(values), METRICS["s_bleu"])
        assert found is not None
        made.append(ImportanceGain(f"corpus {number}", "G", "U", {"s_bleu": found}))
    assert importance_sentence(made).startswith(sentence)


def test_series_of_a_sweep_share_the_row_without_a_tilt(
    new_row: NewRow, new_results: NewResults
) -> None:
    matched = {"augment.budget": "matched"}
    rows = [
        new_row("α = 0", GNORM | {"augment.alpha": 0.0}, (20.0,), series="free", value=0.0),
        new_row("α = 1", GNORM | {"augment.alpha": 1.0}, (19.0,), series="free", value=1.0),
        new_row(
            "α = 1, matched",
            GNORM | matched | {"augment.alpha": 1.0},
            (21.0,),
            series="matched",
            value=1.0,
        ),
    ]
    results = new_results("alpha_sweep", *rows)
    assert {name: list(found) for name, found in sweep_series(results).items()} == {
        "free": [0.0, 1.0],
        "matched": [0.0, 1.0],
    }
    free, other = sweep_answers(results, "s_bleu")
    assert free.startswith("Sweep of α (free): in s-BLEU no value above 0 does better than α = 0")
    assert other.startswith("Sweep of α (matched): s-BLEU is best at α = 1, +1.00 from α = 0")
