"""The report of everything that was found: answers first, then tables, then how it was made."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iada.errors import RunError
from iada.report.experiment_sections import (
    EXPERIMENTS,
    Found,
    experiment_sections,
    missing_experiments,
    verdicts,
)
from iada.report.material import Material
from iada.report.page import count, summary_of_runs
from iada.report.row_settings import complete
from iada.report.run_sections import (
    importance_section,
    pronoun_section,
    results_section,
    settings_section,
    training_section,
)
from iada.report.runs import RunSummary, load_run
from iada.report.sections import Block, Paragraph, Section, TableBlock
from iada.report.tables import Cell, Column, Table
from iada.training.folder import RunFolder

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView


def report_sections(
    material: Material,
    *,
    heat_map: Sequence["WindowView"] = (),
    heat_map_note: str = "",
) -> list[Section]:
    """Return all sections of the report.

    Args:
        material: what was found.
        heat_map: windows whose token importance to show.
        heat_map_note: of which run they are, or why there are none.
    """
    groups, unread = _training_groups(material)
    left_out = [*material.left_out, *unread]
    runs = material.runs
    sections = [
        _answers(material, left_out, "" if heat_map else heat_map_note),
        *experiment_sections(material.experiments),
        results_section(runs, title="Runs of no experiment") if runs else None,
        pronoun_section(runs, title="Pronouns of these runs") if runs else None,
        training_section(groups),
        importance_section(heat_map, heat_map_note),
        _rows_section(material.experiments) if material.experiments else None,
        settings_section(runs) if runs else None,
    ]
    return [section for section in sections if section is not None]


def report_summary(material: Material) -> str:
    """Count what the report shows."""
    parts = []
    if material.experiments:
        corpora = list(dict.fromkeys(item.label for item in material.experiments))
        number = count(len(material.experiments), "experiment")
        parts.append(f"{number} on {', '.join(corpora)}")
    if material.runs:
        parts.append(summary_of_runs(material.runs))
    return "; ".join(parts)


def run_with_importance(material: Material) -> Path | None:
    """Return the first run that measures importance and still has its model."""
    measures = ("gnorm", "tnorm")
    folders = [
        item.folder / run
        for item in material.experiments
        for row in item.results.rows
        if complete(row.settings).get("augment.measure") in measures
        for run in row.runs
    ]
    folders += [
        run.folder
        for run in material.runs
        if run.config.get("augment", {}).get("measure") in measures
    ]
    return next((path for path in folders if RunFolder(path).model.is_dir()), None)


def _answers(material: Material, left_out: Sequence[str], note: str) -> Section | None:
    found = material.experiments
    blocks: list[Block] = [Paragraph(answer.headline, strong=True) for answer in verdicts(found)]
    if found and not blocks:
        words = "Whether importance beats the uniform control is not known: run `controls`."
        blocks.append(Paragraph(words, strong=True))
    blocks += map(Paragraph, missing_experiments(found))
    if left_out:
        blocks.append(Paragraph(f"Left out: {'; '.join(left_out)}."))
    if note:
        blocks.append(Paragraph(note))
    return Section("answers", "In short", tuple(blocks)) if blocks else None


def _training_groups(material: Material) -> tuple[dict[str, list[RunSummary]], list[str]]:
    """Choose the runs whose curves to draw: those of the first experiment of each corpus."""
    groups: dict[str, list[RunSummary]] = {}
    unread = []
    for label in dict.fromkeys(item.label for item in material.experiments):
        items = [item for item in material.experiments if item.label == label]
        first = min(items, key=lambda item: EXPERIMENTS.index(item.results.experiment))
        title = f"{first.results.title} ({label})"
        runs, lost = _runs_of(first)
        if lost:
            unread.append(f"training curves of {title}: {count(lost, 'run')} not there any more")
        if runs:
            groups[title] = runs
    if material.runs:
        groups["Runs of no experiment" if groups else ""] = list(material.runs)
    return groups, unread


def _runs_of(found: Found) -> tuple[list[RunSummary], int]:
    """Read the runs of an experiment, and count those that cannot be read."""
    runs, lost = [], 0
    for row in found.results.rows:
        for folder in row.runs:
            try:
                runs.append(load_run(found.folder / folder, name=row.label))
            except RunError:
                lost += 1
    return runs, lost


def _rows_section(found: Sequence[Found]) -> Section:
    """Say for each row which settings it has and in which folders its runs lie."""
    blocks = []
    for item in found:
        rows = []
        for row in item.results.rows:
            settings = ", ".join(f"{key} = {value}" for key, value in row.settings.items())
            folders = ", ".join((item.folder / run).as_posix() for run in row.runs)
            rows.append(tuple(Cell(text, text) for text in (row.label, settings, folders)))
        names = ("System", "Settings", "Runs")
        table = Table(tuple(Column(name, numeric=False) for name in names), tuple(rows))
        caption = f"{item.results.title} ({item.label})"
        blocks.append(TableBlock(item.name("rows"), caption, table, folded=True, page_only=True))
    return Section("rows", "How the rows were made", tuple(blocks), "Rows")
