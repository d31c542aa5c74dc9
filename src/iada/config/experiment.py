"""Which experiments to run, on which data, where, and how many runs at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from iada.config.base import require
from iada.config.run import MiniSize, MiniVersion

MINI = "mini"
"""Value of `data` that stands for the embedded corpus, in the scarce setting."""
MINI_CORPORA: dict[str, tuple[MiniVersion, MiniSize]] = {
    MINI: (2, "scarce"),
    "mini-plentiful": (2, "plentiful"),
    "mini-v1": (1, "plentiful"),
}
"""Values of `data` that stand for the embedded corpus: its version and setting."""
PAPER_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MINI_SHARES = (0.2, 0.5, 1.0)
"""Fewer: every share costs a run of each system, and the mini corpus is a demonstration."""


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """What a job of a cluster asks for; every run is a job of its own."""

    partition: str | None = None
    """Slurm's partition; None takes the cluster's own choice."""
    account: str | None = None
    """Slurm's account; None takes the user's own."""
    hours: float = 24.0
    """After so long a job is stopped, put into the queue again and resumed there."""
    cpus: int = 1
    """Cores, and threads, of a job."""
    gpus: int = 0
    """GPUs of a job; a run uses one."""
    memory_gb: float = 16.0
    """Memory of a job."""
    setup: tuple[str, ...] = ()
    """Shell commands before the job, such as `module load cuda`."""

    def __post_init__(self) -> None:
        require(self.hours > 0, "cluster.hours", "above 0", self.hours)
        require(self.cpus > 0, "cluster.cpus", "1 or more", self.cpus)
        require(self.gpus in (0, 1), "cluster.gpus", "0 or 1: a run uses one GPU", self.gpus)
        require(self.memory_gb > 0, "cluster.memory_gb", "above 0", self.memory_gb)


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Run named experiments: every run is trained once, however many tables it is in.

    Finished runs are not repeated, and interrupted ones are resumed.
    """

    names: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="NAME..."),
    ]
    """Experiments by name, or `all` of them."""
    data: str = MINI
    """`mini` (the embedded corpus in its scarce setting), `mini-plentiful`, `mini-v1` (version 1,
    plentiful), a recipe (YAML file), or a folder that `iada prepare` wrote inside its corpus."""
    seeds: tuple[int, ...] = (1,)
    """Each system is trained once per seed."""
    output: Path = Path("runs/experiments")
    """Folder of all experiments. Those on one corpus share `<output>/<data>/runs`."""
    jobs: int = 0
    """Runs at a time; 0 takes one per core of this machine or, with Slurm, as many as the queue
    takes."""
    executor: Literal["processes", "local", "slurm"] = "processes"
    """Where runs are done: in processes of this machine that end with the command, or as jobs of
    their own through `submitit`, on this machine (`local`) or on a cluster (`slurm`)."""
    cluster: ClusterConfig = ClusterConfig()
    """What each job asks for."""
    updates: int | None = None
    """Updates of each run, if not those of the recipe or, for the embedded corpus, 1500 (`mini`),
    2400 (`mini-plentiful`) or 1000 (`mini-v1`)."""
    contrastive: Path | None = None
    """Contrastive set in ContraPro's form; the mini corpus has its own."""
    cxmi: bool = False
    """Also measure how much every run uses its context on the test split (CXMI)."""
    shares: tuple[float, ...] | None = None
    """Shares of the training documents in `low_resource`; by default 0.2, 0.5 and 1 for the mini
    corpus, and the paper's 0.2, 0.3, ... 1 for any other."""
    rows: tuple[str, ...] = ()
    """Keys of the rows to keep, as in `results.json`; rows that they are compared with stay too. By
    default all."""
    alphas: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0)
    """Values of `augment.alpha` in `alpha_sweep`."""
    mbart: str | None = None
    """Folder or hub name of an mBART, for the row of `main` that starts from one; without it the
    row is left out."""
    bert: str | None = None
    """Folder or hub name of a BERT of the source language, for the two rows of `main` whose encoder
    it is; without it the rows are left out."""
    dry_run: bool = False
    """List the runs and what each experiment uses, and stop."""

    def __post_init__(self) -> None:
        require(len(self.names) > 0, "names", "at least one experiment", self.names)
        require(len(self.seeds) > 0, "seeds", "at least one seed", self.seeds)
        for key in ("seeds", "shares", "rows", "alphas"):
            values = getattr(self, key) or ()
            require(len(set(values)) == len(values), key, "all different", values)
        require(self.jobs >= 0, "jobs", "0 or more", self.jobs)
        require(self.updates is None or self.updates > 0, "updates", "above 0", self.updates)
        require(len(self.alphas) > 0, "alphas", "at least one value", self.alphas)
        require(all(alpha >= 0 for alpha in self.alphas), "alphas", "0 or more", self.alphas)
        shares = self.low_resource_shares
        require(len(shares) > 0, "shares", "at least one share", shares)
        in_range = all(0 < share <= 1 for share in shares)
        require(in_range, "shares", "more than 0 and at most 1", shares)

    @property
    def low_resource_shares(self) -> tuple[float, ...]:
        """Shares of the training documents, given or usual."""
        usual = MINI_SHARES if self.data in MINI_CORPORA else PAPER_SHARES
        return usual if self.shares is None else self.shares
