"""The short help of a command: what it does, examples, its own flags, and where all others are.

Flags are explained by the docstrings under the fields of the command's class, as in the long help
of `--help_all`. Keys of a recipe are many, so the short help names their sections alone.
"""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_type_hints

SHORT = ("-h", "--help")
ALL = "--help_all"
_WIDTH = 98
_MOST_FLAGS = 8
"""Flags of a section that are explained one by one."""


def short_help(
    cls: type[Any], *, program: str, examples: Sequence[str], description: str | None = None
) -> str:
    """Return the help of a command."""
    names = [name for name, _ in _entries(cls)]
    positional = [name for name in names if not name.startswith("-")]
    flags = [*_rows(cls, lambda name: not name.endswith(".*"))]
    sections = [*_rows(cls, lambda name: name.endswith(".*"))]
    lines = [
        " ".join(["usage:", program, *positional, "[--FLAG VALUE ...]"]),
        "",
        *_wrapped(description or inspect.getdoc(cls) or ""),
    ]
    if examples:
        lines += ["", "examples:", *(f"  {example}" for example in examples)]
    lines += ["", "flags:", *flags, *_row("-h, --help", "Show this message.")]
    lines += _row(ALL, "Show every flag with its default.")
    if sections:
        lines += ["", "keys of a recipe are flags of the same name:", *sections]
    return "\n".join(lines)


def _rows(cls: type[Any], wanted: Callable[[str], bool]) -> Iterator[str]:
    for name, text in _entries(cls):
        if wanted(name):
            yield from _row(name, text)


def _row(name: str, text: str) -> Iterator[str]:
    indent = " " * 24
    lines = textwrap.wrap(
        " ".join(text.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent
    ) or [""]
    if len(name) > 20:
        yield f"  {name}"
        yield from lines
    else:
        yield f"  {name:<22}{lines[0].strip()}"
        yield from lines[1:]


def _wrapped(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield from textwrap.wrap(" ".join(paragraph.split()), _WIDTH)


def _entries(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield name and explanation of positional arguments, flags and sections."""
    hints, annotated = get_type_hints(cls), get_type_hints(cls, include_extras=True)
    texts = field_docs(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        marks = getattr(annotated[field.name], "__metadata__", ())
        metavar = next((m for m in (getattr(mark, "metavar", None) for mark in marks) if m), None)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            if any(getattr(mark, "name", None) == "" for mark in marks):
                yield from _section(hint)
            else:
                text = inspect.getdoc(hint) or ""
                yield f"--{field.name}.*", text.split("\n\n")[0]
        else:
            name = metavar or f"--{field.name}"
            yield name, texts.get(field.name, "")


def _section(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section whose flags do not carry its name; many make one entry."""
    entries = [*_entries(cls)]
    names = [name for name, _ in entries]
    if len(entries) <= _MOST_FLAGS or any(name.endswith(".*") for name in names):
        yield from entries
    else:
        text = (inspect.getdoc(cls) or "").split("\n\n")[0]
        yield f"{names[0]} ...", f"{text} Flags: {', '.join(names)}."


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstring under each field of a dataclass and of those it derives from."""
    found: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(one):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(body, ast.ClassDef)
        for node, after in zip(body.body, body.body[1:], strict=False):
            if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[node.target.id] = " ".join(str(after.value.value).split())
    return found
