"""What a page is made of: sections of text, tables and figures, in reading order.

Pages and Markdown files are written from the same sections.
"""

from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup

from iada.report.drawing import Drawing
from iada.report.tables import Table


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more; `strong` for what the reader came for."""

    kind: ClassVar[str] = "paragraph"
    text: str
    strong: bool = False


@dataclass(frozen=True)
class Heading:
    """Parts a section, for example by corpus."""

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
    """Not written as a file: it speaks of folders of this machine."""


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
