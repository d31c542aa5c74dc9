"""Strict YAML files to frozen dataclasses and back.

A file is checked as a whole: every unknown key and every wrong value is reported, one per line,
with the file, the section and the nearest known key. Nothing is guessed and nothing is ignored.
Rules between values are checked by `require` in the `__post_init__` of the classes.
"""

import contextlib
import dataclasses
import difflib
import math
import re
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import yaml

from iada.errors import ConfigError, did_you_mean
from iada.storage import write_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def require(condition: bool, key: str, rule: str, found: object) -> None:
    """Raise a `ConfigError` that names the key, the rule and the value when `condition` fails."""
    if not condition:
        raise ConfigError(f"`{key}` must be {rule}, but is {found!r}.")


Config = TypeVar("Config", bound="DataclassInstance")

MAX_YAML_BYTES = 100_000
"""Recipes have a few thousand bytes; PyYAML needs seconds for each hundred thousand."""
MAX_YAML_DEPTH = 20
MAX_NUMBER_LENGTH = 40
# Everything that YAML may take for a number: signs, digits, other bases, base 60, exponents.
_NUMBER = re.compile(r"[-+]?[0-9.][0-9a-fA-F_.:xobeE+-]*")
# YAML 1.1 requires a dot and a sign in an exponent, so PyYAML reads `5e-4` as text.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


class _Wrong(Exception):
    """A value does not fit its field; the findings are already complete sentences."""

    def __init__(self, *findings: str) -> None:
        super().__init__(*findings)
        self.findings = findings


def from_mapping(cls: type[Config], mapping: Mapping[str, object], *, where: str) -> Config:
    """Build a configuration from plain values, and from nested mappings for nested classes.

    Args:
        cls: a dataclass whose fields are str, int, float, bool, Path, `Literal`, optional values,
            `tuple[X, ...]`, or dataclasses of the same kind.
        mapping: keys are field names; fields that are not given keep their defaults.
        where: begins every message, for example the file name.

    Raises:
        ConfigError: with one line for every unknown key, missing key and wrong value.
    """
    try:
        return _build(cls, mapping, where, where)
    except _Wrong as wrong:
        raise ConfigError("\n".join(wrong.findings)) from None


def to_mapping(config: "DataclassInstance") -> dict[str, Any]:
    """Return the configuration as plain values that YAML and JSON can hold."""
    return {f.name: _plain(getattr(config, f.name)) for f in dataclasses.fields(config)}


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping; an empty file is an empty mapping.

    Raises:
        ConfigError: the file is missing, is not YAML, repeats a key, or holds something else.
    """
    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise ConfigError(
                f"{path}: has {path.stat().st_size:,} bytes, but a configuration has at most "
                f"{MAX_YAML_BYTES:,}. Is it another file?"
            )
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such configuration file.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, but must be a YAML file.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error}).") from None
    try:
        _refuse_bombs(path, text)
        loader = yaml.SafeLoader(text)
        tree = loader.get_single_node()
        repeated = [] if tree is None else list(_repeated_keys(tree))
        content = None if tree is None else loader.construct_document(tree)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}{_mark(error)}") from None
    except ValueError as error:
        # Dates and numbers that YAML recognises by their form but that do not exist.
        raise ConfigError(f"{path}: contains a value that cannot be read ({error}).") from None
    if repeated:
        lines = (f"{path}:{line}: the key `{key}` is given twice." for key, line in repeated)
        raise ConfigError("\n".join(lines))
    if content is None:
        return {}
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise ConfigError(f"{path}: must hold `key: value` lines, but holds one {kind}.")
    return content


def write_yaml(path: Path, mapping: Mapping[str, object]) -> None:
    """Write a mapping in its own order; readers see the old file or the new one, never a part."""
    write_text(path, yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True))


def differences(saved: Config, given: Config) -> list[str]:
    """List the keys whose values differ, as `train.learning_rate: saved 0.0005, given 0.001`."""
    before, after = flatten(to_mapping(saved)), flatten(to_mapping(given))
    return [
        f"{key}: saved {before[key]}, given {after[key]}"
        for key in before
        if before[key] != after[key]
    ]


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested plain values as one mapping with keys such as `train.learning_rate`."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _build(cls: type[Config], mapping: Mapping[str, object], where: str, file: str) -> Config:
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    findings = []
    values = {}
    for key, value in mapping.items():
        if key not in fields:
            suggestion = did_you_mean(str(key), fields)
            findings.append(f"{where}: unknown key `{key}` in `{cls.__name__}`. {suggestion}")
            continue
        try:
            values[key] = _convert(hints[key], value, key, where, file)
        except _Wrong as wrong:
            findings.extend(wrong.findings)
    for name, field in fields.items():
        if name not in mapping and _is_required(field):
            findings.append(f"{where}: `{name}` is missing in `{cls.__name__}`.")
    if findings:
        raise _Wrong(*findings)
    try:
        return cls(**values)
    except ConfigError as error:
        raise _Wrong(f"{file}: {error}") from None


def _convert(hint: Any, value: object, key: str, where: str, file: str) -> object:
    """Return `value` as the type of the field, or raise `_Wrong`."""
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, Mapping):
            separator = ":" if where == file else "."
            return _build(hint, value, f"{where}{separator}{key}", file)
    elif origin in (Union, types.UnionType):
        return _convert_union(hint, value, key, where, file)
    elif origin is tuple:
        if isinstance(value, list | tuple):
            element = get_args(hint)[0]
            return tuple(_convert(element, item, key, where, file) for item in value)
    elif origin is Literal:
        # `True == 1`, so the type must agree too.
        if any(value == choice and type(value) is type(choice) for choice in get_args(hint)):
            return value
    elif (plain := _scalar(hint, value)) is not None:
        return plain
    found = f"`{key}` must be {_expected(hint)}, but is {value!r}."
    raise _Wrong(f"{where}: {found}{_advice(hint, value)}")


def _convert_union(hint: Any, value: object, key: str, where: str, file: str) -> object:
    alternatives = get_args(hint)
    if value is None and type(None) in alternatives:
        return None
    present = [one for one in alternatives if one is not type(None)]
    if len(present) == 1:
        # The findings inside a nested class say more than "one of".
        return _convert(present[0], value, key, where, file)
    for one in present:
        with contextlib.suppress(_Wrong):
            return _convert(one, value, key, where, file)
    raise _Wrong(f"{where}: `{key}` must be {_expected(hint)}, but is {value!r}.")


def _scalar(hint: Any, value: object) -> object | None:
    """Return the value as a str, int, float, bool or Path; None if it is not one."""
    if hint is Path and isinstance(value, str | Path):
        return Path(value)
    if hint in (str, bool):
        return value if type(value) is hint else None
    # bool is a subclass of int: `beam: true` must not become 1.
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 2**63 else None
    if hint is float and not isinstance(value, bool):
        if isinstance(value, str) and _EXPONENT.fullmatch(value):
            value = float(value)
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    return None


def _expected(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    names |= {Path: "a path", type(None): "null"}
    if hint in names:
        return names[hint]
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_expected(alternative) for alternative in get_args(hint))
    if origin is tuple:
        return f"a list, each item {_expected(get_args(hint)[0])}"
    return f"a section with the keys of `{hint.__name__}`"


def _advice(hint: Any, value: object) -> str:
    if hint is int and isinstance(value, int):
        return " It must fit into 64 bits." if abs(value) >= 2**63 else ""
    if get_origin(hint) is Literal and isinstance(value, str):
        close = difflib.get_close_matches(value, [str(choice) for choice in get_args(hint)], n=1)
        return f" Did you mean `{close[0]}`?" if close else ""
    if (hint is str or get_origin(hint) is Literal) and not isinstance(value, dict | list):
        # Norwegian is `no`, which YAML reads as false.
        return " Put it in quotes if it is meant as text."
    return ""


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_mapping(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _refuse_bombs(path: Path, text: str) -> None:
    """Refuse what would take unbounded time or memory to build: before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        where = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ConfigError(
                f"{where}: uses an anchor or alias (`&` or `*`), which configurations do not "
                "support. Write the value out, or put it in quotes."
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_YAML_DEPTH:
                raise ConfigError(
                    f"{where}: is nested more than {MAX_YAML_DEPTH} levels deep. Configurations "
                    "have sections and lists only."
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and _is_long_number(event):
            raise ConfigError(
                f"{where}: contains a number of {len(event.value)} digits; at most "
                f"{MAX_NUMBER_LENGTH} are allowed. Put it in quotes if it is meant as text."
            )


def _is_long_number(scalar: yaml.ScalarEvent) -> bool:
    text = scalar.value
    is_plain: bool = scalar.implicit[0]
    return is_plain and len(text) > MAX_NUMBER_LENGTH and _NUMBER.fullmatch(text) is not None


def _repeated_keys(tree: yaml.Node) -> Iterator[tuple[str, int]]:
    """Yield each repeated key with its line; PyYAML itself silently keeps the last value."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            keys: set[tuple[str, str]] = set()
            for key, value in node.value:
                nodes.append(value)
                name = (key.tag, str(key.value))
                if name in keys:
                    yield name[1], key.start_mark.line + 1
                keys.add(name)


def _mark(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    line = "" if mark is None else f":{mark.line + 1}"
    return f"{line}: is not valid YAML: {problem}."
