"""Mapping over processes: in order, bounded, and without orphans."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iada.data.workers import map_chunks, usable_cores
from iada.errors import RunError

_offset = 0


def begin(offset: int) -> None:
    global _offset
    _offset = offset


def shifted(number: int) -> int:
    return number + _offset


def die(number: int) -> int:
    if number == 2:
        os._exit(9)
    return number


def fail(number: int) -> int:
    raise ZeroDivisionError(number)


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    results = map_chunks(shifted, range(50), workers=workers, begin=begin, arguments=(100,))
    assert list(results) == list(range(100, 150))


def test_the_stream_is_read_no_further_than_needed() -> None:
    taken: list[int] = []

    def stream() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = map_chunks(shifted, stream(), workers=2, begin=begin, arguments=(0,))
    assert next(results) == 0
    assert len(taken) <= 4
    results.close()


def test_a_killed_worker_is_reported() -> None:
    results = map_chunks(die, range(5), workers=2, begin=begin, arguments=(0,))
    with pytest.raises(RunError, match="worker process was killed"):
        list(results)


def test_the_error_of_a_worker_is_its_own() -> None:
    results = map_chunks(fail, range(5), workers=2, begin=begin, arguments=(0,))
    with pytest.raises(ZeroDivisionError):
        list(results)


def test_there_is_at_least_one_core() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


SLOW = """
import sys, time
from pathlib import Path
from iada.data.workers import map_chunks

def begin(folder):
    import os
    Path(folder, str(os.getpid())).touch()

def wait(number):
    time.sleep(60)

if __name__ == "__main__":
    list(map_chunks(wait, range(4), workers=2, begin=begin, arguments=(sys.argv[1],)))
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
