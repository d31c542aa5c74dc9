"""`iada experiment`: train, score and compare everything that a table or figure needs."""

import inspect
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iada.cli.parsing import parse_dataclass
from iada.config.experiment import MINI_CORPORA, ExperimentConfig
from iada.errors import IadaError, RunError

if TYPE_CHECKING:
    from iada.experiments.grid import Base, Grid
    from iada.experiments.plan import Experiment

EXAMPLES = (
    "iada experiment main --dry_run",
    "iada experiment main ablation --data recipe.yaml --jobs 2",
)


def parse(arguments: Sequence[str]) -> ExperimentConfig:
    """Parse the arguments of `iada experiment`."""
    from iada.experiments.definitions import ALL, choose_experiments, experiment_names

    names = ", ".join((*experiment_names(), ALL))
    description = f"{inspect.getdoc(ExperimentConfig)}\n\nExperiments: {names}."
    config = parse_dataclass(
        ExperimentConfig,
        arguments,
        program="iada experiment",
        examples=EXAMPLES,
        description=description,
    )
    # Refused here, before anything is read or written.
    choose_experiments(config.names)
    return config


def run(config: ExperimentConfig) -> Path:
    """Run the experiments, print their tables, and return the folder of the corpus.

    Raises:
        RunError: runs or results have failed; everything else is done and written.
    """
    from iada.experiments.definitions import build_experiment, choose_experiments
    from iada.experiments.grid import build_grid, open_base
    from iada.experiments.plan import Ranges, with_rows
    from iada.runs.folder import LOCK
    from iada.storage import lock_file

    base = open_base(config)
    ranges = Ranges(config.low_resource_shares, config.alphas, mbart=config.mbart, bert=config.bert)
    experiments = [build_experiment(name, ranges) for name in choose_experiments(config.names)]
    if config.rows:
        experiments = [with_rows(experiment, config.rows) for experiment in experiments]
    else:
        for experiment in experiments:
            for line in experiment.left_out:
                print(f"{experiment.name}: left out 1 row, {line}", file=sys.stderr)
    grid = build_grid(base, experiments, config.seeds)
    if config.dry_run:
        print(describe_grid(config, base, experiments, grid))
        return base.root
    base.root.mkdir(parents=True, exist_ok=True)
    with lock_file(base.root / LOCK, f"running experiments in {base.root}"):
        problems = _run_all(config, base, experiments, grid)
    if problems:
        raise RunError("\n".join(problems))
    return base.root


def _run_all(
    config: ExperimentConfig, base: "Base", experiments: "Sequence[Experiment]", grid: "Grid"
) -> list[str]:
    """Do the tasks, write and print the results, and return what went wrong."""
    from iada.experiments.cluster import find_launcher
    from iada.experiments.scheduler import attempt, describe_failures

    started = time.perf_counter()
    launcher, workers = find_launcher(config, base.root), _workers(config, len(grid.tasks))
    open_tasks = sum(not task.is_finished() for task in grid.tasks)
    print(
        f"{len(grid.tasks)} tasks, {open_tasks} of them open, {workers} at a time, in {base.root}",
        file=sys.stderr,
    )
    if base.mini_corpus is not None:
        from iada.data.mini import MiniConfig, write_mini_corpus

        version, size = MINI_CORPORA[base.name]
        write_mini_corpus(base.mini_corpus, MiniConfig(version=version, size=size))
    failures = attempt(grid.tasks, workers=workers, launcher=launcher)
    problems = [describe_failures(failures, len(grid.tasks))] if failures else []
    for experiment in experiments:
        try:
            _conclude(config, base, experiment, grid)
        except IadaError as error:
            problems.append(f"{experiment.name}: {error}")
    print(f"{time.perf_counter() - started:.0f} s. Results: {base.root}", file=sys.stderr)
    return problems


def _workers(config: ExperimentConfig, tasks: int) -> int:
    """Return how many tasks there may be at a time."""
    usual = tasks if config.executor == "slurm" else os.cpu_count() or 1
    return min(config.jobs or usual, tasks)


def describe_grid(
    config: ExperimentConfig, base: "Base", experiments: "Sequence[Experiment]", grid: "Grid"
) -> str:
    """List the tasks and say which experiment uses how many of them."""
    done = {task.folder for task in grid.tasks if task.is_finished()}
    lines = [
        f"{len(grid.tasks)} tasks in {base.root}, of which {len(done)} are done; "
        f"{base.run_config('doc2doc').train.max_updates} updates each:"
    ]
    for task in grid.tasks:
        state = "done" if task.folder in done else "open"
        after = f", after {task.needs[0].relative_to(base.root)}" if task.needs else ""
        lines.append(f"  {task.folder.relative_to(base.root)}: {state}{after}")
    for experiment in experiments:
        folders = {
            job.folder for row in experiment.rows for job in grid.runs(row.system, config.seeds)
        }
        lines.append(f"{experiment.name}: {len(experiment.rows)} rows, {len(folders)} runs")
    return "\n".join(lines)


def _conclude(
    config: ExperimentConfig, base: "Base", experiment: "Experiment", grid: "Grid"
) -> None:
    """Write the results of an experiment and print its table."""
    from iada.experiments.collection import collect
    from iada.experiments.results import RESULTS_FILE, write_results
    from iada.report.views import results_markdown
    from iada.storage import write_text

    folder = base.root / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    results = collect(experiment, grid, base, config.seeds, folder)
    write_results(folder / RESULTS_FILE, results)
    text = results_markdown(results)
    write_text(folder / "results.md", text)
    print(text)
