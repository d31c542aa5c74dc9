"""What all figures share: colours, style, and how a drawing becomes SVG or PNG.

Inline SVG takes text, axes and rules from the colour of the surrounding text; each system has one
colour, a CSS variable `--series-1` and so on, with a fallback for pages that define none. Files
have fixed colours on white. The same numbers give the same bytes: no dates and no random ids.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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
def new_figure() -> Iterator[Figure]:
    """Give an empty figure in the style of the reports, for as long as it is drawn."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
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
    """Part curves that share a colour."""
    dashes: tuple[Literal["-", "--", ":"], ...] = ("-", "--", ":")
    return dashes[number // len(PALETTE) % len(dashes)]


def hatch(number: int) -> str | None:
    """Part bars that share a colour."""
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
