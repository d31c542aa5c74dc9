"""What all figures share: colours, style, bars and curves, and how a drawing becomes SVG or PNG.

Inline SVG takes text, axes and rules from the colour of the surrounding text; each system has one
colour, a CSS variable `--series-1` and so on, with a fallback for pages that define none. Files
have fixed colours on white. The same numbers give the same bytes: no dates and no random ids.
Bars and curves have whiskers of one standard deviation over seeds.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from iada.evaluation.metrics import SeedMean

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
INK = "#1b1f25"
"""Text and axes; inline, it becomes the colour of the surrounding text."""
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
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
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Drawing:
    """A figure with the words that stand for it."""

    name: str
    """Unique on a page: its ids begin with it, and its files are called so."""
    title: str
    description: str
    """The numbers in words."""
    figure: Figure


@contextlib.contextmanager
def new_figure(height: float = 3.9) -> Iterator[Figure]:
    """Give an empty figure in the style of the reports, for as long as it is drawn."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9, height), layout="constrained")
        yield figure
        # Settled once: laid out again for each file, places would differ in their last digits.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def inline_svg(drawing: Drawing) -> Markup:
    """Return SVG for the middle of a page, coloured by the page and with ids of its own."""
    text = _svg(drawing.figure)
    text = re.sub(r'id="|href="#|url\(#', lambda found: f"{found[0]}{drawing.name}-", text)
    text = text.replace(INK, "currentColor").replace("'DejaVu Sans', sans-serif", "sans-serif")
    for number, colour in enumerate(PALETTE, start=1):
        text = text.replace(colour, f"var(--series-{number}, {colour})")
    return Markup(_with_words(drawing, text))


def svg_file(drawing: Drawing) -> str:
    """Return SVG that stands alone, with fixed colours."""
    return f'<?xml version="1.0" encoding="utf-8"?>\n{_with_words(drawing, _svg(drawing.figure))}\n'


def png_file(drawing: Drawing) -> bytes:
    """Return the drawing as PNG on white."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        drawing.figure.savefig(
            buffer, format="png", dpi=160, facecolor="white", metadata={"Software": None}
        )
    return buffer.getvalue()


def draw_grid(axes: Axes) -> None:
    """Draw faint horizontal rules behind everything else."""
    axes.grid(axis="y", color=INK, alpha=0.18, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=3)


def draw_legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    """Put the legend above the axes, in at most three columns."""
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


def line_handle(number: int, label: str) -> Line2D:
    """Return the legend's sample of a curve."""
    return Line2D([], [], color=colour(number), linestyle=dash(number), linewidth=2, label=label)


def bar_handle(number: int, label: str) -> Patch:
    """Return the legend's sample of a bar."""
    return Patch(facecolor=colour(number), hatch=hatch(number), label=label)


def colour(number: int) -> str:
    """Return the colour of a system; from the ninth on they come again."""
    return PALETTE[number % len(PALETTE)]


def dash(number: int) -> Literal["-", "--", ":"]:
    """Tell curves apart that share a colour."""
    dashes: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")
    return dashes[number // len(PALETTE) % len(dashes)]


def hatch(number: int) -> str | None:
    """Tell bars apart that share a colour."""
    return "///" if number >= len(PALETTE) else None


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    absent = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata=absent)
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def _with_words(drawing: Drawing, svg: str) -> str:
    """Give the picture a role, a title and its numbers in words."""
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    name = drawing.name
    words = (
        f'<title id="{name}-title">{escape(drawing.title)}</title>'
        f'<desc id="{name}-desc">{escape(drawing.description)}</desc>'
    )
    head = (
        f'<svg {_NAMESPACES} {box[0]} role="img" aria-labelledby="{name}-title" '
        f'aria-describedby="{name}-desc">'
    )
    return f"{head}{words}{svg[svg.index('>') + 1 :]}"


Bars = Mapping[str, Mapping[str, SeedMean | None]]
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
        words: what the numbers are, before they are listed one by one.
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
    value: SeedMean,
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


Curves = Mapping[str, Mapping[float, SeedMean]]
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
    return Drawing(name, title, f"{words} {' '.join(map(_describe_chart, charts))}", figure)


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


def _describe_chart(chart: Chart) -> str:
    parts = []
    for name, curve in chart.curves.items():
        shown = [f"{x:g}: {value.mean:.{chart.digits}f}" for x, value in curve.items()]
        parts.append(f"{name} at {', '.join(shown) or 'no position'}")
    title = f"{chart.title}. " if chart.title else ""
    level = f" {chart.level[1]} {chart.level[0]:.{chart.digits}f}." if chart.level else ""
    return f"{title}{'; '.join(parts)}.{level}"
