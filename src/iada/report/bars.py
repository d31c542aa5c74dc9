"""Grouped bars: one group per key, one bar per system, whiskers over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from iada.report.drawing import (
    INK,
    Drawing,
    bar_handle,
    colour,
    draw_grid,
    draw_legend,
    hatch,
    new_figure,
)
from iada.report.runs import Spread

Bars = Mapping[str, Mapping[str, Spread | None]]
"""System to key to value, in the unit of the axis."""
# More bars than this leave no room for a number on each.
_NUMBERED = 25


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    keys: tuple[str, ...]
    bars: Bars
    label: str
    """What the keys are."""
    unit: str
    """What the height is."""
    limit: float | None = None
    """A share cannot be higher, so axis and whiskers end there."""
    level: tuple[float, str] | None = None
    """Height and name of a line to compare with."""
    outside: int | None = None
    """First key that lies outside the window."""
    digits: int = 0
    """Decimals of the numbers on the bars."""


def draw_bars(name: str, title: str, panels: Sequence[Panel], *, words: str) -> Drawing:
    """Draw panels side by side that show the same systems.

    Args:
        name: of the drawing.
        title: of the drawing.
        panels: at least one.
        words: what the numbers are, before they are told one by one.
    """
    with new_figure() as figure:
        row = figure.subplots(1, len(panels), sharey=len(panels) > 1, squeeze=False)[0]
        for place, (axes, panel) in enumerate(zip(row, panels, strict=True)):
            numbered = len(panels) * len(panel.bars) * len(panel.keys) <= _NUMBERED
            prefix = f"{place}-" if place else ""
            _draw_panel(axes, panel, prefix, first=place == 0, numbered=numbered)
        _draw_systems(figure, panels[0].bars)
    return Drawing(name, title, f"{words} {' '.join(map(_describe, panels))}", figure)


def _draw_systems(figure: Figure, bars: Bars) -> None:
    draw_legend(figure, [bar_handle(number, system) for number, system in enumerate(bars)])


def _draw_panel(axes: Axes, panel: Panel, prefix: str, *, first: bool, numbered: bool) -> None:
    draw_grid(axes)
    for number, values in enumerate(panel.bars.values()):
        for group, key in enumerate(panel.keys):
            value = values.get(key)
            if value is not None:
                identifier = f"bar-{prefix}{number}-{key}"
                _draw_bar(axes, panel, value, group, number, identifier, numbered=numbered)
    axes.set_xlim(-0.5, len(panel.keys) - 0.5)
    if panel.level is not None:
        height, label = panel.level
        axes.axhline(height, color=INK, linestyle=(0, (4, 3)), linewidth=1, gid="level")
        side = axes.get_yaxis_transform()
        axes.text(1.005, height, label, transform=side, va="center", fontsize=9)
    if panel.outside is not None:
        _shade(axes, panel.outside, len(panel.keys))
    axes.set_xticks(range(len(panel.keys)), panel.keys)
    if panel.limit is not None:
        # Room above the highest bars for their numbers and whiskers.
        axes.set_ylim(0, 1.12 * panel.limit)
        axes.set_yticks([panel.limit * step / 5 for step in range(6)])
    else:
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.15 * (high - low))
        if low < 0:
            axes.axhline(0, color=INK, linewidth=0.8)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.label)
    if first:
        axes.set_ylabel(panel.unit)


def _draw_bar(
    axes: Axes,
    panel: Panel,
    value: Spread,
    group: int,
    number: int,
    identifier: str,
    *,
    numbered: bool,
) -> None:
    systems = len(panel.bars)
    width = 0.82 / systems
    position = group + (number - (systems - 1) / 2) * width
    mean = value.mean
    (bar,) = axes.bar(position, mean, 0.88 * width, color=colour(number), zorder=2)
    bar.set_gid(identifier)
    bar.set_hatch(hatch(number))
    above = below = value.deviation or 0.0
    if panel.limit is not None:
        above = min(above, panel.limit - mean)
    if value.deviation is not None:
        reach = [[below], [above]]
        axes.errorbar(position, mean, reach, color=INK, capsize=2.5, linewidth=1, zorder=3)
    if numbered:
        end, side = (mean + above, "bottom") if mean >= 0 else (mean - below, "top")
        axes.annotate(
            f"{mean:.{panel.digits}f}",
            (position, end),
            xytext=(0, 2 if mean >= 0 else -2),
            textcoords="offset points",
            ha="center",
            va=side,
            fontsize=8,
        )


def _shade(axes: Axes, first: int, keys: int) -> None:
    start, stop = first - 0.5, keys - 0.5
    axes.axvspan(start, stop, color=INK, alpha=0.08, linewidth=0, zorder=0, gid="outside")
    place = axes.get_xaxis_transform()
    axes.text(first - 0.46, 0.98, "outside the window", transform=place, va="top", fontsize=9)


def _describe(panel: Panel) -> str:
    parts = []
    for system, values in panel.bars.items():
        present = ((key, values.get(key)) for key in panel.keys)
        shown = [
            f"{key} {value.mean:.{max(panel.digits, 1)}f}"
            for key, value in present
            if value is not None
        ]
        parts.append(f"{system}: {', '.join(shown) or 'not measured'}")
    title = f"{panel.title}. " if panel.title else ""
    return f"{title}{'; '.join(parts)}."
