"""Command-line flags from dataclasses: a field is a flag is a YAML key, underscores included.

`parse_dataclass` serves every command. Commands that describe a whole run derive their class from
`RunCommand` and use `parse_run_command`, which puts a YAML recipe beneath the flags. A command
that takes defaults from elsewhere looks for the place with `find_positional` first.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import tyro

from iada.cli.help_text import ALL, SHORT, short_help
from iada.config.data import DataConfig
from iada.config.run import RunConfig, load_run_config
from iada.errors import ConfigError, DataError

Command = TypeVar("Command")
_LONGEST_ARGUMENT = 10_000
"""More than any path has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunCommand:
    """A command that takes a recipe and any key of it as a flag."""

    recipe: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RECIPE")] = None
    """YAML file of the run; flags win over it."""
    # An empty name keeps the flags what the YAML keys are: `--seed`, not `--config.seed`.
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = dataclasses.field(
        default_factory=RunConfig
    )
    """The run: the recipe's values, with the flags applied."""


RunCommandType = TypeVar("RunCommandType", bound=RunCommand)


def parse_dataclass(
    cls: type[Command],
    arguments: Sequence[str],
    *,
    program: str,
    default: Command | None = None,
    description: str | None = None,
    examples: Sequence[str] = (),
) -> Command:
    """Parse flags into a dataclass.

    Args:
        cls: the configuration class of the command; its docstrings are the help.
        arguments: what follows the command on the line.
        program: shown in the usage line, for example `iada train`.
        default: values of the flags that are not given; otherwise those of the class.
        description: shown by `--help` in place of the docstring of the class.
        examples: commands that `--help` shows; `--help_all` explains every flag.

    Raises:
        SystemExit: with code 2 after explaining a wrong flag, 0 after `--help`.
        ConfigError: a value breaks a rule of its class.
    """
    _check_lengths(arguments)
    if any(argument in SHORT for argument in arguments):
        print(short_help(cls, program=program, examples=examples, description=description))
        raise SystemExit(0)
    arguments = [SHORT[1] if argument == ALL else argument for argument in arguments]
    if default is None:
        return tyro.cli(
            cls, prog=program, args=arguments, description=description, use_underscores=True
        )
    return tyro.cli(cls, prog=program, args=arguments, default=default, use_underscores=True)


def _check_lengths(arguments: Sequence[str]) -> None:
    """Refuse what would keep the parser busy with the search for a similar flag."""
    for argument in arguments:
        if len(argument) > _LONGEST_ARGUMENT:
            raise ConfigError(
                f"`{argument[:40]}...` has {len(argument):,} characters, but an argument has at "
                f"most {_LONGEST_ARGUMENT:,}. Put long values into a recipe."
            )


def parse_run_command(
    cls: type[RunCommandType],
    arguments: Sequence[str],
    *,
    program: str,
    examples: Sequence[str] = (),
) -> RunCommandType:
    """Parse `[RECIPE] [flags]`: defaults, then the method's, then the recipe's, then the flags.

    Args:
        cls: `RunCommand` or a subclass with flags of its own.
        arguments: what follows the command on the line.
        program: shown in the usage line, for example `iada train`.
        examples: commands that `--help` shows.

    Raises:
        SystemExit: with code 2 after explaining a wrong flag, 0 after `--help`.
        ConfigError: the recipe or a value is wrong.
    """
    # The parser needs the recipe's values as its defaults, so both are looked up before it runs.
    recipe = find_positional(arguments, cls)
    method = find_value("--method", arguments)
    default = cls(recipe=recipe, config=load_run_config(recipe, method=method))
    command = parse_dataclass(cls, arguments, program=program, default=default, examples=examples)
    if command.recipe != recipe:
        raise ConfigError(f"Give the recipe first: `{program} {command.recipe} ...`.")
    return command


def require_files(*paths: Path | None) -> None:
    """Refuse files that do not exist, before anything that takes long to import is imported."""
    for path in paths:
        if path is not None and not path.is_file():
            raise DataError(
                f"{path} does not exist or is not a file. Check the folder and file name."
            )


def require_corpus(data: DataConfig) -> None:
    """Refuse a corpus whose training and validation files do not exist, as `require_files` does."""
    if data.prepared is not None:
        if not (data.prepared / "manifest.json").is_file():
            raise DataError(
                f"{data.prepared} is not a prepared corpus: it has no manifest.json. Write it with "
                "`iada prepare`, or leave out `data.prepared`."
            )
        return
    require_files(*data.paths("train"), *data.paths("dev"))


def find_positional(arguments: Sequence[str], cls: type[Any]) -> Path | None:
    """Return the first argument that is neither a flag of a command nor the value of one."""
    switches, lists = set(_switches(cls)), set(_lists(cls))
    is_value = in_list = False
    for argument in arguments:
        if argument.startswith("--"):
            name = argument.removeprefix("--").replace("-", "_")
            is_value = "=" not in argument and name not in switches
            in_list = name in lists
        elif argument.startswith("-") or is_value:
            # Negative numbers are values, and `-h` takes none.
            is_value = in_list
        else:
            return Path(argument)
    return None


def find_value(flag: str, arguments: Sequence[str]) -> str | None:
    """Return the last value of a flag, given as `--flag value` or `--flag=value`."""
    value = None
    for position, argument in enumerate(arguments):
        if argument == flag and position + 1 < len(arguments):
            value = arguments[position + 1]
        elif argument.startswith(f"{flag}="):
            value = argument.removeprefix(f"{flag}=")
    return value


def _switches(cls: type[Any]) -> Iterator[str]:
    """Yield the names of the flags that take no value."""
    for name, hint in _flags(cls):
        if hint is bool:
            section, _, key = name.rpartition(".")
            yield from (name, f"{section}.no_{key}" if section else f"no_{key}")


def _lists(cls: type[Any]) -> Iterator[str]:
    """Yield the names of the flags that take any number of values."""
    return (name for name, hint in _flags(cls) if get_origin(hint) is tuple)


def _flags(cls: type[Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the type of every flag."""
    annotated = get_type_hints(cls, include_extras=True)
    for name, hint in get_type_hints(cls).items():
        if not dataclasses.is_dataclass(hint) or not isinstance(hint, type):
            yield f"{prefix}{name}", hint
        elif _has_empty_name(annotated[name]):
            yield from _flags(hint, prefix)
        else:
            yield from _flags(hint, f"{prefix}{name}.")


def _has_empty_name(hint: Any) -> bool:
    """Tell whether the fields of a section are flags without the name of the section."""
    return any(getattr(extra, "name", None) == "" for extra in getattr(hint, "__metadata__", ()))
