"""The run folder: what a run leaves behind, and what it refuses to overwrite.

It holds `config.yaml`, `environment.json`, `metrics.jsonl`, `tokenizer/`, `checkpoints/`,
`model/`, `translations/` and `scores.json`.
"""

import contextlib
import logging
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from iada.config.base import differences, to_mapping, write_yaml
from iada.config.run import RunConfig, load_run_config
from iada.errors import RunError
from iada.storage import describe_files, find_damage, lock_file, read_object, sync, write_json

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the layout, kept in `environment.json`; folders of iada 0.1.0 have none."""
AVERAGING = "averaging.json"
"""In `model/`: which checkpoints were averaged, and the validation scores with and without."""
CHECKPOINT_MANIFEST = "manifest.json"
"""Size and sha256 of every other file of a checkpoint."""
LOCK = ".lock"

MAY_CHANGE = (
    "output",
    "data.folder",
    "data.prepared",
    "train.max_updates",
    "train.patience",
    "train.min_delta",
    "train.keep_checkpoints",
    "train.average",
    "train.average_keep",
    "train.log_every",
    "train.report_to",
    "train.threads",
    "decode.",
    "evaluate.",
)
"""Keys that a resumed run may change: they do not touch the updates that were made."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    path: Path
    state: Mapping[str, Any]
    """The Trainer's own record of its progress."""

    @property
    def update(self) -> int:
        """Updates that were made."""
        return int(self.state["global_step"])

    @property
    def best(self) -> Path:
        """The best checkpoint so far by `train.metric`."""
        # By number: the recorded path is no longer true once a run folder was moved.
        update = self.state.get("best_global_step") or self.update
        return self.path.with_name(f"checkpoint-{update}")

    @property
    def fruitless_validations(self) -> int:
        """Validations since the last better one, as early stopping counts them."""
        callbacks = self.state.get("stateful_callbacks", {})
        stopping = callbacks.get("EarlyStoppingCallback", {}).get("attributes", {})
        return int(stopping.get("early_stopping_patience_counter", 0))


class RunFolder:
    """Paths of a run, and the rules for writing them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.yaml"
        self.environment_file = path / "environment.json"
        self.metrics_file = path / "metrics.jsonl"
        self.scores_file = path / "scores.json"
        self.checkpoints = path / "checkpoints"
        self.tokenizer = path / "tokenizer"
        self.model = path / "model"
        self.translations = path / "translations"

    @contextmanager
    def lock(self, doing: str) -> Iterator[None]:
        """Hold the folder for this process, creating it if need be; refuse a second process.

        Args:
            doing: what the owner does, such as `training in`.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with lock_file(self.path / LOCK, f"{doing} {self.path}"):
                yield
        finally:
            # A run that was refused before it began leaves no trace.
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def check_unused(self) -> None:
        """Refuse a folder that holds anything but the first files of a run that never began."""
        if not self.path.is_dir():
            return
        # `write_bytes` writes beside its target, so an interrupted file has another name.
        encoding = [self.tokenizer.name, ".tokenizer.staged", ".tokenizer.replaced"]
        leftovers = [LOCK, self.environment_file.name, *encoding]
        temporary = (f".{self.environment_file.name}.", f".{self.config_file.name}.")
        used = [
            entry.name
            for entry in self.path.iterdir()
            if entry.name not in leftovers and not entry.name.startswith(temporary)
        ]
        if used:
            way_on = "Continue it with `--resume`, c" if self.config_file.name in used else "C"
            raise RunError(
                f"{self.path} already holds files. {way_on}hoose another `--output`, or remove it "
                "yourself."
            )

    def begin(self, config: RunConfig, environment: Mapping[str, object]) -> None:
        """Create the folder of a new run."""
        self.check_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        self.remove_leftovers()
        write_json(self.environment_file, {"format": FORMAT, **environment})
        # Last: a folder with a configuration is one that can be resumed.
        write_yaml(self.config_file, to_mapping(config))
        sync(self.path.parent)

    def check_resumable(self, config: RunConfig) -> None:
        """Refuse to resume with another configuration than the run's own."""
        # Validations before and after could not be compared.
        fixed = () if config.train.metric == "nll" else ("decode.", "evaluate.")
        allowed = tuple(key for key in MAY_CHANGE if key not in fixed)
        changed = [
            line for line in differences(self.config(), config) if not line.startswith(allowed)
        ]
        if changed:
            raise RunError(
                f"{self.path} was trained with another configuration: {'; '.join(changed)}. "
                "Resume with the saved values, or begin a new run with another `--output`."
            )

    def record_changes(self, changes: Sequence[str], *, update: int) -> None:
        """Keep what was different when the run was resumed in `environment.json`."""
        saved = self.environment()
        entry = {"update": update, "changed": list(changes)}
        write_json(self.environment_file, saved | {"resumed": [*saved.get("resumed", []), entry]})

    def config(self) -> RunConfig:
        """Read the configuration of the run."""
        if not self.config_file.is_file():
            raise RunError(f"{self.path} is not a run folder: it has no config.yaml.")
        version = self.environment().get("format", 0)
        if version not in range(FORMAT + 1):
            raise RunError(
                f"{self.path} has format {version}; this version of iada reads formats up to "
                f"{FORMAT}. Use the version that wrote it."
            )
        return load_run_config(self.config_file)

    def environment(self) -> dict[str, Any]:
        """Read what the run recorded of versions, hardware and data; empty if it has no record."""
        try:
            return read_object(self.environment_file)
        except FileNotFoundError:
            return {}
        except ValueError:
            raise RunError(
                f"{self.environment_file} is damaged: it is not a JSON object."
            ) from None

    def last_checkpoint(self, *, say: bool = True) -> Checkpoint | None:
        """Return the newest complete checkpoint whose best one is complete too.

        Args:
            say: whether to log which checkpoints are damaged.

        Raises:
            RunError: there are checkpoints, but none is complete.
        """
        numbered = sorted(self._numbered_checkpoints(), reverse=True)
        damaged: list[str] = []
        for _, path in numbered:
            found = _read_checkpoint(path)
            if isinstance(found, Checkpoint):
                if damaged and say:
                    problems = "; ".join(damaged)
                    logger.warning("Damaged: %s. Using %s instead.", problems, path.name)
                return found
            damaged.append(f"{path.name} ({found})")
        if damaged:
            raise RunError(
                f"{self.checkpoints} holds no complete checkpoint: {'; '.join(damaged)}. "
                "Remove the folder to train from the beginning with `--resume`."
            )
        return None

    def complete_checkpoints(self, count: int) -> list[Path]:
        """Return the newest checkpoints that are complete, at most `count`, the oldest first."""
        numbered = sorted(self._numbered_checkpoints(), reverse=True)
        found = (path for _, path in numbered if _find_problem(path) is None)
        return list(islice(found, count))[::-1]

    def _numbered_checkpoints(self) -> Iterator[tuple[int, Path]]:
        for path in self.checkpoints.glob("checkpoint-*"):
            number = path.name.removeprefix("checkpoint-")
            if number.isdecimal():
                yield int(number), path

    def remove_leftovers(self) -> None:
        """Remove hidden files and folders that an interrupted process was about to rename."""
        for pattern in (".*.staged", ".*.replaced", ".*.removed", "checkpoints/.checkpoint-*"):
            for path in self.path.glob(pattern):
                shutil.rmtree(path)
        for file in (self.config_file, self.environment_file, self.metrics_file):
            for path in self.path.glob(f".{file.name}.*"):
                path.unlink()

    def has_model(self) -> bool:
        """Whether the finished model is there."""
        return (self.model / "config.json").is_file()

    def trained_model(self) -> Path:
        """Return the folder of the finished model."""
        if not self.has_model():
            raise RunError(
                f"{self.path} holds no finished model. Train it to the end with "
                f"`iada train {self.config_file} --resume`."
            )
        return self.model

    def best_model(self) -> Path:
        """Return the folder of the finished model or, before the end, of the best checkpoint."""
        if self.has_model():
            return self.model
        checkpoint = self.last_checkpoint()
        if checkpoint is None:
            return self.trained_model()
        logger.warning(
            "%s is not finished: using its best checkpoint so far, %s of %d updates. Finish it with"
            " `iada train %s --resume`.",
            self.path,
            checkpoint.best.name,
            checkpoint.update,
            self.config_file,
        )
        return checkpoint.best

    def encoding(self) -> Path:
        """Return the folder of the byte-pair encoding of `best_model`."""
        return self.model if self.has_model() else self.tokenizer


def weight_files(folder: Path) -> list[Path]:
    """Return the files of weights, or of adapters, of a saved model.

    Raises:
        RunError: there are none.
    """
    found = sorted(folder.glob("*model*.safetensors"))
    if not found:
        raise RunError(f"{folder} holds no weights (*.safetensors).")
    return found


def changed_at(files: Sequence[Path]) -> float:
    """Return when the newest of some files was last changed."""
    return max(file.stat().st_mtime for file in files)


def write_manifest(checkpoint: Path) -> None:
    """Vouch for every file of a checkpoint; without this file it counts as incomplete."""
    files = describe_files(checkpoint, without=(CHECKPOINT_MANIFEST,))
    write_json(checkpoint / CHECKPOINT_MANIFEST, {"format": FORMAT, "files": files})


def _read_checkpoint(path: Path) -> Checkpoint | str:
    """Return a checkpoint, or say what is wrong with it or with the best one it refers to."""
    if problem := _find_problem(path):
        return problem
    try:
        state = read_object(path / "trainer_state.json")
        found = Checkpoint(path, state)
        best = found.best if found.update >= 0 else path
        _ = found.fruitless_validations
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return "trainer_state.json is unreadable"
    if best != path and (problem := _find_problem(best)):
        return f"its best checkpoint is {best.name}: {problem}"
    return found


def _find_problem(path: Path) -> str | None:
    manifest = path / CHECKPOINT_MANIFEST
    if not manifest.is_file():
        return _find_problem_of_0_1_0(path)
    try:
        content = read_object(manifest)
        version, files = content["format"], content["files"]
        if version not in range(FORMAT + 1):
            return f"format {version} is newer than this version of iada"
        return find_damage(path, files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return f"{CHECKPOINT_MANIFEST} is unreadable"


def _find_problem_of_0_1_0(path: Path) -> str | None:
    """Check a checkpoint of iada 0.1.0, which has no checksums, as far as that is possible."""
    pickles = ("optimizer.pt", "scheduler.pt")
    missing = [name for name in (*pickles, "trainer_state.json") if not (path / name).is_file()]
    if missing:
        return f"{CHECKPOINT_MANIFEST} is missing"
    states = sorted(path.glob("rng_state*.pth"))
    if not states:
        return "rng_state.pth is missing"
    for file in [path / name for name in pickles] + states:
        try:
            # PyTorch's files are zip archives, which have a checksum of their own.
            with zipfile.ZipFile(file) as archive:
                broken = archive.testzip()
        except (OSError, zipfile.BadZipFile):
            return f"{file.name} is damaged"
        if broken is not None:
            return f"{file.name} is damaged"
    return _find_problem_of_weights(path / "model.safetensors")


def _find_problem_of_weights(path: Path) -> str | None:
    from safetensors import SafetensorError, safe_open

    try:
        # Compares the size of the file with what its header says.
        with safe_open(path, framework="np"):
            return None
    except FileNotFoundError:
        return f"{path.name} is missing"
    except (OSError, SafetensorError):
        return f"{path.name} is damaged"
