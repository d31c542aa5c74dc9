"""Mapping over processes: in order, bounded, and without orphans."""

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iada.data.prepared.encoding import Workers, usable_cores
from iada.errors import RunError

FUNCTIONS = """
import os
from iada.data.prepared.encoding import loaded

def shifted(offset, number):
    return number + offset

def process_of(_):
    return os.getpid()

def count_loads(_):
    calls = loaded("calls", list)
    return loaded("first", lambda: calls.append(1) or len(calls))

def die(number):
    if number == 2:
        os._exit(9)
    return number

def fail(number):
    raise ZeroDivisionError(number)
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module that worker processes can import, which a module of tests need not be."""
    (tmp_path / "worker_functions.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("worker_functions")
    del sys.modules["worker_functions"]


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_in_order(functions: Any, count: int) -> None:
    with Workers(count) as workers:
        assert list(workers.map(partial(functions.shifted, 100), range(50))) == list(
            range(100, 150)
        )
        # The same processes serve the next stream.
        assert list(workers.map(partial(functions.shifted, 7), range(3))) == [7, 8, 9]


def test_one_worker_is_this_process_and_several_are_not(functions: Any) -> None:
    with Workers(1) as workers:
        assert set(workers.map(functions.process_of, range(3))) == {os.getpid()}
    with Workers(2) as workers:
        used = set(workers.map(functions.process_of, range(20)))
    assert os.getpid() not in used
    assert len(used) <= 2


@pytest.mark.parametrize("count", [1, 2])
def test_a_process_loads_a_thing_once_per_job(functions: Any, count: int) -> None:
    for _ in range(2):
        with Workers(count) as workers:
            assert set(workers.map(functions.count_loads, range(10))) == {1}


def test_the_stream_is_read_no_further_than_needed(functions: Any) -> None:
    taken: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with Workers(2) as workers:
        results = workers.map(partial(functions.shifted, 0), stream())
        assert next(results) == 0
        assert len(taken) <= 4


def test_a_killed_worker_is_reported(functions: Any) -> None:
    with Workers(2) as workers, pytest.raises(RunError, match="worker process was killed"):
        list(workers.map(functions.die, range(5)))


def test_the_error_of_a_worker_is_its_own(functions: Any) -> None:
    with Workers(2) as workers, pytest.raises(ZeroDivisionError):
        list(workers.map(functions.fail, range(5)))


def test_there_is_at_least_one_core() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


SLOW = """
import sys, time
from pathlib import Path
from iada.data.prepared.encoding import Workers

def wait(folder):
    import os
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)

if __name__ == "__main__":
    with Workers(2) as workers:
        list(workers.map(wait, [sys.argv[1]] * 4))
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script, folder = tmp_path / "slow.py", tmp_path / "pids"
    script.write_text(SLOW, encoding="utf-8")
    folder.mkdir()
    parent = subprocess.Popen([sys.executable, str(script), str(folder)])
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    workers = [int(path.name) for path in folder.iterdir()]
    assert len(workers) == 2
    while any(map(_is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_running, workers))


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except FileNotFoundError:
        return False
    # A process that nobody waited for stays as a zombie.
    return not state.strip().startswith("Z")
