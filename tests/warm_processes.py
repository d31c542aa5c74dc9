"""Processes that begin with everything imported: forks of a server, which imports it once.

A process that starts from nothing takes seconds until PyTorch and Transformers are there, and tests
start dozens. What a cold start and a launcher add is tested where they matter. The server is a
process of its own, without the threads and the state of the tests, and ends with them.
"""

import contextlib
import multiprocessing
import os
import runpy
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORTED = (
    "iada.cli.main",
    "iada.decoding.translator",
    "iada.evaluation.score_runs",
    "iada.synthesis.translated",
    "iada.training.train",
    "pytest",
    "transformers.models.marian.modeling_marian",
)


class WarmProcess:
    """A Python with arguments: `-m` and a module, or a script; used like `subprocess.Popen`."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        self._folder = Path(tempfile.mkdtemp(prefix="warm-"))
        # The server has the variables and the folder of the test that started it first.
        variables = {**os.environ, **(environment or {})}
        settings = (list(arguments), variables, Path.cwd(), self._folder)
        self._process = context.Process(target=_run, args=settings)
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal; a process that has ended gets none."""
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Wait for the end, or end it after so many seconds; return what was written."""
        self._process.join(timeout)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        files = (self._folder / name for name in ("stdout", "stderr"))
        output, errors = (file.read_bytes() if file.exists() else b"" for file in files)
        shutil.rmtree(self._folder)
        return output, errors


def start_group(processes: int, *arguments: str) -> list[WarmProcess]:
    """Start processes that find each other as those of a launcher do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return [
        WarmProcess(arguments, shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(processes)
    ]


def _run(arguments: list[str], variables: dict[str, str], place: Path, folder: Path) -> None:
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(place)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        with (folder / name).open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
