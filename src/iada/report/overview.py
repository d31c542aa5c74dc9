"""The report of everything below some folders: answers first, then tables, then how it was made.

Experiments are found by their results, runs by their configuration. Results that differ in their
seeds alone are one experiment, and a run that an experiment has is shown there and not again. A run
that was not trained to the end or not scored is named and left out.
"""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iada.config.base import read_yaml
from iada.errors import ConfigError, RunError
from iada.experiments.definitions import experiment_names
from iada.experiments.results import (
    RESULTS_FILE,
    Results,
    join_seeds,
    moved_runs,
    read_results,
)
from iada.report.own_runs import compare_own_runs
from iada.report.page import Block, Paragraph, Section, TableBlock, count
from iada.report.paper import complete
from iada.report.run_sections import (
    importance_section,
    pronoun_section,
    results_section,
    settings_section,
    summary_of_runs,
    training_section,
)
from iada.report.runs import RunSummary, group_runs, load_run
from iada.report.tables import Cell, Column, Table
from iada.report.verdict import importance_sentence
from iada.report.views import (
    LocatedResults,
    experiment_sections,
    help_gains,
    help_section,
    importance_verdicts,
    missing_experiments,
)
from iada.runs.folder import RunFolder

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView


@dataclass(frozen=True)
class Material:
    """What was found."""

    experiments: tuple[LocatedResults, ...]
    runs: tuple[RunSummary, ...]
    """Finished runs that no experiment has."""
    left_out: tuple[str, ...]
    """Folders of runs that cannot be shown, each with the reason."""


def find_material(folders: Sequence[Path]) -> Material:
    """Look for results and runs in the folders and below them.

    Raises:
        RunError: a folder does not exist, nothing can be shown, or results cannot be read.
    """
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"{folder} is not a folder. Give run folders or experiment folders.")
    found = dict.fromkeys(path for folder in folders for path in _walk(folder))
    every = _experiments([path for path in found if (path / RESULTS_FILE).is_file()])
    experiments = [item for item in every if item.results.rows]
    left_out = [
        f"{item.folder.as_posix()} (no row is finished)" for item in every if not item.results.rows
    ]
    taken = {path.resolve() for item in experiments for path in run_folders(item)}
    runs = []
    for path in found:
        if _is_run(path) and path.resolve() not in taken:
            reason = _unfinished(path)
            if reason:
                left_out.append(f"{path.as_posix()} ({reason})")
            else:
                runs.append(load_run(path))
    if not experiments and not runs:
        reasons = f" Left out: {'; '.join(left_out)}." if left_out else ""
        names = ", ".join(map(str, folders))
        raise RunError(
            f"There is nothing to report on in {names}: no scored run and no {RESULTS_FILE}."
            f"{reasons} Score a run with `iada evaluate`, or run `iada experiment`."
        )
    return Material(tuple(experiments), tuple(_with_distinct_names(runs)), tuple(left_out))


def run_folders(found: LocatedResults) -> Iterator[Path]:
    """List the runs of an experiment, row by row."""
    for row in found.results.rows:
        yield from (found.folder / run for run in row.runs)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield folders with results or runs, in order of their names; run folders are not searched."""
    for place, inner, files in os.walk(folder):
        path = Path(place)
        is_run = "config.yaml" in files and _is_run(path)
        if is_run or RESULTS_FILE in files:
            yield path
        inner[:] = [] if is_run else sorted(inner)


def _is_run(folder: Path) -> bool:
    file = folder / "config.yaml"
    if not file.is_file():
        return False
    try:
        config = read_yaml(file)
    except ConfigError:
        return False
    return "method" in config and "seed" in config


def _unfinished(folder: Path) -> str:
    run = RunFolder(folder)
    if not (run.model / "config.json").is_file():
        return "not trained to the end"
    if not run.scores_file.is_file():
        return "not scored"
    return ""


def _experiments(folders: Sequence[Path]) -> list[LocatedResults]:
    names = experiment_names()
    read = [(folder, read_results(folder)) for folder in folders]
    for folder, results in read:
        if results.experiment not in names:
            raise RunError(
                f"{folder / RESULTS_FILE}: the experiment is {results.experiment!r}, but must be "
                f"one of {', '.join(names)}."
            )
    read = _with_joined_seeds(read)
    read.sort(key=lambda pair: names.index(pair[1].experiment))
    times = Counter((results.experiment, results.data) for _, results in read)
    doubled = {data for (_, data), number in times.items() if number > 1}
    return [_found(folder, results, results.data in doubled) for folder, results in read]


def _with_joined_seeds(read: Sequence[tuple[Path, Results]]) -> list[tuple[Path, Results]]:
    """Make one of results that differ in their seeds alone; it stands where the first one did."""
    joined: list[tuple[Path, Results]] = []
    for folder, results in read:
        for place, (home, others) in enumerate(joined):
            whole = join_seeds(others, moved_runs(results, folder, home))
            if whole is not None:
                joined[place] = home, whole
                break
        else:
            joined.append((folder, results))
    return joined


def _found(folder: Path, results: Results, is_doubled: bool) -> LocatedResults:
    # Experiments on one corpus are side by side, so the folder around them names them all.
    label = f"{results.data}, {folder.parent.as_posix()}" if is_doubled else results.data
    return LocatedResults(results, folder, label)


def _with_distinct_names(runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Add the folder to the name of runs that share it without being seeds of one system."""
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run)
    named = []
    for group in groups.values():
        try:
            group_runs(group)
        except RunError:
            group = [
                dataclasses.replace(run, name=f"{run.name} ({run.folder.as_posix()})")
                for run in group
            ]
        named += group
    return named


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
    compared = compare_own_runs(runs)
    left_out += compared.problems
    sections = [
        _answers(material, compared.verdicts, left_out, "" if heat_map else heat_map_note),
        help_section(material.experiments),
        *experiment_sections(material.experiments),
        results_section(runs, title="Other runs" if material.experiments else "Results")
        if runs
        else None,
        *compared.sections,
        pronoun_section(runs, title="Pronouns of other runs") if runs else None,
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
    from iada.method.importance import MEASURES

    measures = [name for name, measure in MEASURES.items() if measure.is_measured]
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


def _answers(
    material: Material, verdicts: Sequence[str], left_out: Sequence[str], note: str
) -> Section | None:
    found = material.experiments
    blocks: list[Block] = []
    if found:
        blocks.append(Paragraph(importance_sentence(help_gains(found)), strong=True))
    blocks += [Paragraph(answer.headline) for answer in importance_verdicts(found)]
    # Of runs alone, the first verdict is what the reader came for.
    blocks += [Paragraph(text, not found and text is verdicts[0]) for text in verdicts]
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
        # They are in the order of the report.
        first = items[0]
        title = f"{first.results.title} ({label})"
        runs, lost = _runs_of(first)
        if lost:
            unread.append(f"training curves of {title}: {count(lost, 'run')} not there any more")
        if runs:
            groups[title] = runs
    if material.runs:
        groups["Other runs" if groups else ""] = list(material.runs)
    return groups, unread


def _runs_of(found: LocatedResults) -> tuple[list[RunSummary], int]:
    """Read the runs of an experiment, and count those that cannot be read."""
    runs, lost = [], 0
    for row in found.results.rows:
        for folder in row.runs:
            try:
                runs.append(load_run(found.folder / folder, name=row.label))
            except RunError:
                lost += 1
    return runs, lost


def _rows_section(found: Sequence[LocatedResults]) -> Section:
    """Say for each row which settings it has and in which folders its runs are."""
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
