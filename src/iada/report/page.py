"""A report as sections of text, tables and figures, written as HTML, Markdown, LaTeX and images.

The HTML page is one self-contained file: it opens without a network, follows the reader's light or
dark setting and fits a phone. Text from documents and run folders is escaped; the same sections
give the same bytes. Beside it each table is a Markdown and a LaTeX file (which needs `booktabs` and
nothing else), each figure SVG and PNG, and `report.md` holds everything in reading order, so that
other pages can include it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iada.report.charts import Drawing, inline_svg, png_file, svg_file
from iada.report.tables import Cell, Column, Table, markdown_text, to_markdown
from iada.storage import write_bytes, write_text


def render(template: str, **values: Any) -> Markup:
    """Fill a template of the package; values are escaped unless they are `Markup`."""
    environment = Environment(
        loader=PackageLoader("iada.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["runs_of"] = _runs_of
    return Markup(environment.get_template(template).render(values))


def _runs_of(items: Iterable[Any], attribute: str) -> list[tuple[Any, list[Any]]]:
    """Gather neighbours that share an attribute; jinja's `groupby` would sort them."""
    return [(value, list(group)) for value, group in groupby(items, key=attrgetter(attribute))]


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more; `strong` for what the reader came for."""

    kind: ClassVar[str] = "paragraph"
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Heading:
    """Divides a section, for example by corpus."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class TableBlock:
    """A table with a visible caption."""

    kind: ClassVar[str] = "table"
    name: str
    """Unique on a page; its files are called so."""
    caption: str
    table: Table
    sortable: bool = True
    folded: bool = False
    """Shown only when the reader asks for it."""
    page_only: bool = False
    """Not written as a file: it names folders of this machine."""


@dataclass(frozen=True)
class FigureBlock:
    """A drawing with its caption and, where no table beside it has them, its numbers."""

    kind: ClassVar[str] = "figure"
    drawing: Drawing
    caption: str
    numbers: Table | None = None


@dataclass(frozen=True)
class Fragment:
    """Markup of our own that exists on pages only."""

    kind: ClassVar[str] = "fragment"
    html: Markup


Block = Paragraph | Heading | TableBlock | FigureBlock | Fragment


@dataclass(frozen=True)
class Section:
    """A part of the page that the navigation names."""

    identifier: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""
    """Name in the navigation, if not the title."""


_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "∗": r"$\ast$",
    "†": r"$\dagger$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "“": "``",
    "”": "''",
    "\n": " ",
}


def to_latex(table: Table, *, caption: str, label: str) -> str:
    """Write the table as a float, with its notes in the caption."""
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    words = " ".join(map(latex_text, (f"{caption}.", *table.notes)))
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        *_group_lines(table.columns),
        _line([latex_text(column.name) for column in table.columns]),
        r"\midrule",
        *(_line([_cell(cell) for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{words}}}",
        rf"\label{{tab:{label}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Escape everything that LaTeX would take for a command, and spell out signs."""
    return "".join(_SIGNS.get(character, character) for character in text)


def _line(cells: list[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _cell(cell: Cell) -> str:
    mark = rf"\textsuperscript{{{latex_text(cell.mark)}}}" if cell.mark else ""
    return latex_text(cell.text) + mark


def _group_lines(columns: tuple[Column, ...]) -> list[str]:
    """Return the headings over groups of columns, and the rules below them."""
    if not any(column.group for column in columns):
        return []
    cells, rules, start = [], [], 1
    for group, members in groupby(columns, key=lambda column: column.group):
        width = len(list(members))
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{latex_text(group)}}}")
        if group:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [_line(cells), " ".join(rules)]


def write_page(path: Path, sections: Sequence[Section], *, title: str, summary: str) -> Path:
    """Write sections as one HTML file; its folder is created."""
    text = render(
        "report.html.j2", title=title, summary=summary, sections=sections, inline_svg=inline_svg
    )
    return write_file(path, text)


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def write_file(path: Path, text: str) -> Path:
    """Write a text file whose folder may not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


TABLES, FIGURES = "tables", "figures"


def write_files(folder: Path, sections: Sequence[Section], *, title: str) -> list[Path]:
    """Write every table and figure, and `report.md` with all of them.

    Nothing is removed: see `older_files` for what an earlier report left behind.

    Returns:
        The files written.
    """
    for name in (TABLES, FIGURES):
        (folder / name).mkdir(parents=True, exist_ok=True)
    written = []
    for section in sections:
        for block in section.blocks:
            if isinstance(block, TableBlock) and not block.page_only:
                path = folder / TABLES / f"{block.name}.md"
                write_text(path, f"{markdown_text(block.caption)}\n\n{to_markdown(block.table)}")
                latex = to_latex(block.table, caption=block.caption, label=block.name)
                write_text(path.with_suffix(".tex"), latex)
                written += [path, path.with_suffix(".tex")]
            elif isinstance(block, FigureBlock):
                path = folder / FIGURES / f"{block.drawing.name}.svg"
                write_text(path, svg_file(block.drawing))
                write_bytes(path.with_suffix(".png"), png_file(block.drawing))
                written += [path, path.with_suffix(".png")]
    report = folder / "report.md"
    write_text(report, markdown_report(sections, title=title))
    return [report, *written]


def older_files(folder: Path, written: Sequence[Path]) -> list[Path]:
    """List the tables and figures in the folder that are not among those written."""
    kinds = ((TABLES, ".md"), (TABLES, ".tex"), (FIGURES, ".svg"), (FIGURES, ".png"))
    found = (path for name, ending in kinds for path in (folder / name).glob(f"*{ending}"))
    return sorted(set(found) - set(written))


def markdown_report(sections: Sequence[Section], *, title: str) -> str:
    """Return the sections as one Markdown text; figures are linked from `figures/`."""
    parts = [f"# {markdown_text(title)}\n", *map(markdown_section, sections)]
    return "\n".join(filter(None, parts))


def markdown_section(section: Section) -> str:
    """Return a section with its heading; nothing if it exists on pages only."""
    blocks = list(_markdown_blocks(section))
    if not blocks:
        return ""
    return "\n\n".join([f"## {markdown_text(section.title)}", *blocks]) + "\n"


def _markdown_blocks(section: Section) -> Iterator[str]:
    for block in section.blocks:
        if isinstance(block, Paragraph):
            text = markdown_text(block.text)
            yield f"**{text}**" if block.strong else text
        elif isinstance(block, Heading):
            yield f"### {markdown_text(block.text)}"
        elif isinstance(block, TableBlock) and not block.page_only:
            yield f"**{markdown_text(block.caption)}**"
            yield to_markdown(block.table).rstrip()
        elif isinstance(block, FigureBlock):
            drawing = block.drawing
            words = markdown_text(f"{drawing.title}. {drawing.description}")
            yield f"![{words}]({FIGURES}/{drawing.name}.svg)"
            yield markdown_text(block.caption)
