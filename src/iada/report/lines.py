"""Curves over a quantity that was varied, with whiskers over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from iada.report.drawing import (
    INK,
    Drawing,
    colour,
    dash,
    draw_grid,
    draw_legend,
    line_handle,
    new_figure,
)
from iada.report.runs import Spread

Curves = Mapping[str, Mapping[float, Spread]]
"""Name to position to value, in the unit of the axis."""


@dataclass(frozen=True)
class Chart:
    """One pair of axes."""

    title: str
    curves: Curves
    label: str
    """What is varied."""
    unit: str
    digits: int = 2
    level: tuple[float, str] | None = None
    """Height and name of a line to compare with."""
    even: bool = False
    """Put the positions at equal distances, for values that grow by factors."""


def draw_lines(name: str, title: str, charts: Sequence[Chart], *, words: str) -> Drawing:
    """Draw charts side by side that show the same curves; arguments as in `draw_bars`."""
    names = list(charts[0].curves)
    with new_figure() as figure:
        row = figure.subplots(1, len(charts), squeeze=False)[0]
        for axes, chart in zip(row, charts, strict=True):
            _draw_chart(axes, chart, names)
        if len(names) > 1:
            draw_legend(figure, [line_handle(n, label) for n, label in enumerate(names)])
    return Drawing(name, title, f"{words} {' '.join(map(_describe, charts))}", figure)


def _draw_chart(axes: Axes, chart: Chart, names: Sequence[str]) -> None:
    draw_grid(axes)
    positions = sorted({position for curve in chart.curves.values() for position in curve})
    if chart.level is not None:
        height, label = chart.level
        axes.axhline(height, color=INK, linestyle=(0, (4, 3)), linewidth=1, gid="level")
        place = axes.get_yaxis_transform()
        axes.annotate(
            label,
            (0.99, height),
            xycoords=place,
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
        )
    for number, name in enumerate(names):
        curve = chart.curves.get(name, {})
        places = [positions.index(x) if chart.even else x for x in curve]
        means = [value.mean for value in curve.values()]
        reach = [value.deviation or 0.0 for value in curve.values()]
        axes.errorbar(
            places,
            means,
            reach,
            color=colour(number),
            linestyle=dash(number),
            marker="o",
            markersize=4,
            linewidth=1.6,
            capsize=2.5,
            gid=f"curve-{number}",
        )
    ticks = range(len(positions)) if chart.even else positions
    axes.set_xticks(list(ticks), [f"{position:g}" for position in positions])
    axes.set_title(chart.title)
    axes.set_xlabel(chart.label)
    axes.set_ylabel(chart.unit)


def _describe(chart: Chart) -> str:
    parts = []
    for name, curve in chart.curves.items():
        shown = [f"{x:g}: {value.mean:.{chart.digits}f}" for x, value in curve.items()]
        parts.append(f"{name} at {', '.join(shown) or 'no position'}")
    title = f"{chart.title}. " if chart.title else ""
    level = f" {chart.level[1]} {chart.level[0]:.{chart.digits}f}." if chart.level else ""
    return f"{title}{'; '.join(parts)}.{level}"
