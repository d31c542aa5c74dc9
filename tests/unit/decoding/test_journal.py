"""A journal answers what was answered before, and nothing else."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.journal import create_file, open_journal
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
    with open_journal(engine, path, settings or SETTINGS) as journal:
        found = [journal.search(REQUESTS)[0][0].tokens[1] for _ in range(times)]
        assert journal.name == "counting"
    return engine.calls, found


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    assert ask(path, 3) == (3, [1, 2, 3])
    assert ask(path, 3) == (0, [1, 2, 3])
    # The engine of the next run counts from 1 again.
    assert ask(path, 5) == (2, [1, 2, 3, 1, 2])
    assert ask(path, 5) == (0, [1, 2, 3, 1, 2])


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    with open_journal(Counting(), tmp_path / "j", SETTINGS) as first:
        answer = first.search(REQUESTS)
    with open_journal(Counting(), tmp_path / "j", SETTINGS) as second:
        assert second.search(REQUESTS) == answer
        assert second.replayed == 1


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


@pytest.mark.parametrize(
    "entry",
    [
        "{}",
        "[]",
        "null",
        "7",
        '{"results": {}}',
        '{"digest": "x", "results": [[[[7, 9], -0.5]], [[[7, 9], -0.5]]]}',
        "[" * 100_000,
        '{"results": [[[[NaN]]]]}',
    ],
    ids=lambda entry: entry[:20],
)
def test_an_entry_that_is_not_ours_is_searched_for_again(
    tmp_path: Path, entry: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j"
    ask(path, 3)
    header, first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + first + entry.encode() + b"\n" + third)
    with caplog.at_level(logging.WARNING):
        assert ask(path, 3) == (2, [1, 1, 2])
    assert "j: entry 2 is damaged or belongs to another input; searching again" in caplog.text
    # The journal is whole again.
    assert ask(path, 3) == (0, [1, 1, 2])


def test_changed_results_and_other_requests_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "j"
    ask(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"[7,1]", b"[7,8]"))
    assert ask(path, 1) == (1, [1])
    for requests in (REQUESTS[:1], [replace(REQUESTS[0], end=4)] * 2):
        path.write_bytes(whole)
        engine = Counting()
        with open_journal(engine, path, SETTINGS) as journal:
            assert len(journal.search(requests)) == len(requests)
        assert engine.calls == 1


def test_a_link_in_place_of_the_journal_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (tmp_path / "soft").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    (tmp_path / "hard").hardlink_to(victim)
    (tmp_path / "folder").mkdir()
    for name in ("soft", "dangling", "hard", "folder"):
        with (
            pytest.raises(RunError, match=rf"{name} is a link or not a regular file\. Remove it"),
            open_journal(Counting(), tmp_path / name, SETTINGS),
        ):
            pass
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "new").exists()


def test_a_file_takes_the_place_of_a_link_and_its_target_stays(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    for name, make in (("soft", Path.symlink_to), ("hard", Path.hardlink_to)):
        path = tmp_path / name
        make(path, victim)
        with create_file(path) as file:
            file.write("new")
        assert path.read_text(encoding="utf-8") == "new"
        assert not path.is_symlink()
    assert victim.read_text(encoding="utf-8") == "precious"


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.de.journal"
    with (
        open_journal(Counting(), path, SETTINGS),
        pytest.raises(RunError, match=r"is writing .*out\.de\.journal\. Wait until it is done"),
        open_journal(Counting(), path, SETTINGS),
    ):
        pass
    assert ask(path, 1) == (1, [1])
