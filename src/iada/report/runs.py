"""Finished runs, read from their folders and grouped by system.

Runs that carry the same name are seeds of one system. That is checked: a mean over runs that
differ in anything but the seed would not say what its label says.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from iada.config.base import read_yaml, to_mapping
from iada.config.method import METHOD_NAMES, Method, augmentation
from iada.errors import RunError
from iada.evaluation.metrics import METRICS, RunRecord
from iada.storage import read_object

METHOD_LABELS: dict[str, str] = {
    "doc2doc": "Doc2Doc",
    "word_drop": "WordDrop",
    "word_replace": "WordRepl",
    "iada_drop_tnorm": "IADA (Drop, TNorm)",
    "iada_drop_gnorm": "IADA (Drop, GNorm)",
    "iada_drop_random": "IADA (Drop, Random)",
    "iada_replace_tnorm": "IADA (Repl, TNorm)",
    "iada_replace_gnorm": "IADA (Repl, GNorm)",
    "iada_replace_random": "IADA (Repl, Random)",
    "r_drop": "R-Drop",
    "coword_drop": "CoWord dropout",
    "simcut": "SimCut",
    "uniform_drop_all_losses": "Uniform (Drop, all losses)",
    "uniform_replace_all_losses": "Uniform (Repl, all losses)",
    "bpe_dropout": "BPE-dropout",
    "cipher": "CipherDAug",
}
"""Readable names of the methods."""
SENTENCE_LEVEL = "Sentence-level"
CHANCE = 1 / 3
"""Expected accuracy of guessing one of er, sie and es."""
# Where the data are and how fast the machine is: seeds of one system may differ in them.
_FREE = (
    "data.folder",
    "train.threads",
    "train.log_every",
    "train.keep_checkpoints",
    "decode.max_tokens",
)


@dataclass(frozen=True)
class RunSummary:
    """One run."""

    name: str
    """Label of the system; runs of one system share it."""
    method: str
    seed: int
    folder: Path
    metrics: tuple[dict[str, Any], ...]
    """Lines of `metrics.jsonl`."""
    scores: Mapping[str, Any]
    """Content of `scores.json`."""
    config: Mapping[str, Any]
    """Content of `config.yaml`."""

    def value(self, key: str) -> float | None:
        """Return a metric as it is stored; None where it was not measured."""
        return METRICS[key].value(RunRecord(self.scores, self.metrics))

    def accuracy(self, *path: str) -> float | None:
        """Return correct / total of a part of the contrastive items; without a path, of all."""
        counts = self.scores.get("contrastive", {})
        for key in path:
            counts = counts.get(key, {})
        return counts["correct"] / counts["total"] if counts.get("total") else None

    def series(self, key: str) -> tuple[list[int], list[float]]:
        """Return the updates and values of the metrics lines that hold `key`."""
        lines = [line for line in self.metrics if line.get(key) is not None]
        return [line["update"] for line in lines], [line[key] for line in lines]

    @property
    def seconds(self) -> float | None:
        """Wall time of training, validation included; None without metrics."""
        if not self.metrics:
            return None
        # The clock of a resumed run begins again at zero.
        total = latest = 0.0
        for line in self.metrics:
            now = float(line.get("seconds", latest))
            total += latest if now < latest else 0.0
            latest = now
        return total + latest


@dataclass(frozen=True)
class RunGroup:
    """Runs of one system: they differ only in their seed."""

    name: str
    runs: tuple[RunSummary, ...]


def load_run(folder: Path, *, name: str | None = None) -> RunSummary:
    """Read a trained and evaluated run.

    Args:
        folder: the run folder.
        name: label of the system; without it, the method's, with every changed augmentation key.

    Raises:
        RunError: a file is missing or cannot be read.
    """
    config_file = folder / "config.yaml"
    if not config_file.is_file():
        raise RunError(
            f"{folder} is not a run folder: it has no config.yaml. Give the `output` folder of "
            "`iada train`."
        )
    config = read_yaml(config_file)
    if "method" not in config or "seed" not in config:
        raise RunError(
            f"{config_file} has no `method` or no `seed`, so it is not the configuration that "
            "`iada train` wrote. Give the `output` folder of `iada train`."
        )
    try:
        label, seed = system_name(config), int(config["seed"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RunError(
            f"{config_file} has sections that `iada train` did not write. Give the `output` folder "
            "of `iada train`."
        ) from None
    summary = RunSummary(
        name=label if name is None else name,
        method=str(config["method"]),
        seed=seed,
        folder=folder,
        metrics=_read_metrics(folder),
        scores=_read_scores(folder),
        config=config,
    )
    _check_values(summary)
    return summary


def system_name(config: Mapping[str, Any]) -> str:
    """Name a configuration: its method, and the augmentation keys that differ from the method's."""
    method = str(config["method"])
    label = METHOD_LABELS.get(method, method)
    if config.get("windows", {}).get("context") == 0:
        label = SENTENCE_LEVEL if method == "doc2doc" else f"{SENTENCE_LEVEL}, {label}"
    if method not in METHOD_NAMES:
        return label
    usual = to_mapping(augmentation(cast(Method, method)))
    given = config.get("augment", {})
    changed = [
        f"{'α' if key == 'alpha' else key} = {given[key]}"
        for key in usual
        if key in given and given[key] != usual[key]
    ]
    return ", ".join([label, *changed])


def group_runs(runs: Sequence[RunSummary]) -> tuple[RunGroup, ...]:
    """Gather runs of the same name, in order of first appearance and then by seed.

    Raises:
        RunError: runs of one name share a seed, or differ in more than the seed.
    """
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run)
    for group in groups.values():
        _check_only_seeds_differ(group)
    return tuple(
        RunGroup(name, tuple(sorted(group, key=lambda run: run.seed)))
        for name, group in groups.items()
    )


def settings(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the configuration as `section.key: value`, without what names one run of a system."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= settings(value, f"{name}.")
        elif name not in ("output", "seed"):
            flat[name] = value
    return flat


def _check_only_seeds_differ(group: Sequence[RunSummary]) -> None:
    first, seeds = group[0], {group[0].seed: group[0]}
    expected = settings(first.config)
    for run in group[1:]:
        if run.seed in seeds:
            raise RunError(
                f"{seeds[run.seed].folder} and {run.folder} are both shown as “{run.name}” with "
                f"seed {run.seed}. Leave one out, or give one of them another name."
            )
        seeds[run.seed] = run
        found = settings(run.config)
        keys = (key for key in expected | found if key not in _FREE)
        changed = [key for key in keys if expected.get(key) != found.get(key)]
        if changed:
            raise RunError(
                f"{first.folder} and {run.folder} are both shown as “{run.name}” but differ in "
                f"{', '.join(changed)}. Give one of them another name."
            )


def _read_metrics(folder: Path) -> tuple[dict[str, Any], ...]:
    path = folder / "metrics.jsonl"
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise RunError(
            f"{path} does not exist, so {folder} was never trained. Train it with "
            f"`iada train {folder / 'config.yaml'}`."
        ) from None
    metrics = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line.decode("utf-8"))
            metrics.append({"update": int(record["update"])} | record)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RunError(
                f"{path}:{number}: is not a line of metrics, perhaps because training was "
                "stopped in the middle of it. Remove the line."
            ) from None
    return tuple(metrics)


def _check_values(run: RunSummary) -> None:
    """Refuse files whose values are not those of a run, before a table or figure asks for them."""
    try:
        for key in METRICS:
            run.value(key)
        _check_tallies(run.scores.get("contrastive", {}))
        if not math.isfinite(run.seconds or 0):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError):
        raise RunError(
            f"{run.folder / 'scores.json'} or metrics.jsonl beside it holds values that are not "
            f"those of a run. Score it again with `iada evaluate {run.folder}`."
        ) from None


def _check_tallies(counts: Mapping[str, Any]) -> None:
    """Go through tallies of correct and all items, at any depth."""
    if counts.get("total"):
        float(counts["correct"] / counts["total"])
    for inner in counts.values():
        if isinstance(inner, Mapping):
            _check_tallies(inner)


def _read_scores(folder: Path) -> dict[str, Any]:
    path = folder / "scores.json"
    try:
        return read_object(path)
    except FileNotFoundError:
        raise RunError(
            f"{path} does not exist. Score the run first with `iada evaluate {folder}`."
        ) from None
    except ValueError:
        raise RunError(
            f"{path} does not hold scores. Write it again with `iada evaluate {folder}`."
        ) from None
