"""The tables and figures of a report as files: Markdown, LaTeX, SVG and PNG.

`report.md` holds everything in reading order and can be included in other pages as it is.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from iada.atomic import write_bytes, write_text
from iada.report.drawing import png_file, svg_file
from iada.report.latex import to_latex
from iada.report.sections import FigureBlock, Heading, Paragraph, Section, TableBlock
from iada.report.tables import markdown_text, to_markdown

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
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        blocks = list(_markdown_blocks(section))
        if blocks:
            parts += [f"## {markdown_text(section.title)}", *blocks]
    return "\n\n".join(parts) + "\n"


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
