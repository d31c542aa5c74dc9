"""`iada serve`: a page on this machine that translates documents and shows what context does."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from iada.cli.parsing import parse_dataclass
from iada.config.base import require
from iada.errors import ConfigError

EXAMPLES = ("iada serve runs/mine", "iada serve runs/mine runs/plain")


@dataclass(frozen=True, kw_only=True)
class ServeCommand:
    """Open a page for your browser: translate, compare, edit and watch the rest follow.

    Only this machine can reach it unless `--host` says otherwise; it sends nothing anywhere.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN...")]
    """Run folders of the models, one or several."""
    host: str = "127.0.0.1"
    """Address to listen on; by default this machine alone."""
    port: int = 8377
    """Port to listen on; 0 takes a free one."""
    allow_hosts: tuple[str, ...] = ()
    """Further names under which browsers may reach the page, where `--host` is not loopback."""
    max_kilobytes: int = 512
    """Largest document that the page accepts."""
    dry_run: bool = False
    """Say what would be served and stop."""

    def __post_init__(self) -> None:
        require(len(self.runs) > 0, "runs", "at least one run folder", self.runs)
        require(0 <= self.port < 2**16, "port", "between 0 and 65535", self.port)
        require(self.max_kilobytes >= 1, "max_kilobytes", "1 or more", self.max_kilobytes)


def parse(arguments: Sequence[str]) -> ServeCommand:
    """Parse the arguments of `iada serve`."""
    return parse_dataclass(ServeCommand, arguments, program="iada serve", examples=EXAMPLES)


def run(command: ServeCommand) -> None:
    """Load the models, print the address, and answer until the user interrupts."""
    missing = [name for name in ("starlette", "uvicorn") if not importlib.util.find_spec(name)]
    if missing:
        raise ConfigError(
            f"`iada serve` needs {' and '.join(missing)}. Install them with "
            "`pip install 'iada[serve]'`."
        )
    from iada.runs.folder import RunFolder

    models = [RunFolder(folder).best_model() for folder in command.runs]
    if command.dry_run:
        print(f"{command.host}:{command.port}: {', '.join(map(str, models))}")
        return
    from iada.serving.server import LOOPBACK, Limits, build_app, open_socket, serve
    from iada.serving.workbench import load_workbench

    hosts = tuple(dict.fromkeys((*LOOPBACK, command.host, *command.allow_hosts)))
    with open_socket(command.host, command.port) as bound:
        app = build_app(load_workbench(command.runs), Limits(command.max_kilobytes * 1024, hosts))
        shown = f"[{command.host}]" if ":" in command.host else command.host
        print(f"http://{shown}:{bound.getsockname()[1]}/ (Ctrl + C stops it)", flush=True)
        serve(app, bound)
