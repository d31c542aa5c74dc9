"""Sections about runs: results, pronouns, examples, importance, training, settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iada.errors import RunError
from iada.report import figures, heatmap, tables
from iada.report.page import (
    Block,
    FigureBlock,
    Fragment,
    Paragraph,
    Section,
    TableBlock,
    count,
    render,
    write_page,
)
from iada.report.runs import RunSummary, group_runs, settings

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView


@dataclass(frozen=True)
class Example:
    """A sentence, what came before it, and how the systems translate it."""

    source_context: Sequence[str]
    """Sentences before `source`, oldest first."""
    source: str
    reference: str
    outputs: Mapping[str, str]
    """System name to translation."""


def results_section(
    runs: Sequence[RunSummary], *, title: str = "Results", notes: Sequence[str] = ()
) -> Section:
    """Compare the systems in one table, with notes below."""
    table = TableBlock("results-table", "Results by system", tables.results_table(runs))
    return Section("results", title, (table, *map(Paragraph, notes)))


def pronoun_section(runs: Sequence[RunSummary], *, title: str = "Pronouns") -> Section | None:
    """Show accuracy by distance and by pronoun; None if no run was measured."""
    spread = "Whiskers show one standard deviation over seeds."
    blocks = []
    if _measured(runs, "by_distance", figures.DISTANCES):
        caption = (
            "Pronoun accuracy by the number of sentences between the pronoun and its antecedent. "
            "At 0 the antecedent is in the same sentence; where it lies outside the window, no "
            f"system can see it. {spread}"
        )
        numbers = tables.accuracy_table(runs, "by_distance", figures.DISTANCES)
        blocks.append(FigureBlock(figures.accuracy_by_distance(runs), caption, numbers))
    if _measured(runs, "by_class", figures.PRONOUNS):
        caption = (
            "Pronoun accuracy by the correct pronoun. A system that always writes the most "
            f"frequent one is right there and wrong elsewhere. {spread}"
        )
        numbers = tables.accuracy_table(runs, "by_class", figures.PRONOUNS)
        blocks.append(FigureBlock(figures.accuracy_by_class(runs), caption, numbers))
    return Section("pronouns-of-runs", title, tuple(blocks)) if blocks else None


def example_section(examples: Sequence[Example]) -> Section | None:
    """Show translated sentences side by side; None without any."""
    if not examples:
        return None
    html = render("examples.html.j2", examples=examples)
    return Section("examples", "Examples", (Fragment(html),))


def importance_section(views: Sequence["WindowView"], note: str = "") -> Section | None:
    """Show the heat map of some windows; None without any."""
    if not views:
        return None
    blocks: list[Block] = [Paragraph(note)] if note else []
    blocks.append(Fragment(heatmap.to_html(views)))
    return Section("importance", "Token importance", tuple(blocks), "Importance")


def training_section(groups: Mapping[str, Sequence[RunSummary]]) -> Section | None:
    """Show training curves, one figure per group of runs; None if no run has metrics.

    Args:
        groups: runs to draw together, by the name of what they have in common.
    """
    caption = (
        "One line per run, cut at the top where training begins. Left: validation, with a dot at "
        "the best. Right: label-smoothed NLL of the original view; systems that never learn from "
        "it show the perturbed view."
    )
    blocks = []
    for number, (name, runs) in enumerate(groups.items(), start=1):
        if any(run.metrics for run in runs):
            drawing = figures.training_curves(runs, name=f"training-{number}")
            words = f"{name}. {caption}" if name else caption
            blocks.append(FigureBlock(drawing, words))
    return Section("training", "Training", tuple(blocks)) if blocks else None


def settings_section(runs: Sequence[RunSummary]) -> Section:
    """Show how the runs were made: what differs, and every setting of each system."""
    systems = group_runs(runs)
    differences = tables.differences_table(runs)
    blocks: list[Block] = []
    if differences.rows and len(systems) > 1:
        caption = "Settings in which the systems differ"
        blocks.append(TableBlock("differences", caption, differences, sortable=False))
    shown = [(system, _by_section(system.runs[0])) for system in systems]
    blocks.append(Fragment(render("runs.html.j2", systems=shown)))
    return Section("runs", "How the runs were made", tuple(blocks), "Runs")


def _measured(runs: Sequence[RunSummary], part: str, keys: Sequence[str]) -> bool:
    return any(run.accuracy(part, key) is not None for run in runs for key in keys)


def _by_section(run: RunSummary) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings(run.config).items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section or "run", {})[name] = value
    return sections


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
