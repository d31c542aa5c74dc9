"""One workbench with two runs, whose models are the same but for their names."""

from dataclasses import replace
from pathlib import Path

import pytest

from iada.serving.workbench import ServedRun, Workbench, load_workbench


@pytest.fixture(scope="session")
def served(trained_run: Path) -> ServedRun:
    (run,) = load_workbench([trained_run]).runs.values()
    return run


@pytest.fixture(scope="session")
def workbench(served: ServedRun) -> Workbench:
    return Workbench([served, replace(served, name="other <b>run</b>")])
