"""Tasks as jobs of a cluster: one job per task, through `submitit`.

All machines share one file system. Beside its folder a task has two notes: `<folder>.job.json`, in
which the command writes the number of the job, and `<folder>.end.json`, in which the job writes its
exit code. So a command that was killed finds its jobs again, and nothing that a job leaves is ever
unpickled here. A job that reaches its time limit, or is preempted, returns to the queue and resumes
its run there.
"""

import importlib.util
import logging
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iada.config.experiment import ClusterConfig, ExperimentConfig
from iada.errors import ConfigError, RunError
from iada.experiments.scheduler import (
    THIS_MACHINE,
    GridTask,
    Launcher,
    StartedTask,
    do_task,
    threads_of_children,
)
from iada.storage import read_object, write_json

if TYPE_CHECKING:
    from submitit import Job, LocalExecutor, SlurmExecutor
    from submitit.helpers import DelayedSubmission

logger = logging.getLogger(__name__)

JOBS = "jobs"
"""Folder of what `submitit` writes."""
_SECONDS = {"local": 0.2, "slurm": 5.0}
"""Between two looks at the records; how often Slurm itself is asked, `submitit` decides."""
_LIVING = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "PREEMPTED", "COMPLETING")
"""What Slurm calls a job that has not ended."""
_TIME_LIMITS = 100
"""How often a job may reach its time limit: enough for a run of months in jobs of a day."""


def find_launcher(config: ExperimentConfig, root: Path) -> Launcher:
    """Return where the runs of an experiment are done.

    Args:
        config: names the executor.
        root: folder of the experiments; the jobs keep their files in it.

    Raises:
        ConfigError: `submitit` or Slurm is not installed.
    """
    if config.executor == "processes":
        return THIS_MACHINE
    if importlib.util.find_spec("submitit") is None:
        raise ConfigError(
            f"`executor` is {config.executor!r}, which needs submitit. Install it with "
            "`pip install 'iada[cluster]'`."
        )
    if config.executor == "slurm" and shutil.which("srun") is None:
        raise ConfigError(
            "`executor` is 'slurm', but there is no `srun` here. Give the command on a machine "
            "that submits jobs to Slurm, or choose `--executor local` or `processes`."
        )
    folder = root.absolute() / JOBS
    executor = (_slurm if config.executor == "slurm" else _local)(folder, config.cluster)

    def start(task: GridTask) -> StartedTask:
        if config.executor == "slurm" and (found := _find_job(task, folder)) is not None:
            return found
        attempt = uuid.uuid4().hex
        job = _submit(executor, ClusterTask(task, attempt), config.cluster)
        write_json(_note(task, "job"), {"attempt": attempt, "job": job.job_id})
        return _StartedJob(task, attempt, job)

    return Launcher(start, _SECONDS[config.executor])


@dataclass(frozen=True)
class ClusterTask:
    """What a job does."""

    task: GridTask
    attempt: str
    """Different for every job that was ever started: numbers of jobs come again."""

    def __call__(self) -> None:
        """Do the task and note how it ended."""
        code = do_task(self.task)
        write_json(_note(self.task, "end"), {"attempt": self.attempt, "exit_code": code})

    def checkpoint(self) -> "DelayedSubmission":
        """Return what is left to do when the job must make room: the task resumes by itself."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


@dataclass(frozen=True)
class _StartedJob:
    """A job in the queue or at work."""

    task: GridTask
    attempt: str
    job: "Job[None]"

    def exit_code(self) -> int | None:
        # Asked before the note is read, because the job writes it just before its end.
        is_over = self.job.done()
        end = _read_note(self.task, "end")
        # A process of this machine is waited for; Slurm hears later of an end than we do.
        if end.get("attempt") == self.attempt and (is_over or not self._is_local()):
            return int(end["exit_code"])
        if not is_over:
            return None
        return 0 if self.task.is_finished() else -1

    def describe_end(self) -> str:
        return f"its job {self.job.job_id} ended without a word ({self.job.state})."

    def stop(self) -> None:
        if self._is_local():
            self.job.cancel()
        else:
            logger.warning("Job %s goes on: %s", self.job.job_id, self.task.folder)

    def _is_local(self) -> bool:
        from submitit import LocalJob

        return isinstance(self.job, LocalJob)


def _local(folder: Path, config: ClusterConfig) -> "LocalExecutor":
    from submitit import LocalExecutor

    executor = LocalExecutor(folder, max_num_timeout=_TIME_LIMITS)
    executor.update_parameters(
        timeout_min=60 * config.hours, gpus_per_node=config.gpus, setup=config.setup
    )
    return executor


def _slurm(folder: Path, config: ClusterConfig) -> "SlurmExecutor":
    from submitit import SlurmExecutor

    executor = SlurmExecutor(folder, max_num_timeout=_TIME_LIMITS)
    executor.update_parameters(
        job_name="iada",
        partition=config.partition,
        account=config.account,
        time=max(1, round(60 * config.hours)),
        cpus_per_task=config.cpus,
        gpus_per_node=config.gpus or None,
        mem=f"{round(1024 * config.memory_gb)}M",
        setup=list(config.setup),
    )
    return executor


def _submit(
    executor: "LocalExecutor | SlurmExecutor", work: ClusterTask, config: ClusterConfig
) -> "Job[None]":
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        # Jobs inherit the environment of the command.
        with threads_of_children(config.cpus):
            return executor.submit(work)
    except (FailedJobError, FailedSubmissionError) as error:
        told = (str(error).strip() or "no reason was given").splitlines()[-1]
        raise RunError(
            f"A job for {work.task.folder} was refused: {told}. Check the keys of `cluster`."
        ) from None


def _find_job(task: GridTask, folder: Path) -> _StartedJob | None:
    """Return the job that an earlier command started, if it is still in the queue or at work."""
    from submitit import SlurmJob

    note = _read_note(task, "job")
    number, attempt = str(note.get("job")), str(note.get("attempt"))
    if not number.isdecimal() or _read_note(task, "end").get("attempt") == attempt:
        return None
    job: Job[None] = SlurmJob(folder, number)
    # A job that Slurm has forgotten counts as ended. If it should work all the same, a second one
    # waits until it is done.
    if job.done(force_check=True) or job.state.upper() not in _LIVING:
        return None
    logger.info("Job %s works on it already: %s", number, task.folder)
    return _StartedJob(task, attempt, job)


def _note(task: GridTask, kind: str) -> Path:
    return task.folder.with_name(f"{task.folder.name}.{kind}.json")


def _read_note(task: GridTask, kind: str) -> dict[str, Any]:
    try:
        return read_object(_note(task, kind))
    except (OSError, ValueError):
        return {}
