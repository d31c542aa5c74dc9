"""The list of known defects follows the code: what cannot be brought back would test nothing."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def defects() -> list[Any]:
    path = ROOT / "benchmarks" / "known_defects.py"
    specification = importlib.util.spec_from_file_location("known_defects", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return [*module.DEFECTS]


@pytest.mark.parametrize("defect", defects(), ids=lambda one: f"{one.row} {one.file}")
def test_a_known_defect_can_be_brought_back_and_its_tests_exist(defect: Any) -> None:
    source = (ROOT / "src" / "iada" / defect.file).read_text(encoding="utf-8")
    assert source.count(defect.now) == 1
    assert defect.then != defect.now
    for test in defect.tests:
        path, _, name = test.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")
