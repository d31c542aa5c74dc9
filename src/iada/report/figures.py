"""Figures of runs: how they trained, and which pronouns they get right."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from iada.report.bars import Panel, draw_bars
from iada.report.drawing import (
    Drawing,
    colour,
    dash,
    draw_grid,
    draw_legend,
    line_handle,
    new_figure,
)
from iada.report.runs import CHANCE, RunSummary, Spread, System, group_runs, spread

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
    bars: dict[str, dict[str, Spread | None]] = {}
    for system in group_runs(runs):
        shares = {key: [run.accuracy(part, key) for run in system.runs] for key in keys}
        bars[system.name] = {
            key: spread([None if value is None else 100 * value for value in values])
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


def _describe_training(systems: Sequence[System]) -> str:
    parts = []
    for system in systems:
        best = spread([run.best_dev_nll for run in system.runs])
        value = "not measured" if best is None else f"{best.mean:.3f}"
        parts.append(f"{system.name}: {value}")
    return f"Best validation NLL per token, mean over seeds. {'; '.join(parts)}."
