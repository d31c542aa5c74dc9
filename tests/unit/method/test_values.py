"""What the method and the windows hand around are values: whoever gets one cannot change it."""

import dataclasses
import importlib
import pkgutil

import pytest

import iada.data.windows
import iada.method

IN_PROGRESS = {"_Draw"}
"""Filled step by step, and handed on by nobody."""
MODULES = [
    f"{package.__name__}.{module.name}"
    for package in (iada.method, iada.data.windows)
    for module in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_values_cannot_be_changed(name: str) -> None:
    if name == "iada.method.kernel":
        pytest.importorskip("triton", reason="Triton is not installed: `make kernels`")
    own = [kind for kind in vars(importlib.import_module(name)).values() if isinstance(kind, type)]
    for kind in own:
        if dataclasses.is_dataclass(kind) and kind.__name__ not in IN_PROGRESS:
            assert kind.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]
