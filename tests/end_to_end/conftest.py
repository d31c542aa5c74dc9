"""Experiments whose tasks are done one after the other in the process of the tests."""

import pytest
from faulty_disk import DoneHere

from iada.experiments.scheduler import Launcher


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Let `iada experiment` start no processes, each of which would import PyTorch anew."""
    launcher = Launcher(DoneHere)
    monkeypatch.setattr("iada.experiments.cluster.THIS_MACHINE", launcher)
    return launcher
