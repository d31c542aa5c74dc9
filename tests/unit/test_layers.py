"""The package reads in one direction: every import points to an earlier part of the method."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import iada

LAYERS = (
    "data",
    "models",
    "method",
    "runs",
    "decoding",
    "synthesis",
    "evaluation",
    "training",
    "analysis",
    "experiments",
    "report",
    "serving",
    "cli",
)
# Serve all layers, so they may use none of them.
FOUNDATIONS = ("config", "errors", "seeding", "storage")
# The package itself: public names, imported lazily, and the entry point.
TOP = ("__init__", "__main__")
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "other"}

PACKAGE = Path(iada.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def identify(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def part(path: Path) -> str:
    """The first folder below the package, or the module itself."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported_parts(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the import from `iada` on"
            module = node.module or ""
            names = [f"iada.{alias.name}" for alias in node.names] if module == "iada" else [module]
        else:
            continue
        yield from ((name.split(".")[1], node.lineno) for name in names if name.startswith("iada."))


def allowed(layer: str) -> set[str]:
    if layer in FOUNDATIONS:
        return {*FOUNDATIONS}
    if layer in TOP:
        return {*FOUNDATIONS, *LAYERS}
    return {*FOUNDATIONS, *LAYERS[: LAYERS.index(layer) + 1], "__version__"}


def test_every_part_has_its_place() -> None:
    assert {part(path) for path in MODULES} <= {*LAYERS, *FOUNDATIONS, *TOP}


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_imports_point_one_way(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    layer = part(path)
    wrong = [
        f"line {line}: `{layer}` imports `{found}`"
        for found, line in imported_parts(tree)
        if found not in allowed(layer)
    ]
    assert not wrong


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=identify)
def test_no_module_has_a_name_that_says_nothing(path: Path) -> None:
    assert not VAGUE & {*path.relative_to(PACKAGE).with_suffix("").parts}


def test_no_folder_is_too_wide_to_scan() -> None:
    # The root holds the rooms and `cli` the commands; every other folder is one room.
    wide = {
        identify(folder): len(entries)
        for folder in {path.parent for path in MODULES} - {PACKAGE, PACKAGE / "cli"}
        if len(entries := [e for e in folder.iterdir() if not e.name.startswith("__")]) > 14
    }
    assert not wide


def test_a_module_name_is_used_once() -> None:
    # A command is named after what it does, which is often the name of a module that does it.
    names = Counter(
        path.stem
        for path in MODULES
        if not path.stem.startswith("__")
        and path.parent not in (PACKAGE / "cli", PACKAGE / "config")
    )
    assert not [name for name, count in names.items() if count > 1]
