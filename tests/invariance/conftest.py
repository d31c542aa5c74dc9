"""Commands that are killed at random moments, for the tests of what a second run makes of it."""

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.warm_processes import WarmProcess

Command = Callable[[Path], Sequence[str]]
"""From the output to the arguments of `iada`."""
KilledRuns = Callable[..., Iterator[Path]]


def _start(arguments: Sequence[str]) -> WarmProcess:
    return WarmProcess(["-m", "iada", *arguments])


def _wait_for_work(process: WarmProcess, trace: Path, result: Path) -> float:
    """Wait until work has left a trace: killing a Python that still imports proves nothing."""
    while not trace.exists() and not result.exists() and process.poll() is None:
        time.sleep(0.001)
    return time.monotonic()


@pytest.fixture
def killed_runs(tmp_path: Path) -> KilledRuns:
    """Yield the output of an unbroken run, then those of runs that were killed before their end.

    Arguments are the command, what it makes beside or in its output while it works (what follows
    the path of the output), the number of kills, and what in its output is there only at the end,
    if not the output itself.
    """

    def outputs(command: Command, suffix: str, kills: int, result: str = "") -> Iterator[Path]:
        whole = tmp_path / "whole"
        process = _start(command(whole))
        began = _wait_for_work(process, Path(f"{whole}{suffix}"), whole / result)
        _, errors = process.communicate()
        duration = time.monotonic() - began
        assert process.returncode == 0, errors.decode()
        yield whole
        draw = random.Random(1)
        for number in range(5 * kills):
            output = tmp_path / str(number)
            process = _start(command(output))
            _wait_for_work(process, Path(f"{output}{suffix}"), output / result)
            time.sleep(draw.uniform(0, duration))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if (output / result).exists():
                # It was done already: the first run was slower than this one.
                duration *= 0.9
                continue
            yield output
            kills -= 1
            if kills == 0:
                return
        pytest.fail(f"{kills} runs too many came to their end before they were killed")

    return outputs
