"""Figures of runs (training curves, accuracies) and of experiments (curves and grouped bars)."""

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from iada.evaluation.metrics import METRICS, Metric, SeedMean, mean_over_seeds
from iada.experiments.results import Results
from iada.report.charts import (
    INK,
    Chart,
    Drawing,
    Panel,
    colour,
    dash,
    draw_bars,
    draw_grid,
    draw_legend,
    draw_lines,
    line_handle,
    new_figure,
)
from iada.report.result_tables import TAGS, distance_gains, gains_by_share
from iada.report.runs import CHANCE, RunGroup, RunSummary, group_runs
from iada.report.verdict import Difference, ImportanceGain, Outcome, sweep_series

PRONOUNS = ("er", "sie", "es")
DISTANCES = ("0", "1", "2", "3", ">3")
WINDOW = 3
"""Context sentences of the paper's systems, where a run does not say otherwise."""


def training_curves(runs: Sequence[RunSummary], *, name: str = "training") -> Drawing:
    """Draw validation NLL (left) and training NLL (right) by update, one line per run."""
    systems = group_runs(runs)
    with new_figure() as figure:
        left, right = figure.subplots(1, 2)
        for number, system in enumerate(systems):
            for run in system.runs:
                _draw_validation(left, run, number)
                _draw_training(right, run, number)
        for axes, title in ((left, "Validation"), (right, "Training")):
            axes.set_title(title)
            axes.set_xlabel("Update")
            axes.set_ylabel("NLL per token")
            axes.margins(x=0.02)
            draw_grid(axes)
            _show_where_curves_settle(axes)
        draw_legend(figure, [line_handle(n, system.name) for n, system in enumerate(systems)])
    return Drawing(name, "Training curves", _describe_training(systems), figure)


def accuracy_by_class(runs: Sequence[RunSummary]) -> Drawing:
    """Draw the accuracy for er, sie and es as one bar per system."""
    panel = _accuracy_panel(runs, "by_class", PRONOUNS, "Correct pronoun", outside=None)
    return draw_bars("by_class", "Accuracy by pronoun", [panel], words=_accuracy_words())


def accuracy_by_distance(runs: Sequence[RunSummary]) -> Drawing:
    """Draw the accuracy by sentences back to the antecedent; the shade is out of every window."""
    context = max((run.config.get("windows", {}).get("context", WINDOW) for run in runs), default=3)
    label = "Sentences back to the antecedent"
    outside = first_outside(DISTANCES, context)
    panel = _accuracy_panel(runs, "by_distance", DISTANCES, label, outside=outside)
    return draw_bars("by_distance", "Accuracy by distance", [panel], words=_accuracy_words())


def first_outside(distances: Sequence[str], context: int) -> int | None:
    """Return the place of the first distance that `context` sentences do not reach."""
    nearest = [int(key.removeprefix(">")) + key.startswith(">") for key in distances]
    return next((place for place, distance in enumerate(nearest) if distance > context), None)


def _accuracy_words() -> str:
    return f"Mean accuracy over seeds in percent; chance is {100 * CHANCE:.1f}."


def _accuracy_panel(
    runs: Sequence[RunSummary], part: str, keys: tuple[str, ...], label: str, outside: int | None
) -> Panel:
    bars: dict[str, dict[str, SeedMean | None]] = {}
    for system in group_runs(runs):
        shares = {key: [run.accuracy(part, key) for run in system.runs] for key in keys}
        bars[system.name] = {
            key: mean_over_seeds([None if value is None else 100 * value for value in values])
            for key, values in shares.items()
        }
    return Panel(
        title="",
        keys=keys,
        bars=bars,
        label=label,
        unit="Accuracy (%)",
        limit=100.0,
        level=(100 * CHANCE, "chance"),
        outside=outside,
    )


def _draw_validation(axes: Axes, run: RunSummary, number: int) -> None:
    updates, values = run.series("dev_nll")
    if not values:
        return
    best = min(range(len(values)), key=values.__getitem__)
    axes.plot(updates, values, color=colour(number), linestyle=dash(number), linewidth=1.4)
    axes.plot(updates[best], values[best], "o", color=colour(number), markersize=4.5)


def _draw_training(axes: Axes, run: RunSummary, number: int) -> None:
    updates, values = run.series("original")
    if not values:
        # Word dropout never sees the original view.
        updates, values = run.series("perturbed")
    axes.plot(updates, values, color=colour(number), linestyle=dash(number), linewidth=1.2)


def _show_where_curves_settle(axes: Axes) -> None:
    """Let steep beginnings leave the axis at the top: what is compared lies below them."""
    settled: list[float] = []
    for line in axes.get_lines():
        values: list[float] = np.asarray(line.get_ydata(), dtype=float).tolist()
        settled += values[len(values) // 5 :]
    if settled and max(settled) > min(settled):
        margin = 0.06 * (max(settled) - min(settled))
        axes.set_ylim(min(settled) - margin, max(settled) + margin)


def _describe_training(systems: Sequence[RunGroup]) -> str:
    parts = []
    for system in systems:
        best = mean_over_seeds([run.value("dev_nll") for run in system.runs])
        value = "not measured" if best is None else f"{best.mean:.3f}"
        parts.append(f"{system.name}: {value}")
    return f"Best validation NLL per token, mean over seeds. {'; '.join(parts)}."


def class_figure(results: Results, keys: tuple[str, ...], *, name: str) -> Drawing:
    """Draw accuracy by pronoun."""
    panel = Panel(
        title="",
        keys=keys,
        bars={row.label: _percents(row.breakdown.get("class", {}), keys) for row in results.rows},
        label="Correct pronoun",
        unit="Accuracy (%)",
        limit=100.0,
        level=(100 * CHANCE, "chance"),
    )
    words = f"Mean accuracy over seeds in percent; chance is {100 * CHANCE:.1f}."
    return draw_bars(name, "Accuracy by pronoun", [panel], words=words)


def distance_figure(results: Results, keys: tuple[str, ...], *, name: str) -> Drawing | None:
    """Draw accuracy above the baseline's by distance of the antecedent; None without gains."""
    gains = distance_gains(results)
    if not gains:
        return None
    panel = Panel(
        title="",
        keys=keys,
        bars={
            row.label: {key: _seed_mean(found) for key, found in gains[row.key].items()}
            for row in results.rows
            if row.key in gains
        },
        label="Sentences back to the antecedent",
        unit="Accuracy above the baseline (points)",
        outside=first_outside(keys, WINDOW),
        digits=1,
    )
    words = "Accuracy above the baseline's in points, mean over seeds."
    return draw_bars(name, "Gain in accuracy by distance", [panel], words=words)


def tag_figure(results: Results, *, name: str) -> Drawing:
    """Draw shares of perturbed tokens by tag, separately for context and current sentence."""
    panels = []
    for part, title in (("context", "In the context"), ("current", "In the current sentence")):
        bars = {row.label: _percents(row.pos.get(part, {}), TAGS) for row in results.rows}
        label, unit = "Part of speech", "Share of perturbed tokens (%)"
        panels.append(Panel(title, TAGS, bars, label, unit, digits=1))
    words = "Percent of all perturbed tokens, mean over seeds."
    return draw_bars(name, "Perturbed tokens by part of speech", panels, words=words)


def share_figure(results: Results, keys: Sequence[str], *, name: str) -> Drawing | None:
    """Draw gains over the baseline by share of the training data; None without gains."""
    charts = []
    for key in keys:
        gains = gains_by_share(results, METRICS[key])
        if not gains:
            continue
        curves = {
            system: {share: _seed_mean(found) for share, found in by_share.items()}
            for system, by_share in gains.items()
        }
        unit = f"{METRICS[key].label} above the baseline"
        charts.append(Chart("", curves, "Training data (%)", unit, level=(0.0, "baseline")))
    if not charts:
        return None
    words = "Score above the baseline's on the same data, mean over seeds."
    return draw_lines(name, "Gain by share of the training data", charts, words=words)


def sweep_figure(results: Results, *, name: str) -> Drawing | None:
    """Draw scores over the axis of the experiment, one curve per series; None without any."""
    axis = "" if results.axis is None else results.axis.name
    label = {"augment.alpha": "α"}.get(axis, axis)
    charts = []
    for key in ("s_bleu", "pronouns_needing_context"):
        metric = METRICS[key]
        curves: dict[str, dict[float, SeedMean]] = {}
        for series, rows in sweep_series(results).items():
            found = {value: metric.mean(row.metrics.get(key, ())) for value, row in rows.items()}
            curve = {value: mean for value, mean in found.items() if mean is not None}
            if curve:
                curves[series] = curve
        if curves:
            first = next(iter(curves.values()))
            level = (first[0.0].mean, "uniform") if label == "α" and 0.0 in first else None
            charts.append(
                Chart("", curves, label, metric.label, metric.digits, level=level, even=True)
            )
    if not charts:
        return None
    return draw_lines(name, f"Scores by {label}", charts, words="Mean over seeds.")


_OUTCOMES: dict[Outcome, tuple[int, str]] = {
    "better": (2, "better than the control"),
    "worse": (1, "worse"),
    "open": (7, "cannot be told from chance"),
    "few seeds": (5, "fewer than three seeds, no interval"),
}
"""Colour and meaning of a difference."""


def _marker(outcome: Outcome) -> str:
    return "D" if outcome == "few seeds" else "o"


def forest_figure(gains: Sequence[ImportanceGain], keys: Sequence[str], *, name: str) -> Drawing:
    """Draw differences from the uniform control with their intervals, one row per system.

    Args:
        gains: one row each, from top to bottom.
        keys: metrics, one panel each.
        name: of the drawing.
    """
    several = len({gain.corpus for gain in gains}) > 1
    labels = [gain.name if several else gain.system for gain in gains]
    with new_figure(1.7 + 0.3 * len(gains)) as figure:
        row = figure.subplots(1, len(keys), sharey=True, squeeze=False)[0]
        for axes, key in zip(row, keys, strict=True):
            _draw_forest(axes, [gain.differences.get(key) for gain in gains], METRICS[key])
        row[0].set_yticks(range(len(gains)), labels, fontsize=9)
        row[0].invert_yaxis()
        drawn = {one.outcome for gain in gains for one in gain.differences.values()}
        draw_legend(
            figure,
            [
                Line2D([], [], color=colour(n), marker=_marker(one), linestyle="", label=words)
                for one, (n, words) in _OUTCOMES.items()
                if one in drawn
            ],
        )
    parts = (
        f"{gain.name}: "
        + ", ".join(
            f"{gain.differences[key].metric.label} {gain.differences[key].text}"
            for key in keys
            if key in gain.differences
        )
        for gain in gains
    )
    words = "Difference from the uniform control, mean over seeds with 95% interval."
    return Drawing(name, "Gain over the uniform control", f"{words} {'; '.join(parts)}.", figure)


def _draw_forest(axes: Axes, found: Sequence[Difference | None], metric: Metric) -> None:
    axes.axvline(0, color=INK, linewidth=1, gid="level")
    for place, one in enumerate(found):
        if one is None:
            continue
        number, _ = _OUTCOMES[one.outcome]
        if one.interval is not None:
            axes.plot(one.interval, (place, place), color=colour(number), linewidth=2)
        marker, name = _marker(one.outcome), f"gain-{metric.key}-{place}"
        axes.plot(one.mean, place, marker, color=colour(number), markersize=6, gid=name)
    largest = max((abs(one.mean) for one in found if one is not None), default=0.0)
    bounds = [abs(bound) for one in found if one is not None for bound in one.interval or ()]
    # Two seeds have intervals so wide that nothing else could be seen.
    reach = 1.1 * min(max([largest, *bounds]), 6 * largest) or 1.0
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.grid(axis="x", color=INK, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)
    side = "left" if metric.lower_is_better else "right"
    # Long names of systems leave little room for the panels.
    axes.set_title(textwrap.fill(metric.label, 18), fontsize=9.5)
    axes.set_xlabel(f"{side} is better", fontsize=9)
    # Small differences have long numbers below the axis.
    axes.locator_params(axis="x", nbins=5 if reach >= 0.05 else 3)


def _percents(
    shares: Mapping[str, Sequence[float]], keys: Sequence[str]
) -> dict[str, SeedMean | None]:
    return {key: mean_over_seeds([100 * value for value in shares.get(key, ())]) for key in keys}


def _seed_mean(found: Difference) -> SeedMean:
    return SeedMean(found.mean, found.deviation, found.seeds)
