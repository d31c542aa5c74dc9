"""A fault at any write, flush or rename: the same command given again ends as if nothing had been.

Every command is first run on a disk that only counts, then on disks that fail at one point each,
and after each fault again on a sound disk.
"""

import math
import shutil
from pathlib import Path

import pytest
from faulty_disk import COMMANDS, Kind, count_points, make_corpus, recover


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("faults") / "corpus")


# A sample costs seconds; an experiment trains, translates and scores at each of its points, so that
# all of them would take the better part of an hour: `benchmarks/faults.py`.
SOME = {"train": 10, "prepare": 10, "translate": 10, "experiment": 4}
MOST = {"train": 1000, "prepare": 1000, "translate": 1000, "experiment": 24}


@pytest.mark.parametrize("kind", ["error", "cut"])
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize(
    "most", [SOME, pytest.param(MOST, marks=pytest.mark.exhaustive)], ids=["some", "every"]
)
# Where the power is cut, nobody closes a file.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_after_a_fault_the_same_command_ends_as_if_nothing_had_been(
    corpus: Path, tmp_path: Path, name: str, kind: Kind, most: dict[str, int]
) -> None:
    command = COMMANDS[name](corpus)
    points, expected = count_points(command, tmp_path / "sound")
    assert len(points) >= 10
    print(f"{len(points)} points")
    # A command that has ended may be given again, too.
    assert command(tmp_path / "sound") == expected
    failures = {}
    step = math.ceil(len(points) / most[name])
    for point in range(0, len(points), step):
        where, problem = recover(command, tmp_path / f"{point}", kind, point, expected)
        if problem:
            failures[where] = problem
        shutil.rmtree(tmp_path / f"{point}")
    assert not failures
