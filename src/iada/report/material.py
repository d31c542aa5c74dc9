"""Everything below some folders that a report can show: experiments, and runs of no experiment.

A run that was not trained to the end or not scored is named and left out.
"""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iada.analysis.results import RESULTS_FILE, Results, read_results
from iada.config.files import read_yaml
from iada.errors import ConfigError, RunError
from iada.report.experiment_sections import EXPERIMENTS, Found
from iada.report.runs import RunSummary, group_runs, load_run
from iada.training.folder import RunFolder


@dataclass(frozen=True)
class Material:
    """What was found."""

    experiments: tuple[Found, ...]
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
    return Material(tuple(experiments), tuple(_told_apart(runs)), tuple(left_out))


def run_folders(found: Found) -> Iterator[Path]:
    """List the runs of an experiment, row by row."""
    for row in found.results.rows:
        yield from (found.folder / run for run in row.runs)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield folders with results or runs, in order of their names; runs are not looked into."""
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


def _experiments(folders: Sequence[Path]) -> list[Found]:
    read = [(folder, read_results(folder)) for folder in folders]
    for folder, results in read:
        if results.experiment not in EXPERIMENTS:
            raise RunError(
                f"{folder / RESULTS_FILE}: the experiment is {results.experiment!r}, but must be "
                f"one of {', '.join(EXPERIMENTS)}."
            )
    read.sort(key=lambda pair: EXPERIMENTS.index(pair[1].experiment))
    times = Counter((results.experiment, results.data) for _, results in read)
    doubled = {data for (_, data), number in times.items() if number > 1}
    return [_found(folder, results, results.data in doubled) for folder, results in read]


def _found(folder: Path, results: Results, is_doubled: bool) -> Found:
    # Experiments on one corpus lie side by side, so the folder around them names them all.
    label = f"{results.data}, {folder.parent.as_posix()}" if is_doubled else results.data
    slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-") or "data"
    return Found(results, folder, label, slug)


def _told_apart(runs: Sequence[RunSummary]) -> list[RunSummary]:
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
