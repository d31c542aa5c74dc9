"""A journal answers what was answered before, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.files import JournaledEngine
from iada.errors import RunError


class Counting:
    """Answer with the number of the call."""

    name = "counting"

    def __init__(self) -> None:
        self.calls = 0

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        self.calls += 1
        return [[Hypothesis((7, self.calls), -0.1 * self.calls)] for _ in requests]


REQUESTS = [Request((7, 2), (1,), 5)] * 2
SETTINGS = {"beam": 5, "inputs": ["x"]}


def ask(path: Path, times: int, settings: dict[str, object] | None = None) -> tuple[int, list[int]]:
    """Ask so many times; return the calls of the engine and the answers."""
    engine = Counting()
    journal = JournaledEngine(engine, path, settings or SETTINGS)
    said = [journal.search(REQUESTS)[0][0].tokens[1] for _ in range(times)]
    assert journal.name == "counting"
    journal.close()
    return engine.calls, said


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert ask(path, 3) == (3, [1, 2, 3])
    assert ask(path, 3) == (0, [1, 2, 3])
    # The engine of the next run counts from 1 again.
    assert ask(path, 5) == (2, [1, 2, 3, 1, 2])
    assert ask(path, 5) == (0, [1, 2, 3, 1, 2])


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    first = JournaledEngine(Counting(), tmp_path / "j", SETTINGS)
    answer = first.search(REQUESTS)
    first.close()
    second = JournaledEngine(Counting(), tmp_path / "j", SETTINGS)
    assert second.search(REQUESTS) == answer
    assert second.replayed == 1
    second.close()


def test_a_journal_cut_at_any_byte_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ask(path, 4)
    whole = path.read_bytes()
    starts = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for stop in range(len(whole)):
        path.write_bytes(whole[:stop])
        # Lines that are whole, without the first, which holds the settings.
        known = max(sum(start <= stop for start in starts) - 1, 0)
        calls, said = ask(path, 4)
        assert calls == 4 - known
        assert said == [*range(1, known + 1), *range(1, 5 - known)]
        assert ask(path, 4) == (0, said)


def test_other_settings_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ask(path, 2)
    assert ask(path, 1, {"beam": 4, "inputs": ["x"]}) == (1, [1])
    # Nothing of the old one stays.
    assert path.read_bytes().count(b"\n") == 2
    assert ask(path, 2) == (2, [1, 2])


def test_another_number_of_requests_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ask(path, 1)
    journal = JournaledEngine(Counting(), path, SETTINGS)
    with pytest.raises(RunError, match=r"batch 1 has 2 results for 1 requests\. Remove it"):
        journal.search(REQUESTS[:1])
    journal.close()
