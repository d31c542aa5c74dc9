"""From experiments to runs: each system and seed once, in a folder that says what it is.

A base is what all runs of an experiment share: the corpus and the settings that no row changes.
Runs are in `<root>/runs/<name>/seed-<seed>`. The name has the method, what differs from it, and
a hash of all settings that can change a result, so that experiments which ask for the same run find
the same folder, and another setting never finds an old result. What a run needs before it can begin
is a task of the same grid: the run whose weights it starts from, or a corpus that a trained run
makes, real documents and as many translated ones.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from iada.config.base import flatten, from_mapping, read_yaml, require, to_mapping
from iada.config.data import DataConfig, Split
from iada.config.evaluate import EvaluateConfig
from iada.config.experiment import MINI_CORPORA, ExperimentConfig
from iada.config.method import Method
from iada.config.run import RunConfig, load_run_config, mini_run
from iada.data.formats.readers import file_format
from iada.data.prepared.prepared_corpus import MANIFEST, PreparedCorpus
from iada.errors import ConfigError, DataError
from iada.evaluation.comet import with_own_comet
from iada.experiments.plan import Experiment, Synthetic, System
from iada.experiments.scheduler import GridTask, Job
from iada.runs.corpus import check_prepared
from iada.storage import sha256
from iada.synthesis.translated import synthesize, synthetic_data


@dataclass(frozen=True)
class Base:
    """A corpus and the settings of its runs."""

    name: str
    """Name of the corpus."""
    root: Path
    """Folder of everything that is made from it."""
    origin: Path | None
    """Recipe or prepared folder; None for the mini corpus."""
    updates: int | None
    """Updates of each run, if not the recipe's."""
    contrastive: Path | None
    """Contrastive set of all runs."""
    cxmi: bool
    """Whether to measure how much each run uses its context."""

    @property
    def mini_corpus(self) -> Path | None:
        """Where the mini corpus is to be written; None if another corpus is used."""
        return self.root / "corpus" if self.origin is None else None

    def run_config(self, method: str) -> RunConfig:
        """Return the run of a method, with its output and seed still open."""
        name = cast(Method, method)
        if self.mini_corpus is not None:
            version, size = MINI_CORPORA[self.name]
            return mini_run(
                name,
                corpus=self.mini_corpus,
                output=self.root,
                version=version,
                size=size,
                updates=self.updates,
            )
        assert self.origin is not None
        if self.origin.is_dir():
            config = _prepared_run(self.origin, name)
        else:
            config = load_run_config(self.origin, method=name)
        if self.updates is None:
            return config
        train = dataclasses.replace(
            config.train,
            max_updates=self.updates,
            validate_every=min(config.train.validate_every, self.updates),
        )
        return dataclasses.replace(config, train=train)


def open_base(config: ExperimentConfig) -> Base:
    """Find the corpus of an experiment and check that its runs can read it.

    Raises:
        ConfigError: there is no such corpus, or its recipe says what experiments decide.
        DataError: a prepared corpus is not what its recipe says.
    """
    if config.data in MINI_CORPORA:
        root = config.output / config.data
        contrastive = config.contrastive or root / "corpus" / "contrastive.json"
        return Base(config.data, root, None, config.updates, contrastive, config.cxmi)
    origin = Path(config.data)
    if not origin.exists():
        raise ConfigError(
            f"`data` is {config.data!r}, but there is no such file or folder. Give `mini`, a "
            "recipe, or a folder that `iada prepare` wrote."
        )
    name = _name(origin)
    root = config.output / name
    base = Base(name, root, origin, config.updates, config.contrastive, config.cxmi)
    if origin.is_file() and read_yaml(origin).get("augment"):
        raise ConfigError(
            f"{origin}: has an `augment` section, but each row of an experiment has its own. "
            "Remove the section."
        )
    run = base.run_config("doc2doc")
    if run.data.prepared is not None:
        corpus = PreparedCorpus.open(run.data.prepared)
        check_prepared(corpus, run)
    return base


def _name(origin: Path) -> str:
    """Name a corpus by its recipe or folder; `config` and `prepared` are names of anything."""
    resolved = origin.resolve()
    parts = [resolved.parent.name, resolved.stem if origin.is_file() else resolved.name]
    name = "-".join(part for part in parts if part not in ("config", "prepared", ""))
    # The embedded corpora have folders of their own.
    return f"{name}-recipe" if name in MINI_CORPORA else name


def _prepared_run(folder: Path, method: Method) -> RunConfig:
    """Return the paper's run on a prepared corpus; the text lies in the folder around it."""
    corpus = PreparedCorpus.open(folder)
    mapping = to_mapping(load_run_config(None, method=method))
    mapping["data"] |= {"folder": str(folder.parent), "prepared": str(folder)}
    for key, value in corpus.manifest["settings"].items():
        section, _, name = key.partition(".")
        # The ciphers of an encoding are decided by the method.
        if section != "augment":
            mapping[section][name] = value
    config = from_mapping(RunConfig, mapping, where=str(folder / MANIFEST))
    expected = corpus.manifest["inputs"].get("test")
    paths = config.data.paths("test")
    if [sha256(path) for path in paths if path.is_file()] != expected:
        raise DataError(
            f"{folder}: the test split from which it was prepared is not in {config.data.folder}. "
            "Give a recipe with `data.folder` and `data.prepared` instead."
        )
    return config


@dataclass(frozen=True)
class Synthesis:
    """Double the training data by translating one of its sides."""

    run_folder: Path
    """The translator."""
    data: DataConfig
    """The real corpus."""
    folder: Path
    """Corpus folder to write."""
    kind: Synthetic

    @property
    def needs(self) -> tuple[Path, ...]:
        """The run must be trained before."""
        return (self.run_folder,)

    def is_finished(self) -> bool:
        """Whether the corpus is there; it appears as a whole."""
        return self.folder.is_dir()

    def run(self) -> None:
        """Translate, or resume translating, and write the corpus."""
        synthesize(self.run_folder, self.data, self.folder, kind=self.kind)


def reversed_data(data: DataConfig) -> DataConfig:
    """Return the same corpus in the other direction, read from its text."""
    _check_readable_both_ways(data)
    return replace(
        data,
        source_language=data.target_language,
        target_language=data.source_language,
        prepared=None,
    )


def _check_readable_both_ways(data: DataConfig) -> None:
    splits: tuple[Split, ...] = ("train", "dev", "test")
    for split in splits:
        form, name = file_format(data, split), getattr(data, split)
        rule = (
            "text, tsv or jsonl files with both languages named, so that they can be read in both "
            "directions and written again (experiment `bt_ft`)"
        )
        sides = "{side}" in name or form not in ("text", "tsv", "jsonl")
        require(not sides, f"data.{split}", rule, name)


logger = logging.getLogger(__name__)

_FREE = (
    "output",
    "seed",
    "data.folder",
    "data.prepared",
    "train.keep_checkpoints",
    "train.log_every",
    "train.report_to",
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
"""Beginnings of keys that change neither a model nor its translation nor their scores. The place
of the data enters the hash separately."""

_YOUNG = ("model.frozen_context",)
"""Keys that had no name yet when runs were trained that are still of use: without a value they do
not enter the hash."""


@dataclass(frozen=True)
class Grid:
    """Everything that a set of experiments needs."""

    jobs: Mapping[tuple[System, int], Job]
    """Runs of the rows, by system and seed; several rows may have the same one."""
    tasks: tuple[GridTask, ...]
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
        self.tasks: dict[Path, GridTask] = {}
        self.usual: dict[str, RunConfig] = {}
        self.unserved: set[str] = set()
        self.comet: EvaluateConfig | None = None

    def job(self, system: System, seed: int) -> Job:
        """Return the run of a system, after adding it and what it needs."""
        needs: tuple[Path, ...] = ()
        first = None if system.start is None else self.job(system.start, seed).folder
        config = self._changed(system, first)
        corpus = "real"
        if first is not None:
            needs = (first,)
        if system.reverse:
            config = replace(config, data=reversed_data(config.data))
        if system.synthetic is not None:
            synthesis = self._synthesis(system, seed)
            needs = (*needs, synthesis.folder)
            # Without the seed: seeds of one system have one name.
            corpus = synthesis.folder.parent.name
            config = replace(config, data=synthetic_data(config.data, synthesis.folder))
        name = self._name(system, config, corpus)
        config = self._served(config)
        folder = self.base.root / "runs" / name / f"seed-{seed}"
        config = replace(config, output=folder, seed=seed)
        contrastive = None if system.reverse else self.base.contrastive
        job = Job(
            config,
            contrastive,
            self._comet(config),
            cxmi=self.base.cxmi,
            is_scored=not system.reverse,
            needs=needs,
        )
        self.tasks[folder] = job
        return job

    def ordered(self) -> tuple[GridTask, ...]:
        """Put what others need first, and then the costliest: no core waits long for the last."""
        needed = {folder for task in self.tasks.values() for folder in task.needs}

        def place(task: GridTask) -> tuple[bool, int]:
            return task.folder not in needed, -task.cost if isinstance(task, Job) else 0

        return tuple(sorted(self.tasks.values(), key=place))

    def _comet(self, config: RunConfig) -> EvaluateConfig | None:
        """Return the settings of COMET if the user's environment names one."""
        if self.comet is None:
            # Once, so that a recipe that names one is pointed out once.
            self.comet = with_own_comet(config.evaluate)
        return None if self.comet.comet_python is None else self.comet

    def _method(self, method: str) -> RunConfig:
        if method not in self.usual:
            self.usual[method] = self.base.run_config(method)
        return self.usual[method]

    def _changed(self, system: System, start: Path | None) -> RunConfig:
        mapping = to_mapping(self._method(system.method))
        if start is not None:
            mapping["train"]["start"] = str(start)
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
            check_prepared(corpus, config)
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
        if config.train.start is not None:
            # By name: neither its place nor its seed makes another system.
            found["train.start"] = config.train.start.parent.name
        changed = {
            key: value for key, value in found.items() if usual[key] != value and not _is_free(key)
        }
        words = [f"{key.partition('.')[2]}_{_plain(value)}" for key, value in changed.items()]
        if system.reverse:
            words = ["reverse"]
        if system.synthetic is not None:
            words.append(system.synthetic)
        settings = {
            key: value
            for key, value in found.items()
            if not _is_free(key) and not (value is None and key in _YOUNG)
        }
        origin = self.base.name if self.base.origin is None else str(usual["data.folder"])
        return "-".join([system.method, *words, _digest([settings, origin, corpus])])


def _is_free(key: str) -> bool:
    return key.startswith(_FREE)


def _plain(value: object) -> str:
    """Write a value as a part of a folder's name; of a path, its last part."""
    return f"{value:g}" if isinstance(value, float) else str(value).rpartition("/")[2]


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
