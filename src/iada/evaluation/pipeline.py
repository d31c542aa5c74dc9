"""Train, translate and score several runs, as many at a time as there are cores.

Small models use one core well and two cores badly, so runs are given one thread each and run side
by side. What is finished is not done again; what was interrupted goes on from its last checkpoint.
"""

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from iada.config.run import RunConfig
from iada.errors import RunError
from iada.evaluation.processes import Failure, Task, run_in_processes
from iada.training.folder import RunFolder

if TYPE_CHECKING:
    from iada.evaluation.segments import SegmentScorer


@dataclass(frozen=True)
class Job:
    """A run to train and score."""

    config: RunConfig
    contrastive_set: Path | None = None
    """Set to score the run on."""
    is_scored: bool = True
    """Whether to translate and score the test split; not for runs that only make data."""
    needs: tuple[Path, ...] = ()
    """Folders of other tasks that must be done before."""

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.config.output

    @property
    def cost(self) -> int:
        """Roughly how many forward and backward passes an update takes."""
        augment = self.config.augment
        views = 1 + (augment.perturbs and augment.learns_from_original)
        return 2 * views + (augment.measure == "gnorm")

    def is_finished(self) -> bool:
        """Whether the run has every score that is asked for."""
        folder = RunFolder(self.config.output)
        if not self.is_scored:
            return (folder.model / "config.json").is_file()
        try:
            known = json.loads(folder.scores_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        except ValueError:
            raise RunError(
                f"{folder.scores_file} is not valid JSON. Remove it, and the run is scored again."
            ) from None
        wanted = {"s_bleu"} if self.config.evaluate.comet_python is None else {"s_bleu", "comet"}
        contrasted = self.contrastive_set is None or (
            known.get("contrastive", {}).get("set") == self.contrastive_set.name
        )
        return wanted <= known.keys() and contrasted

    def run(self) -> None:
        """Train the run to the end, translate its test split and score it."""
        from iada.evaluation.runs import contrast_run, score_run
        from iada.training.run import train

        folder = RunFolder(self.config.output)
        if not (folder.model / "config.json").is_file():
            began = folder.config_file.is_file()
            if not began:
                _clear_false_start(folder)
            train(self.config, resume=began)
        if not self.is_scored:
            return
        with self._comet() as scorer:
            score_run(folder.path, config=self.config.evaluate, scorer=scorer)
        if self.contrastive_set is not None:
            contrast_run(folder.path, self.contrastive_set)

    def updates_done(self) -> int:
        """Return how far the run is, from the last line of its metrics."""
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            metrics = RunFolder(self.config.output).metrics_file
            lines = metrics.read_text(encoding="utf-8").splitlines()
            return int(json.loads(lines[-1])["update"])
        return 0

    @contextlib.contextmanager
    def _comet(self) -> "Iterator[SegmentScorer | None]":
        """Start COMET if it is configured."""
        if self.config.evaluate.comet_python is None:
            yield None
            return
        from iada.evaluation.comet import CometProcess

        with CometProcess(self.config.evaluate) as scorer:
            yield scorer


def run_jobs(jobs: Sequence[Job], *, workers: int) -> list[Path]:
    """Run jobs in processes of their own and return their run folders, in order.

    Raises:
        RunError: runs have failed; all others are done.
    """
    if failures := attempt(jobs, workers=workers):
        raise RunError(describe_failures(failures, len(jobs)))
    return [job.folder for job in jobs]


def attempt(tasks: Sequence[Task], *, workers: int) -> tuple[Failure, ...]:
    """Do every task that can be done, show how far they are, and return those that failed.

    Args:
        tasks: jobs, and whatever they need.
        workers: most processes at a time.
    """
    jobs = [task for task in tasks if isinstance(task, Job)]
    total = sum(job.config.train.max_updates for job in jobs)
    with tqdm(total=total, unit="update", desc="runs", disable=not sys.stderr.isatty()) as bar:

        def done(task: Task, seconds: float) -> None:
            name = "/".join(task.folder.parts[-2:])
            bar.write(f"{name}: done in {seconds:.0f} s", file=sys.stderr)

        def watch() -> None:
            bar.update(sum(job.updates_done() for job in jobs) - bar.n)

        return run_in_processes(tasks, workers=workers, watch=watch, done=done)


def describe_failures(failures: Sequence[Failure], total: int) -> str:
    """Say what was not done, what to do about it, and that the rest is safe."""
    lines = "\n".join(f"  {failure}" for failure in failures)
    return (
        f"{len(failures)} of {total} tasks failed; the others are done and kept.\n{lines}\n"
        "Mend the cause and give the same command again."
    )


def _clear_false_start(folder: RunFolder) -> None:
    """Remove what a kill left before the run began, and nothing else."""
    # `write_text` writes beside its target, so a cut file has another name.
    for name in (".config.yaml.*", ".environment.json.*", folder.environment_file.name):
        for leftover in folder.path.glob(name):
            leftover.unlink()
