"""Figures as SVG text that stands inline in a page, light or dark.

Text, axes and rules take the colour of the surrounding text; each system has one colour, a CSS
variable `--series-1` and so on, with a fallback for pages that define none. The same runs give the
same bytes: no dates and no random ids. Every figure carries a title and its numbers in words.
"""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from iada.report.runs import CHANCE, RunSummary, Spread, System, group_runs, spread

PALETTE = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#aa4499",
    "#997700",
    "#332288",
    "#882255",
    "#777777",
)
"""Told apart with any colour vision, and at least 3:1 on white."""
PRONOUNS = ("er", "sie", "es")
DISTANCES = ("0", "1", "2", "3", ">3")
_INK = "#123456"  # stands for the colour of the surrounding text until the figure is drawn
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "iada",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlecolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "hatch.linewidth": 0.8,
}


def training_curves(runs: Sequence[RunSummary]) -> str:
    """Draw validation NLL (left) and training NLL (right) by update, one line per run."""
    systems = group_runs(runs)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
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
            _draw_grid(axes)
            _show_where_curves_settle(axes)
        handles = [
            Line2D([], [], color=_colour(n), linestyle=_dash(n), linewidth=2, label=system.name)
            for n, system in enumerate(systems)
        ]
        _draw_legend(figure, handles)
        return _svg(figure, "training", "Training curves", _describe_training(systems))


def accuracy_by_class(runs: Sequence[RunSummary]) -> str:
    """Draw the accuracy for er, sie and es as one bar per system."""
    return _grouped_bars(runs, "by_class", PRONOUNS, "Correct pronoun", "Accuracy by pronoun")


def accuracy_by_distance(runs: Sequence[RunSummary]) -> str:
    """Draw the accuracy by sentences back to the antecedent; the shade is out of every window."""
    label = "Sentences back to the antecedent"
    return _grouped_bars(runs, "by_distance", DISTANCES, label, "Accuracy by distance")


def _grouped_bars(
    runs: Sequence[RunSummary], part: str, keys: Sequence[str], label: str, title: str
) -> str:
    systems = group_runs(runs)
    found = {
        (number, key): spread([run.accuracy(part, key) for run in system.runs])
        for number, system in enumerate(systems)
        for key in keys
    }
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        axes = figure.subplots()
        _draw_grid(axes)
        for (number, key), value in found.items():
            if value is not None:
                _draw_bar(axes, value, keys.index(key), number, len(systems), f"bar-{number}-{key}")
        axes.axhline(100 * CHANCE, color=_INK, linestyle=(0, (4, 3)), linewidth=1, gid="chance")
        axes.set_xlim(-0.5, len(keys) - 0.5)
        side = axes.get_yaxis_transform()
        axes.text(1.005, 100 * CHANCE, "chance", transform=side, va="center", fontsize=9)
        if part == "by_distance":
            _shade_outside(axes, keys, runs)
        axes.set_xticks(range(len(keys)), keys)
        # Room above the highest bars for their numbers and whiskers.
        axes.set_ylim(0, 112)
        axes.set_yticks(range(0, 101, 20))
        axes.set_xlabel(label)
        axes.set_ylabel("Accuracy (%)")
        _draw_legend(figure, [_patch(n, system) for n, system in enumerate(systems)])
        return _svg(figure, part, title, _describe_bars(systems, keys, found))


def _draw_validation(axes: Axes, run: RunSummary, number: int) -> None:
    updates, values = run.series("dev_nll")
    if not values:
        return
    best = min(range(len(values)), key=values.__getitem__)
    axes.plot(updates, values, color=_colour(number), linestyle=_dash(number), linewidth=1.4)
    axes.plot(updates[best], values[best], "o", color=_colour(number), markersize=4.5)


def _draw_training(axes: Axes, run: RunSummary, number: int) -> None:
    updates, values = run.series("original")
    if not values:
        # Word dropout never sees the original view.
        updates, values = run.series("perturbed")
    axes.plot(updates, values, color=_colour(number), linestyle=_dash(number), linewidth=1.2)


def _draw_bar(
    axes: Axes, value: Spread, group: int, number: int, systems: int, identifier: str
) -> None:
    width = 0.82 / systems
    position = group + (number - (systems - 1) / 2) * width
    mean = 100 * value.mean
    (bar,) = axes.bar(position, mean, 0.88 * width, color=_colour(number), zorder=2)
    bar.set_gid(identifier)
    if number >= len(PALETTE):
        bar.set_hatch("///")
    # No share is above all: a whisker ends at 100.
    top = min(mean + 100 * (value.deviation or 0.0), 100.0)
    if value.deviation is not None:
        below = 100 * value.deviation
        reach = [[below], [top - mean]]
        axes.errorbar(position, mean, reach, color=_INK, capsize=2.5, linewidth=1, zorder=3)
    if systems <= 5:
        axes.text(position, top + 1, f"{mean:.0f}", ha="center", va="bottom", fontsize=8)


def _shade_outside(axes: Axes, keys: Sequence[str], runs: Sequence[RunSummary]) -> None:
    context = max((run.config.get("windows", {}).get("context", 3) for run in runs), default=3)
    nearest = [int(key.removeprefix(">")) + key.startswith(">") for key in keys]
    outside = [position for position, distance in enumerate(nearest) if distance > context]
    if outside:
        start, stop = outside[0] - 0.5, len(keys) - 0.5
        axes.axvspan(start, stop, color=_INK, alpha=0.08, linewidth=0, zorder=0, gid="outside")
        axes.text(outside[0] - 0.46, 99, "outside the window", va="top", fontsize=9)


def _draw_grid(axes: Axes) -> None:
    axes.grid(axis="y", color=_INK, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def _draw_legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    columns = min(len(handles), 3)
    figure.legend(
        handles=list(handles),
        loc="outside upper left",
        ncols=max(columns, 1),
        frameon=False,
        fontsize=9.5,
        handlelength=1.6,
        columnspacing=1.6,
    )


def _patch(number: int, system: System) -> Patch:
    hatch = "///" if number >= len(PALETTE) else None
    return Patch(facecolor=_colour(number), hatch=hatch, label=system.name)


def _show_where_curves_settle(axes: Axes) -> None:
    """Let steep beginnings leave the axis at the top: what is compared lies below them."""
    settled: list[float] = []
    for line in axes.get_lines():
        values: list[float] = np.asarray(line.get_ydata(), dtype=float).tolist()
        settled += values[len(values) // 5 :]
    if settled and max(settled) > min(settled):
        margin = 0.06 * (max(settled) - min(settled))
        axes.set_ylim(min(settled) - margin, max(settled) + margin)


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _dash(number: int) -> Literal["-", "--", ":"]:
    """Part systems that share a colour, from the ninth on."""
    dashes: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")
    return dashes[number // len(PALETTE) % len(dashes)]


def _describe_training(systems: Sequence[System]) -> str:
    parts = []
    for system in systems:
        best = spread([run.best_dev_nll for run in system.runs])
        value = "not measured" if best is None else f"{best.mean:.3f}"
        parts.append(f"{system.name}: {value}")
    return f"Best validation NLL per token, mean over seeds. {'; '.join(parts)}."


def _describe_bars(
    systems: Sequence[System], keys: Sequence[str], found: Mapping[tuple[int, str], Spread | None]
) -> str:
    parts = []
    for number, system in enumerate(systems):
        values = ((key, found[number, key]) for key in keys)
        shown = [f"{key} {value.mean:.1%}" for key, value in values if value is not None]
        parts.append(f"{system.name}: {', '.join(shown) or 'not measured'}")
    return f"Mean accuracy over seeds; chance is {CHANCE:.1%}. {'; '.join(parts)}."


def _svg(figure: Figure, prefix: str, title: str, description: str) -> str:
    """Render without dates, with ids of its own, and coloured by the page."""
    buffer = io.StringIO()
    absent = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=absent)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None
    words = (
        f'<title id="{prefix}-title">{escape(title)}</title>'
        f'<desc id="{prefix}-desc">{escape(description)}</desc>'
    )
    text = re.sub(r'id="|href="#|url\(#', lambda found: f"{found[0]}{prefix}-", text)
    text = text.replace(_INK, "currentColor").replace("'DejaVu Sans', sans-serif", "sans-serif")
    for number, colour in enumerate(PALETTE, start=1):
        text = text.replace(colour, f"var(--series-{number}, {colour})")
    body = text[text.index(">") + 1 :]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{box[0]} role="img" aria-labelledby="{prefix}-title" '
        f'aria-describedby="{prefix}-desc">{words}{body.strip()}'
    )
