"""Experiments whose tasks are done one after the other in the process of the tests."""

from dataclasses import dataclass

import pytest

from iada.experiments.scheduler import GridTask, Launcher, do_task


@dataclass(frozen=True)
class DoneHere:
    """A task that was done before anybody could ask."""

    code: int

    def exit_code(self) -> int:
        return self.code

    def describe_end(self) -> str:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


def do_here(task: GridTask) -> DoneHere:
    return DoneHere(do_task(task))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Let `iada experiment` start no processes, each of which would import PyTorch anew."""
    launcher = Launcher(do_here)
    monkeypatch.setattr("iada.experiments.cluster.THIS_MACHINE", launcher)
    return launcher
