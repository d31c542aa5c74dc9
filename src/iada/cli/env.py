"""`iada env`: versions and hardware, as a bug report needs them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iada.cli.parsing import parse_dataclass
from iada.runs.environment import environment


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """Show versions of Python and packages, hardware, and the state of git."""

    json: bool = False
    """Print JSON instead of lines."""


def parse(arguments: Sequence[str]) -> EnvConfig:
    """Parse the arguments of `iada env`."""
    return parse_dataclass(EnvConfig, arguments, program="iada env")


def run(config: EnvConfig) -> None:
    """Print the environment."""
    found = environment()
    print(json.dumps(found, indent=2) if config.json else "\n".join(_lines(found)))


def _lines(mapping: Mapping[str, object], prefix: str = "") -> list[str]:
    lines: list[str] = []
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            lines += _lines(value, f"{prefix}{key}.")
        else:
            lines.append(f"{prefix}{key}: {_text(value)}")
    return lines


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
