"""Token importance and replacement probability, painted on the text, for terminal and browser.

Fill shows importance as standard deviations from the mean of the window's side: orange above it,
blue below. The probability of replacement is a number in the terminal and a bar in the browser.
`windows_of_run` chooses the windows of a run's test data that a report shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from iada.analysis.importance_map import WindowView, importance_map
from iada.data.documents import Document, ParallelDocument
from iada.data.formats.readers import read_split
from iada.data.windows.batch import Role
from iada.decoding.translator import DocumentTranslator
from iada.method.importance import MEASURES
from iada.report.page import render, write_file
from iada.report.tables import Cell, Column, Table, text_width, to_text
from iada.runs.folder import RunFolder

if TYPE_CHECKING:
    from iada.analysis.importance_map import TokenView

SPACE = "▁"
STRONGEST = 2.5
"""Standard deviations at which the fill is strongest."""
_SEPARATOR = "<sep>"
# Backgrounds of the 256-colour palette from weak to strong; all carry black text.
_ABOVE = (230, 223, 216, 208)
_BELOW = (195, 153, 117, 75)


@dataclass(frozen=True)
class Chip:
    """A token as the page shows it."""

    text: str
    starts_word: bool
    kind: str
    """`above`, `below` or `special`."""
    fill: float
    """Strength of the fill, from 0 to 1."""
    bar: float
    """Replacement probability as a share of the page's largest, from 0 to 1."""
    tip: str


@dataclass(frozen=True)
class Sentence:
    """The tokens of one sentence of a window."""

    label: str
    is_current: bool
    chips: tuple[Chip, ...]


@dataclass(frozen=True)
class HeatMapSide:
    """Source or target of a window."""

    name: str
    sentences: tuple[Sentence, ...]
    numbers: Table


def to_terminal(views: Sequence["WindowView"], *, colour: bool, width: int = 100) -> str:
    """Show every window: painted tokens over their probabilities, or a table without colour.

    Args:
        views: the windows.
        colour: write ANSI colours; without them, one line per token.
        width: columns of the terminal, for painted tokens.
    """
    parts = []
    if colour:
        scale = "".join(_paint(f" {z:+.1f} ", z) for z in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5))
        parts.append(f"Importance z {scale}  Below each token: replacement probability in %\n")
    for view in views:
        parts.append(f"{_printable(view.document)}, {view.place}")
        for name, tokens in (("source", view.source), ("target", view.target)):
            parts.append(f"  {name}")
            if colour:
                parts.extend(_painted(tokens, width - 4))
            else:
                parts.append(to_text(_numbers(tokens)))
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def to_html(views: Sequence["WindowView"]) -> Markup:
    """Return the heat map as a fragment for a page that has the report's styles."""
    largest = max((token.probability for token in _all_tokens(views)), default=0.0)
    windows = [
        (view, [_side("Source", view.source, largest), _side("Target", view.target, largest)])
        for view in views
    ]
    return render("heat_map.html.j2", windows=windows, largest=largest, strongest=STRONGEST)


def page(title: str, views: Sequence["WindowView"]) -> str:
    """Return a stand-alone page with the heat map alone."""
    return str(render("heat_map_page.html.j2", title=title, heat_map=to_html(views)))


def _all_tokens(views: Sequence["WindowView"]) -> Iterator["TokenView"]:
    for view in views:
        yield from view.source
        yield from view.target


def _side(name: str, tokens: Sequence["TokenView"], largest: float) -> HeatMapSide:
    groups = list(_sentences(tokens))
    # Several sentences may be current, and a model may read some that come after them.
    holding = [n for n, group in enumerate(groups) if any(t.role is Role.CURRENT for t in group)]
    first, last = (holding[0], holding[-1]) if holding else (len(groups) - 1,) * 2
    sentences = []
    for number, group in enumerate(groups):
        label = "current"
        if number < first:
            label = f"{first - number} back"
        elif number > last:
            label = f"{number - last} ahead"
        chips = tuple(_chip(token, largest) for token in group)
        sentences.append(Sentence(label, first <= number <= last, chips))
    return HeatMapSide(name, tuple(sentences), _numbers(tokens))


def _sentences(tokens: Sequence["TokenView"]) -> Iterator[list["TokenView"]]:
    """Cut a side after every separator."""
    sentence: list[TokenView] = []
    for token in tokens:
        sentence.append(token)
        if token.role is Role.SPECIAL and token.piece == _SEPARATOR:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _chip(token: "TokenView", largest: float) -> Chip:
    if token.role is Role.SPECIAL:
        return Chip(token.piece, True, "special", 0.0, 0.0, "special token: never replaced")
    tip = (
        f"importance {token.importance:.3g}, z {token.z:+.2f}, "
        f"replaced with probability {token.probability:.1%}"
    )
    return Chip(
        # A piece can be the space alone.
        text=token.piece.removeprefix(SPACE) or SPACE,
        starts_word=token.piece.startswith(SPACE),
        kind="above" if token.z >= 0 else "below",
        fill=round(min(abs(token.z) / STRONGEST, 1.0), 3),
        bar=round(token.probability / largest, 3) if largest > 0 else 0.0,
        tip=tip,
    )


def _numbers(tokens: Sequence["TokenView"]) -> Table:
    names = ("Token", "Role"), ("Importance", "z", "Replaced %")
    columns = [Column(n, numeric=False) for n in names[0]] + [Column(n) for n in names[1]]
    return Table(tuple(columns), tuple(_number_row(token) for token in tokens))


def _number_row(token: "TokenView") -> tuple[Cell, ...]:
    piece, role = _printable(token.piece), token.role.name.lower()
    words = (Cell(piece, piece), Cell(role, role))
    if token.role is Role.SPECIAL:
        return (*words, *(Cell(None, "–") for _ in range(3)))
    return (
        *words,
        Cell(token.importance, f"{token.importance:.3g}"),
        Cell(token.z, f"{token.z:+.2f}"),
        Cell(token.probability, f"{token.probability:.1%}".removesuffix("%")),
    )


def _painted(tokens: Sequence["TokenView"], width: int) -> Iterator[str]:
    """Yield pairs of lines: painted tokens, and the probability under each."""
    for sentence in _sentences(tokens):
        above, below, used = "", "", 0
        for token in sentence:
            text = _printable(token.piece.replace(SPACE, " "))
            special = token.role is Role.SPECIAL
            number = "" if special else f"{100 * token.probability:.1f}"
            cell = max(text_width(text), len(number) + 1)
            if used and used + cell > width:
                yield f"    {above}\n    {below}"
                above, below, used = "", "", 0
            text += " " * (cell - text_width(text))
            above += f"\x1b[2m{text}\x1b[0m" if special else _paint(text, token.z)
            below += f"\x1b[2m{number:>{cell}}\x1b[0m"
            used += cell
        yield f"    {above}\n    {below}"


def _paint(text: str, z: float) -> str:
    shades = _ABOVE if z >= 0 else _BELOW
    strength = min(abs(z) / STRONGEST, 1.0)
    shade = shades[min(int(strength * len(shades)), len(shades) - 1)]
    return f"\x1b[48;5;{shade};38;5;16m{text}\x1b[0m"


def _printable(text: str) -> str:
    """Replace control characters: a document must not steer the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def windows_of_run(folder: Path, count: int) -> list[WindowView]:
    """Measure windows of the first test document, from the first one with a full context on.

    Runs without importance of their own are measured by GNorm.

    Args:
        folder: the run; its test data must still be where they were.
        count: how many windows, if the document has as many.
    """
    config = RunFolder(folder).config()
    translator = DocumentTranslator.load(folder)
    document = read_split(config.data, "test")[0]
    stride = config.windows.stride
    # The first window whose context is complete.
    first = -(-config.windows.context // stride)
    measure = config.augment.measure
    measured = measure if MEASURES[measure].is_measured else "gnorm"
    views = importance_map(
        translator.model,
        translator.subwords,
        [_beginning(document, (first + count) * stride)],
        augment=replace(config.augment, measure=measured),
        windows=translator.windows,
        frame=translator.frame,
    )
    begin = min(first, max(len(views) - count, 0))
    return views[begin : begin + count]


def _beginning(document: ParallelDocument, sentences: int) -> ParallelDocument:
    source, target = (
        Document(side.name, side.sentences[:sentences])
        for side in (document.source, document.target)
    )
    return ParallelDocument(source, target)


def write_heat_map(path: Path, views: Sequence["WindowView"], title: str) -> Path:
    """Write a page with the heat map alone."""
    return write_file(path, page(title, views))
