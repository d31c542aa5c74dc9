"""`iada report`: one page of everything that runs and experiments have found."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.base import require
from iada.errors import IadaError

if TYPE_CHECKING:
    from iada.analysis.importance_map import WindowView
    from iada.report.overview import Material

EXAMPLES = (
    "iada report runs",
    "iada report runs/mine runs/plain --output report.html",
)


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Show results as one HTML page, and as tables and figures beside it."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER...")]
    """Run folders, experiment folders, or folders around them: everything below is found."""
    output: Path = Path("report.html")
    """Page to write. Tables and figures go to a folder beside it: `report_files` for
    `report.html`."""
    title: str = "Importance-aware data augmentation"
    """Heading of the page."""
    heat_map: Path | None = None
    """Run whose token importance to show; by default the first importance-aware run."""
    windows: int = 4
    """Windows of the heat map; 0 for none."""
    dry_run: bool = False
    """Say what was found and stop."""

    def __post_init__(self) -> None:
        require(len(self.folders) > 0, "folders", "at least one folder", self.folders)
        require(self.windows >= 0, "windows", "0 or more", self.windows)


def parse(arguments: Sequence[str]) -> ReportCommand:
    """Parse the arguments of `iada report`."""
    return parse_dataclass(ReportCommand, arguments, program="iada report", examples=EXAMPLES)


def run(command: ReportCommand) -> Path | None:
    """Write the page and its files, print the answers, and return the page."""
    from iada.report.overview import find_material, report_sections, report_summary
    from iada.report.page import older_files, write_files, write_page
    from iada.report.views import importance_verdicts

    material = find_material(command.folders)
    summary = report_summary(material)
    for line in material.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if command.dry_run:
        print(summary)
        return None
    views, note = _heat_map(command, material)
    sections = report_sections(material, heat_map=views, heat_map_note=note)
    page = write_page(command.output, sections, title=command.title, summary=summary)
    folder = command.output.with_name(f"{command.output.stem}_files")
    written = write_files(folder, sections, title=command.title)
    older = older_files(folder, written)
    if older:
        names = ", ".join(path.name for path in older)
        print(f"{folder} has {len(older)} files of an earlier report: {names}", file=sys.stderr)
    for answer in importance_verdicts(material.experiments):
        print(f"{answer.headline}\n  {answer.numbers}")
    print(f"{page}: {summary}\n{folder}: {len(written)} files")
    return page


def _heat_map(command: ReportCommand, material: "Material") -> "tuple[list[WindowView], str]":
    """Measure some windows of a run, and say which; without data or model, say why not."""
    from iada.report.heatmap import windows_of_run
    from iada.report.overview import run_with_importance

    folder = command.heat_map or run_with_importance(material)
    if command.windows == 0 or folder is None:
        return [], ""
    try:
        views = windows_of_run(folder, command.windows)
    except (IadaError, FileNotFoundError) as problem:
        if command.heat_map is not None:
            raise
        return [], f"No heat map of {folder.as_posix()}: {problem}"
    # Results name their runs relative to their own folder.
    place = Path(os.path.normpath(folder)).as_posix()
    return views, f"Importance as the run {place} measures it, on test sentences."
