"""A disk that fails, and commands whose result must not depend on it.

There are two kinds of fault: an *error*, as of a full disk, after which the program still runs and
cleans up; and a *cut*, as of a power failure, after which nothing reaches the disk any more. A cut
at a flush also tears the file: what had not been flushed is lost.
"""

import contextlib
import errno
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from iada.cli import experiment
from iada.config.base import to_mapping, write_yaml
from iada.config.data import DataConfig, SubwordConfig, WindowConfig
from iada.config.decode import DecodeConfig
from iada.config.experiment import ExperimentConfig
from iada.config.model import ModelConfig
from iada.config.run import RunConfig
from iada.config.train import TrainConfig
from iada.data.mini import MiniConfig, write_mini_corpus
from iada.data.prepared.prepare import Preparation, prepare
from iada.decoding.files import translate_file
from iada.decoding.translator import DocumentTranslator
from iada.errors import IadaError
from iada.experiments.scheduler import GridTask, Launcher, StartedTask, do_task
from iada.runs.folder import RunFolder
from iada.training.train import train

Kind = Literal["error", "cut"]


class Cut(BaseException):
    """The power is gone. No handler of ordinary errors may catch this."""


class FaultyDisk:
    """Counts the points at which the disk is changed below a folder, and fails at one of them."""

    def __init__(self, folder: Path, kind: Kind = "error", fail_at: int | None = None) -> None:
        self.folder = os.path.realpath(folder)
        self.kind = kind
        self.fail_at = fail_at
        self.points: list[str] = []
        """What was done, such as `rename config.yaml`, up to the fault."""
        self.is_dead = False
        self.flushed: dict[str, int] = {}
        """How much of each file is on the disk for good."""

    def _is_watched(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        return str(os.path.abspath(path)).startswith(self.folder)

    def _pass(self, action: str, path: Any, tear: Callable[[], None] | None = None) -> None:
        """Count a point, and fail if it is the one."""
        if self.is_dead:
            raise Cut
        if not self._is_watched(path):
            return
        shown = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
        self.points.append(f"{action} {Path(shown).name}")
        if len(self.points) - 1 != self.fail_at:
            return
        if self.kind == "error":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), shown)
        if tear is not None:
            tear()
        self.is_dead = True
        raise Cut

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Let everything below the folder go through this disk."""
        with contextlib.ExitStack() as stack:
            for module, name in (
                (os, "replace"),
                (os, "rename"),
                (os, "mkdir"),
                (os, "unlink"),
                (shutil, "rmtree"),
            ):
                real = getattr(module, name)
                stack.enter_context(mock.patch.object(module, name, self._watch(name, real)))
            stack.enter_context(mock.patch.object(os, "fsync", self._fsync(os.fsync)))
            opened = self._open(io.open)
            stack.enter_context(mock.patch("io.open", opened))
            stack.enter_context(mock.patch("builtins.open", opened))
            yield

    def _watch(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any, *arguments: Any, **settings: Any) -> Any:
            # Relative to a folder that is open, as inside `rmtree`: one step of a larger one.
            if settings.get("dir_fd") is None:
                self._pass(name, path)
            result = real(path, *arguments, **settings)
            if name in ("replace", "rename"):
                self._rename(os.path.abspath(path), os.path.abspath(arguments[0]))
            return result

        return watched

    def _rename(self, old: str, new: str) -> None:
        """What was flushed under the old name, or below it, stays so under the new one."""
        for path in [p for p in self.flushed if p == old or p.startswith(f"{old}{os.sep}")]:
            self.flushed[new + path[len(old) :]] = self.flushed.pop(path)

    def _fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(handle: int) -> None:
            def tear() -> None:
                # What was flushed before is safe; of the rest, half arrives.
                if os.path.isfile(path):
                    safe = min(self.flushed.get(path, 0), os.path.getsize(path))
                    os.truncate(path, safe + (os.path.getsize(path) - safe) // 2)

            path = os.readlink(f"/proc/self/fd/{handle}")
            self._pass("flush", handle, tear)
            real(handle)
            if os.path.isfile(path):
                self.flushed[path] = os.path.getsize(path)

        return fsync

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *arguments: Any, **settings: Any) -> Any:
            if isinstance(mode, str) and set(mode) & set("wax+"):
                self._pass("write", file)
            return real(file, mode, *arguments, **settings)

        return opened


Command = Callable[[Path], dict[str, bytes]]
"""Does its work in a folder and returns what must not depend on faults."""


def make_corpus(folder: Path) -> Path:
    """Write nine documents in all."""
    config = MiniConfig(
        train_documents=3, dev_documents=3, test_documents=3, contrastive_per_cell=1
    )
    return write_mini_corpus(folder, config)


def count_points(command: Command, folder: Path) -> tuple[list[str], dict[str, bytes]]:
    """Run a command on a disk that only counts; return its points and its result."""
    folder.mkdir()
    disk = FaultyDisk(folder)
    with disk.mounted():
        result = command(folder)
    return disk.points, result


def recover(
    command: Command, folder: Path, kind: Kind, point: int, expected: dict[str, bytes]
) -> tuple[str, str]:
    """Run into a fault, then again on a sound disk.

    Returns:
        Where the fault was, and what is wrong with the result; empty if it is the expected one,
        or if the command said clearly why it cannot go on.
    """
    folder.mkdir()
    disk = FaultyDisk(folder, kind, point)
    # An experiment survives the error of a run and says so at its end.
    with contextlib.suppress(Cut, OSError, IadaError), disk.mounted():
        command(folder)
    where = f"{kind} at {point} ({disk.points[-1]})"
    try:
        found = command(folder)
    except IadaError as error:
        return where, f"refused: {error}"
    differing = [
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    ]
    return where, f"differs in {', '.join(differing)}" if differing else ""


def _config(corpus: Path, output: Path) -> RunConfig:
    return RunConfig(
        output=output,
        method="word_drop",
        data=DataConfig(folder=corpus),
        subwords=SubwordConfig(vocabulary_size=400),
        windows=WindowConfig(max_length=256),
        model=ModelConfig(
            dim=8, feed_forward=8, heads=1, encoder_layers=1, decoder_layers=1, max_positions=320
        ),
        train=TrainConfig(
            max_tokens=512,
            accumulation=1,
            max_updates=2,
            validate_every=1,
            warmup_updates=1,
            keep_checkpoints=1,
            log_every=1,
            threads=1,
        ),
        decode=DecodeConfig(beam=1),
    )


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def training(corpus: Path) -> Command:
    """`iada train`, which is resumed if it was begun."""

    def command(folder: Path) -> dict[str, bytes]:
        config = _config(corpus, folder / "run")
        run = RunFolder(config.output)
        train(config, resume=run.config_file.is_file())
        lines = run.metrics_file.read_text(encoding="utf-8").splitlines()
        records = [json.loads(line) | {"seconds": 0} for line in lines]
        newest = run.last_checkpoint()
        hidden = [path.name for path in run.path.rglob(".*")]
        told = {"metrics": records, "newest": newest and newest.path.name, "hidden": hidden}
        return _files(run.model) | {"told": json.dumps(told).encode()}

    return command


def preparation(corpus: Path) -> Command:
    """`iada prepare`."""
    config = _config(corpus, corpus)

    def command(folder: Path) -> dict[str, bytes]:
        prepare(Preparation(config.data, config.subwords, folder / "store", workers=1))
        # Beside the store lies a note of when it was last verified.
        left = {path.name: b"" for path in folder.iterdir() if not path.name.startswith(".store")}
        return _files(folder / "store") | left

    return command


def translation(corpus: Path) -> Command:
    """`iada translate`; the model is trained beside the corpus."""
    run = corpus.with_name("run")
    if not run.exists():
        train(_config(corpus, run))
    translator = DocumentTranslator.load(run)

    def command(folder: Path) -> dict[str, bytes]:
        translate_file(translator, corpus / "test.en", folder / "out.de", boundaries="blank_line")
        files = _files(folder)
        details = json.loads(files.pop("out.de.json")) | {"seconds": 0, "resumed": False}
        return files | {"details": json.dumps(details).encode()}

    return command


class DoneHere:
    """A task that was done in this process before anybody could ask."""

    def __init__(self, task: GridTask) -> None:
        self.code = do_task(task)

    def exit_code(self) -> int:
        return self.code

    def describe_end(self) -> str:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


def _start_here(task: GridTask) -> StartedTask:
    return DoneHere(task)


def grid(corpus: Path) -> Command:
    """`iada experiment` with a single run."""
    recipe = corpus.with_name("recipe.yaml")
    shared = to_mapping(_config(corpus, corpus)) | {"evaluate": {"resamples": 10}}
    sections = ("data", "subwords", "windows", "model", "train", "decode", "evaluate")
    write_yaml(recipe, {name: shared[name] for name in sections})

    def command(folder: Path) -> dict[str, bytes]:
        config = ExperimentConfig(
            names=("alpha_sweep",),
            alphas=(0.0,),
            rows=("alpha_0",),
            data=str(recipe),
            output=folder / "out",
            contrastive=corpus / "contrastive.json",
        )
        here = mock.patch("iada.experiments.cluster.THIS_MACHINE", Launcher(_start_here))
        with here, contextlib.redirect_stdout(None):
            files = _files(experiment.run(config))
        # What tells when something was done, and how often it was tried.
        # A journal beside a finished translation, and its lock, are nobody's.
        parts = ("results.json", "results.md", "model/model.safetensors", "test.de")
        kept = {name: files[name] for name in files if name.endswith(parts)}
        assert len(kept) == 4
        # So is an empty lock, which its owner could not remove.
        left = [name for name in files if "/." in name and files[name]]
        return kept | {"left": json.dumps(left).encode()}

    return command


COMMANDS: dict[str, Callable[[Path], Command]] = {
    "train": training,
    "prepare": preparation,
    "translate": translation,
    "experiment": grid,
}
"""Each makes a command that works on a corpus."""
