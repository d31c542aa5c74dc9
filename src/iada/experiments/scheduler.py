"""Run tasks in processes of their own: some after others, as many at a time as there are cores.

A task that fails, or whose process is killed, does not stop the others: everything that does not
depend on it is still done. A process ends with its parent, and holds its log file while it works,
so that a task which was started twice is done once. Where a task is started is the business of a
`Launcher`: processes of this machine are here, jobs of a cluster in `iada.experiments.cluster`.

Small models use one core well and two cores badly, so runs get one thread each and run side by
side. Finished runs are not repeated; interrupted ones are resumed from their last checkpoint.
"""

import contextlib
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from tqdm import tqdm

from iada.config.evaluate import EvaluateConfig
from iada.config.run import RunConfig
from iada.data.prepared.encoding import begin_worker
from iada.errors import IadaError, RunError
from iada.runs.folder import RunFolder
from iada.storage import read_object

if TYPE_CHECKING:
    from iada.evaluation.metrics import SegmentScorer

# Between two updates of the progress bar.
_WATCH_SECONDS = 1.0


class GridTask(Protocol):
    """Something to make: a run or a corpus. It can be sent to another process."""

    @property
    def folder(self) -> Path:
        """What the task makes. Its log is the file beside it, with `.log` at the end."""

    @property
    def needs(self) -> Sequence[Path]:
        """Folders of the tasks that must be done before."""

    def is_finished(self) -> bool:
        """Whether nothing is left to do."""

    def run(self) -> None:
        """Do what is left to do."""


@dataclass(frozen=True)
class Failure:
    """A task that was not done."""

    folder: Path
    reason: str
    log: Path | None = None
    """Where to read more; None if the task was never begun."""

    def __str__(self) -> str:
        more = "" if self.log is None else f" Its messages are in {self.log}."
        return f"{self.folder}: {self.reason}{more}"


def log_file(folder: Path) -> Path:
    """Return the file with the messages of a task."""
    return folder.with_name(f"{folder.name}.log")


class StartedTask(Protocol):
    """A task that somebody works on."""

    def exit_code(self) -> int | None:
        """Return None while it is worked on, 0 when it is done, and another number if it failed."""

    def describe_end(self) -> str:
        """Say how the work ended if the task's log cannot, because it was killed."""

    def stop(self) -> None:
        """Let go of the task, because this command ends before it."""


@dataclass(frozen=True)
class Launcher:
    """Where tasks are started."""

    start: Callable[[GridTask], StartedTask]
    seconds: float = 0.1
    """Between two questions how far the tasks are."""


@dataclass(frozen=True)
class _OwnProcess:
    """A task in a process of this machine, which ends with this one."""

    process: BaseProcess

    def exit_code(self) -> int | None:
        return self.process.exitcode

    def describe_end(self) -> str:
        code = self.process.exitcode
        return f"its process ended with code {code}, perhaps because memory ran out."

    def stop(self) -> None:
        self.process.terminate()
        self.process.join()


def start_process(task: GridTask) -> StartedTask:
    """Start a task in a process of its own, with one thread."""
    # `spawn`: a forked child would inherit threads and locks of PyTorch in an unknown state.
    process = multiprocessing.get_context("spawn").Process(target=_run_process, args=(task,))
    with threads_of_children(1):
        process.start()
    return _OwnProcess(process)


THIS_MACHINE = Launcher(start_process)


def run_tasks(
    tasks: Sequence[GridTask],
    *,
    workers: int,
    launcher: Launcher = THIS_MACHINE,
    watch: Callable[[], None] = lambda: None,
    done: Callable[[GridTask, float], None] = lambda task, seconds: None,
) -> tuple[Failure, ...]:
    """Do the tasks that are not finished, in order as far as what they need is there.

    Args:
        tasks: with different folders.
        workers: most tasks at a time.
        launcher: where they are done.
        watch: called about once a second.
        done: called with every task that was done just now, and how many seconds it took.

    Returns:
        What was not done and why.
    """
    waiting = [task for task in tasks if not task.is_finished()]
    absent = {task.folder for task in waiting}
    failures: dict[Path, Failure] = {}
    running: dict[Path, tuple[GridTask, StartedTask, float]] = {}
    watched = 0.0
    try:
        while waiting or running:
            for task in [task for task in waiting if failures.keys() & {*task.needs}]:
                waiting.remove(task)
                failures[task.folder] = _never_begun(task, failures)
            for task in [task for task in waiting if not absent & {*task.needs}]:
                if len(running) < workers:
                    waiting.remove(task)
                    task.folder.parent.mkdir(parents=True, exist_ok=True)
                    running[task.folder] = task, launcher.start(task), time.monotonic()
            for task, started, began in [*running.values()]:
                code = started.exit_code()
                if code is not None:
                    del running[task.folder]
                    if code == 0:
                        absent.discard(task.folder)
                        done(task, time.monotonic() - began)
                    else:
                        failures[task.folder] = _failure(task, code, started)
            if time.monotonic() - watched > _WATCH_SECONDS:
                watch()
                watched = time.monotonic()
            if running:
                time.sleep(launcher.seconds)
    finally:
        for _, started, _ in running.values():
            started.stop()
    return tuple(failures.values())


def _run_process(task: GridTask) -> None:
    begin_worker()
    sys.exit(do_task(task))


def do_task(task: GridTask) -> int:
    """Do a task in this process, with its messages in its log, and return an exit code."""
    with (
        log_file(task.folder).open("a", encoding="utf-8") as messages,
        _locked(messages),
        contextlib.redirect_stderr(messages),
    ):
        try:
            if not task.is_finished():
                task.run()
        except IadaError as error:
            print(f"error: {error}", file=messages)
            return 2
        except Exception:
            traceback.print_exc(file=messages)
            return 1
    return 0


def _failure(task: GridTask, code: int, started: StartedTask) -> Failure:
    log = log_file(task.folder)
    if code in (1, 2):
        lines = log.read_text(encoding="utf-8").strip().splitlines()
        return Failure(task.folder, lines[-1].removeprefix("error: ") if lines else "failed.", log)
    return Failure(task.folder, started.describe_end(), log)


def _never_begun(task: GridTask, failures: dict[Path, Failure]) -> Failure:
    missing = ", ".join(str(folder) for folder in task.needs if folder in failures)
    return Failure(task.folder, f"was not begun, because it needs {missing}.")


@contextlib.contextmanager
def _locked(file: TextIO) -> Iterator[None]:
    """Wait for a file and hold it; the system lets go of it however the process ends."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        # Not a POSIX system: nothing keeps two commands apart.
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    yield


@contextlib.contextmanager
def threads_of_children(count: int) -> Iterator[None]:
    """Let processes that are started meanwhile use so many threads each."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


@dataclass(frozen=True)
class Job:
    """A run to train and score."""

    config: RunConfig
    contrastive_set: Path | None = None
    """Set to score the run on."""
    comet: EvaluateConfig | None = None
    """Settings with the user's own interpreter and model of COMET; None leaves COMET out."""
    cxmi: bool = False
    """Whether to measure how much the model uses its context."""
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
        # Imports PyTorch, which a process that does another task does not need.
        from iada.method.importance import MEASURES

        augment = self.config.augment
        views = 1 + (augment.perturbs and augment.learns_from_original)
        return 2 * views + (MEASURES[augment.measure].needs == "gradients")

    def is_finished(self) -> bool:
        """Whether the run has every score that is asked for."""
        folder = RunFolder(self.config.output)
        if not self.is_scored:
            return (folder.model / "config.json").is_file()
        known = self._known_scores()
        asked = (("s_bleu", True), ("comet", self.comet is not None), ("cxmi", self.cxmi))
        required = {score for score, is_asked in asked if is_asked}
        return required <= known.keys() and self._is_contrasted(known)

    def _known_scores(self) -> dict[str, Any]:
        """Return what the run has been scored with; nothing yet is empty."""
        path = RunFolder(self.config.output).scores_file
        try:
            known: dict[str, Any] = read_object(path)
        except FileNotFoundError:
            return {}
        except ValueError:
            raise RunError(
                f"{path} is not valid JSON. Remove it, and the run is scored again."
            ) from None
        return known

    def _is_contrasted(self, known: Mapping[str, Any]) -> bool:
        name = known.get("contrastive", {}).get("set")
        return self.contrastive_set is None or name == self.contrastive_set.name

    def run(self) -> None:
        """Train the run to the end, translate its test split and score it."""
        from iada.evaluation.comet import without_comet
        from iada.evaluation.score_runs import contrast_run, measure_context_use, score_run
        from iada.training.train import train

        folder = RunFolder(self.config.output)
        # Scores of a model that is trained anew are not its own.
        known = self._known_scores() if folder.has_model() else {}
        if not folder.has_model():
            train(self.config, resume=folder.config_file.is_file())
        else:
            # A power cut after the model got its name leaves a lock, and the model it replaced.
            with folder.lock("training in"):
                folder.remove_leftovers()
        if not self.is_scored:
            return
        with self._comet() as scorer:
            config = self.comet or without_comet(self.config.evaluate)
            score_run(folder.path, config=config, scorer=scorer)
        if self.contrastive_set is not None and not self._is_contrasted(known):
            contrast_run(folder.path, self.contrastive_set)
        if self.cxmi and "cxmi" not in known:
            measure_context_use(folder.path)

    def updates_done(self) -> int:
        """Return how far the run is, from the last line of its metrics."""
        with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
            metrics = RunFolder(self.config.output).metrics_file
            lines = metrics.read_text(encoding="utf-8").splitlines()
            return int(json.loads(lines[-1])["update"])
        return 0

    @contextlib.contextmanager
    def _comet(self) -> "Iterator[SegmentScorer | None]":
        """Start COMET if the user has one."""
        if self.comet is None:
            yield None
            return
        from iada.evaluation.comet import CometProcess

        with CometProcess(self.comet) as scorer:
            yield scorer


def run_jobs(jobs: Sequence[Job], *, workers: int) -> list[Path]:
    """Run jobs in processes of their own and return their run folders, in order.

    Raises:
        RunError: runs have failed; all others are done.
    """
    if failures := attempt(jobs, workers=workers):
        raise RunError(describe_failures(failures, len(jobs)))
    return [job.folder for job in jobs]


def attempt(
    tasks: Sequence[GridTask], *, workers: int, launcher: Launcher = THIS_MACHINE
) -> tuple[Failure, ...]:
    """Do every task that can be done, show how far they are, and return those that failed.

    Args:
        tasks: jobs, and whatever they need.
        workers: most tasks at a time.
        launcher: where they are done.
    """
    jobs = [task for task in tasks if isinstance(task, Job)]
    total = sum(job.config.train.max_updates for job in jobs)
    with tqdm(total=total, unit="update", desc="runs", disable=not sys.stderr.isatty()) as bar:

        def done(task: GridTask, seconds: float) -> None:
            name = "/".join(task.folder.parts[-2:])
            bar.write(f"{name}: done in {seconds:.0f} s", file=sys.stderr)

        def watch() -> None:
            bar.update(sum(job.updates_done() for job in jobs) - bar.n)

        return run_tasks(tasks, workers=workers, launcher=launcher, watch=watch, done=done)


def describe_failures(failures: Sequence[Failure], total: int) -> str:
    """Say what was not done, what to do about it, and that the rest is safe."""
    lines = "\n".join(f"  {failure}" for failure in failures)
    return (
        f"{len(failures)} of {total} tasks failed; the others are done and kept.\n{lines}\n"
        "Remove the cause and give the same command again."
    )
