"""One self-contained HTML page from sections of text, tables and figures.

It opens without a network, follows the reader's light or dark setting and fits a phone. Text from
documents and run folders is escaped; the same sections give the same bytes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iada.atomic import write_text
from iada.errors import RunError
from iada.report import heatmap
from iada.report.drawing import inline_svg
from iada.report.markup import render
from iada.report.run_sections import (
    Example,
    example_section,
    importance_section,
    pronoun_section,
    results_section,
    settings_section,
    training_section,
)
from iada.report.runs import RunSummary, group_runs
from iada.report.sections import Section

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView


def write_report(
    path: Path,
    runs: Sequence[RunSummary],
    *,
    title: str,
    heat_map: Sequence["WindowView"] = (),
    notes: Sequence[str] = (),
    examples: Sequence[Example] = (),
) -> Path:
    """Write the report of some runs as one HTML file.

    Args:
        path: the file; its folder is created.
        runs: in the order in which the systems appear.
        title: heading of the page.
        heat_map: windows whose token importance to show.
        notes: sentences to print below the results.
        examples: translated sentences to show side by side.

    Returns:
        The path written.
    """
    if not runs:
        raise RunError("There is no run to report on. Give at least one run folder.")
    sections = (
        results_section(runs, notes=notes),
        pronoun_section(runs),
        example_section(examples),
        importance_section(heat_map),
        training_section({"": runs}),
        settings_section(runs),
    )
    present = [section for section in sections if section is not None]
    return write_page(path, present, title=title, summary=summary_of_runs(runs))


def write_page(path: Path, sections: Sequence[Section], *, title: str, summary: str) -> Path:
    """Write sections as one HTML file; its folder is created."""
    text = render(
        "report.html.j2", title=title, summary=summary, sections=sections, inline_svg=inline_svg
    )
    return _write(path, text)


def write_heat_map(path: Path, views: Sequence["WindowView"], title: str) -> Path:
    """Write a page with the heat map alone."""
    return _write(path, heatmap.page(title, views))


def summary_of_runs(runs: Sequence[RunSummary]) -> str:
    """Count systems and runs, and name their languages."""
    systems = group_runs(runs)
    counts = f"{count(len(systems), 'system')}, {count(len(runs), 'run')}"
    languages = {
        (data["source_language"], data["target_language"])
        for data in (run.config.get("data", {}) for run in runs)
        if "source_language" in data and "target_language" in data
    }
    pairs = ", ".join(f"{source} → {target}" for source, target in sorted(languages))
    return f"{counts}, {pairs}" if pairs else counts


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path
