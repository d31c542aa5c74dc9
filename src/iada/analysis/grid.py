"""From experiments to runs: each system and seed once, in a folder that says what it is.

Runs lie in `<root>/runs/<name>/seed-<seed>`. The name has the method, what differs from it, and
a hash of all settings that can change a result, so that experiments which ask for the same run find
the same folder, and another setting never finds an old result.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iada.analysis.base import Base
from iada.analysis.plans import Experiment, System
from iada.analysis.synthetic_corpora import Synthesis, doubled_data, reversed_data
from iada.config.files import flatten, from_mapping, to_mapping
from iada.config.run import RunConfig
from iada.data.prepared import PreparedCorpus
from iada.errors import DataError
from iada.evaluation.pipeline import Job
from iada.evaluation.processes import Task

logger = logging.getLogger(__name__)

_FREE = (
    "output",
    "seed",
    "data.folder",
    "data.prepared",
    "train.keep_checkpoints",
    "train.log_every",
    "train.threads",
    "train.keep_memory",
    "decode.max_tokens",
    "decode.open_documents",
    "evaluate.comet_",
    "evaluate.slide_",
    "evaluate.test",
    "evaluate.resamples",
    "evaluate.seed",
)
"""Beginnings of keys that change neither a model nor its translation nor their scores. Where the
data lie enters the hash apart."""


@dataclass(frozen=True)
class Grid:
    """Everything that a set of experiments needs."""

    jobs: Mapping[tuple[System, int], Job]
    """Runs of the rows, by system and seed; several rows may have the same one."""
    tasks: tuple[Task, ...]
    """All runs and corpora, each once, in the order in which to begin them."""

    def runs(self, system: System, seeds: Sequence[int]) -> list[Job]:
        """Return the runs of a system, one per seed."""
        return [self.jobs[system, seed] for seed in seeds]


def build_grid(base: Base, experiments: Iterable[Experiment], seeds: Sequence[int]) -> Grid:
    """Plan the runs of experiments, and what must be made before them.

    Args:
        base: corpus and settings.
        experiments: with their rows.
        seeds: of each system.
    """
    builder = _Builder(base)
    systems = dict.fromkeys(row.system for one in experiments for row in one.rows)
    jobs = {(system, seed): builder.job(system, seed) for seed in seeds for system in systems}
    return Grid(jobs, builder.ordered())


class _Builder:
    """Gathers tasks by folder."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self.tasks: dict[Path, Task] = {}
        self.usual: dict[str, RunConfig] = {}
        self.unserved: set[str] = set()

    def job(self, system: System, seed: int) -> Job:
        """Return the run of a system, after adding it and what it needs."""
        needs: tuple[Path, ...] = ()
        config = self._changed(system)
        corpus = "real"
        if system.reverse:
            config = replace(config, data=reversed_data(config.data))
        if system.synthetic is not None:
            synthesis = self._synthesis(system, seed)
            needs = (synthesis.folder,)
            # Without the seed: seeds of one system have one name.
            corpus = synthesis.folder.parent.name
            config = replace(config, data=doubled_data(config.data, synthesis.folder))
        name = self._name(system, config, corpus)
        config = self._served(config)
        folder = self.base.root / "runs" / name / f"seed-{seed}"
        config = replace(config, output=folder, seed=seed)
        contrastive = None if system.reverse else self.base.contrastive
        job = Job(config, contrastive, is_scored=not system.reverse, needs=needs)
        self.tasks[folder] = job
        return job

    def ordered(self) -> tuple[Task, ...]:
        """Put what others need first, and then the costliest: no core waits long for the last."""
        needed = {folder for task in self.tasks.values() for folder in task.needs}

        def place(task: Task) -> tuple[bool, int]:
            return task.folder not in needed, -task.cost if isinstance(task, Job) else 0

        return tuple(sorted(self.tasks.values(), key=place))

    def _method(self, method: str) -> RunConfig:
        if method not in self.usual:
            self.usual[method] = self.base.run_config(method)
        return self.usual[method]

    def _changed(self, system: System) -> RunConfig:
        mapping = to_mapping(self._method(system.method))
        for key, value in system.changes:
            section, _, name = key.partition(".")
            mapping[section][name] = value
        return from_mapping(RunConfig, mapping, where=f"{system.method} on {self.base.name}")

    def _synthesis(self, system: System, seed: int) -> Synthesis:
        """Return the corpus that a plain run of the same seed makes, after adding both."""
        assert system.synthetic is not None
        translator = System("doc2doc", reverse=system.synthetic == "back_translate")
        run = self.job(translator, seed)
        folder = (
            self.base.root
            / "corpora"
            / f"{run.folder.parent.name}-{system.synthetic}"
            / f"seed-{seed}"
        )
        data = self._method(system.method).data
        synthesis = Synthesis(run.folder, replace(data, prepared=None), folder, system.synthetic)
        self.tasks[folder] = synthesis
        return synthesis

    def _served(self, config: RunConfig) -> RunConfig:
        """Leave the prepared corpus to those that it can serve; the others read the text."""
        if config.data.prepared is None:
            return config
        try:
            corpus = PreparedCorpus.open(config.data.prepared)
            corpus.check_settings(config.data, config.subwords, config.augment)
        except DataError:
            if config.method not in self.unserved:
                self.unserved.add(config.method)
                logger.info(
                    "%s needs another encoding than %s has: its runs read the text itself.",
                    config.method,
                    config.data.prepared,
                )
            return replace(config, data=replace(config.data, prepared=None))
        return config

    def _name(self, system: System, config: RunConfig, corpus: str) -> str:
        usual, found = (flatten(to_mapping(c)) for c in (self._method(system.method), config))
        changed = {
            key: value for key, value in found.items() if usual[key] != value and not _is_free(key)
        }
        words = [f"{key.partition('.')[2]}_{_plain(value)}" for key, value in changed.items()]
        if system.reverse:
            words = ["reverse"]
        if system.synthetic is not None:
            words.append(system.synthetic)
        settings = {key: value for key, value in found.items() if not _is_free(key)}
        origin = "mini" if self.base.origin is None else str(usual["data.folder"])
        return "-".join([system.method, *words, _digest([settings, origin, corpus])])


def _is_free(key: str) -> bool:
    return key.startswith(_FREE)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
