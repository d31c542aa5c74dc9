"""Train, translate and score several runs, as many at a time as there are cores.

Small models use one core well and two cores badly, so runs are given one thread each and run side
by side. What is finished is not done again; what was interrupted goes on from its last checkpoint.
"""

import contextlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from iada.config.run import RunConfig
from iada.training.folder import RunFolder


@dataclass(frozen=True)
class Job:
    """A run and the contrastive set to score it on."""

    config: RunConfig
    contrastive_set: Path | None = None


def run_jobs(jobs: Sequence[Job], *, workers: int) -> list[Path]:
    """Run jobs in processes of their own and return their run folders, in order."""
    waiting = [job for job in jobs if not is_finished(job)]
    total = sum(job.config.train.max_updates for job in jobs)
    # `spawn`: a forked child would inherit threads and locks of PyTorch in an unknown state.
    context = multiprocessing.get_context("spawn")
    with (
        _one_thread(),
        ProcessPoolExecutor(min(workers, max(len(waiting), 1)), mp_context=context) as pool,
        tqdm(total=total, unit="update", desc="runs", disable=not sys.stderr.isatty()) as bar,
    ):
        pending: set[Future[None]] = {pool.submit(run_job, job) for job in waiting}
        try:
            while pending:
                done, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                bar.update(sum(_updates_done(job) for job in jobs) - bar.n)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        bar.update(total - bar.n)
    return [job.config.output for job in jobs]


def run_job(job: Job) -> None:
    """Train a run to the end, translate its test split and score it.

    Messages go to `<run folder>.log`: several processes would write over each other on a terminal.
    """
    from iada.evaluation.runs import contrast_run, score_run
    from iada.training.run import train

    folder = RunFolder(job.config.output)
    folder.path.parent.mkdir(parents=True, exist_ok=True)
    log = folder.path.with_name(f"{folder.path.name}.log")
    with log.open("a", encoding="utf-8") as messages, contextlib.redirect_stderr(messages):
        if not (folder.model / "config.json").is_file():
            train(job.config, resume=folder.config_file.is_file())
        score_run(folder.path)
        if job.contrastive_set is not None:
            contrast_run(folder.path, job.contrastive_set)


def is_finished(job: Job) -> bool:
    """Whether a run has every score that the job asks for."""
    scores = RunFolder(job.config.output).scores_file
    if not scores.is_file():
        return False
    known = json.loads(scores.read_text(encoding="utf-8"))
    return "s_bleu" in known and (job.contrastive_set is None or "contrastive" in known)


def _updates_done(job: Job) -> int:
    """Return how far a run is, from the last line of its metrics."""
    with contextlib.suppress(OSError, ValueError, IndexError, KeyError):
        lines = RunFolder(job.config.output).metrics_file.read_text(encoding="utf-8").splitlines()
        return int(json.loads(lines[-1])["update"])
    return 0


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread each."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
