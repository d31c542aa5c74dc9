"""What all runs of an experiment share: the corpus and the settings that no row changes."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from iada.config.experiment import MINI, ExperimentConfig
from iada.config.files import from_mapping, load_run_config, read_yaml, to_mapping
from iada.config.methods import Method
from iada.config.mini import mini_run
from iada.config.run import RunConfig
from iada.data.prepared import MANIFEST, PreparedCorpus, sha256
from iada.errors import ConfigError, DataError


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

    @property
    def mini_corpus(self) -> Path | None:
        """Where the mini corpus is to be written; None if another corpus is used."""
        return self.root / "corpus" if self.origin is None else None

    def run_config(self, method: str) -> RunConfig:
        """Return the run of a method, with its output and seed still open."""
        name = cast(Method, method)
        if self.mini_corpus is not None:
            return mini_run(name, corpus=self.mini_corpus, output=self.root, updates=self.updates)
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
    if config.data == MINI:
        root = config.output / MINI
        contrastive = config.contrastive or root / "corpus" / "contrastive.json"
        return Base(MINI, root, None, config.updates, contrastive)
    origin = Path(config.data)
    if not origin.exists():
        raise ConfigError(
            f"`data` is {config.data!r}, but there is no such file or folder. Give `mini`, a "
            "recipe, or a folder that `iada prepare` wrote."
        )
    name = _name(origin)
    base = Base(name, config.output / name, origin, config.updates, config.contrastive)
    if origin.is_file() and read_yaml(origin).get("augment"):
        raise ConfigError(
            f"{origin}: has an `augment` section, but each row of an experiment has its own. "
            "Remove the section."
        )
    run = base.run_config("doc2doc")
    if run.data.prepared is not None:
        corpus = PreparedCorpus.open(run.data.prepared)
        corpus.check_settings(run.data, run.subwords, run.augment)
    return base


def _name(origin: Path) -> str:
    """Name a corpus by its recipe or folder; `config` and `prepared` are names of anything."""
    resolved = origin.resolve()
    parts = [resolved.parent.name, resolved.stem if origin.is_file() else resolved.name]
    name = "-".join(part for part in parts if part not in ("config", "prepared", ""))
    # The mini corpus of `--data mini` has its own folder.
    return f"{name}-recipe" if name == MINI else name


def _prepared_run(folder: Path, method: Method) -> RunConfig:
    """Return the paper's run on a prepared corpus; the text lies in the folder around it."""
    corpus = PreparedCorpus.open(folder)
    mapping = to_mapping(load_run_config(None, method=method))
    mapping["data"] |= {"folder": str(folder.parent), "prepared": str(folder)}
    for key, value in corpus.manifest["settings"].items():
        section, _, name = key.partition(".")
        # The ciphers of an encoding are the method's affair.
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
