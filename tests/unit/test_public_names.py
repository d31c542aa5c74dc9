"""The public names: complete, importable, and free of cost until they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import iada

PUBLIC = sorted(set(iada.__all__) - {"__version__"})


def test_importing_the_package_imports_nothing_slow() -> None:
    code = "import sys, iada; print([m for m in ('torch', 'numpy', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_used(name: str) -> None:
    value = getattr(iada, name)
    assert value.__name__ == name
    assert value.__doc__


def test_type_checkers_see_the_same_names_from_the_same_modules() -> None:
    tree = ast.parse(Path(iada.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "typing"
        for alias in node.names
    }
    assert seen == iada._MODULES
    assert sorted(seen) == PUBLIC


def test_names_are_listed_for_completion() -> None:
    assert set(iada.__all__) <= set(dir(iada))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'iada' has no attribute 'nothing'"):
        _ = iada.nothing
