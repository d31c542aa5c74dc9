"""Documents spread over processes: each once, evenly, and joined in the order of the input."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch.distributed
from hypothesis import given
from hypothesis import strategies as st

from iada.config.decode import DecodeConfig
from iada.data.documents import Document
from iada.decoding.engines.interface import Hypothesis, Request
from iada.decoding.files import journal_file, translate_file
from iada.decoding.shards import (
    SINGLE,
    Processes,
    helped,
    join_processes,
    shard_file,
    useful_processes,
)
from iada.decoding.translator import DocumentTranslator
from iada.errors import RunError


@dataclass(frozen=True)
class Stand(Processes):
    """One of several processes that run one after the other."""

    def gather(self, value: Any) -> list[Any]:
        return [value] * self.count


class Counting:
    """An engine that counts its sentences."""

    name = "prefill"

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.sentences = 0

    def search(self, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        self.sentences += len(requests)
        found: list[list[Hypothesis]] = self.engine.search(requests)
        return found


@given(sizes=st.lists(st.integers(0, 50), max_size=40), count=st.integers(1, 5))
def test_the_longest_go_first_to_whom_has_least_to_do(sizes: list[int], count: int) -> None:
    ranks = Processes(0, count).assign(sizes)
    assert len(ranks) == len(sizes)
    loads = [
        sum(s for s, r in zip(sizes, ranks, strict=True) if r == rank) for rank in range(count)
    ]
    # The process with most to do got its last item when it had least.
    assert max(loads) - min(loads) <= max(sizes, default=0)
    assert ranks == Processes(count - 1, count).assign(sizes)


def test_shares_by_hand() -> None:
    assert Processes(0, 2).assign([1, 5, 3, 3, 0]) == [0, 0, 1, 1, 0]
    assert Processes(0, 3).assign([2, 2, 2, 9]) == [1, 2, 1, 0]


def test_a_process_without_a_launcher_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join_processes() == SINGLE
    assert SINGLE.is_main
    assert SINGLE.gather("x") == ["x"]


TEXT = "Good morning .\n\nYes .\nWhere is it ?\nIt is here .\n\n\nNo .\n"


def translate(translator: DocumentTranslator, source: Path, output: Path) -> None:
    translate_file(translator, source, output, boundaries="blank_line")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("source_context", ["gold", "random"])
def test_shards_are_joined_in_the_order_of_the_input(
    trained_run: Path, source: Path, tmp_path: Path, count: int, source_context: Any
) -> None:
    decode = DecodeConfig(beam=2, source_context=source_context)
    translator = DocumentTranslator.load(trained_run, decode=decode)
    whole, output = tmp_path / "whole", tmp_path / "out"
    translate(translator, source, whole)
    translator.engine = engine = Counting(translator.engine)
    # The main process comes last, when the other shards are there.
    for rank in reversed(range(count)):
        translator.processes = Stand(rank, count)
        translate(translator, source, output)
        assert output.exists() == (rank == 0)
    assert output.read_bytes() == whole.read_bytes()
    # Each sentence was translated once.
    assert engine.sentences == 5
    assert {path.name for path in tmp_path.iterdir()} == {
        "in.txt",
        "out",
        "out.json",
        "whole",
        "whole.json",
    }


def test_each_share_is_resumed_from_its_own_journal(
    trained_run: Path, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    translator = DocumentTranslator.load(trained_run, decode=DecodeConfig(beam=1))
    translator.engine = engine = Counting(translator.engine)
    translator.processes = Stand(1, 2)
    translate(translator, source, output)
    own = engine.sentences
    assert 0 < own < 5
    assert journal_file(output, 1) == tmp_path / "out.journal1"
    # A killed process leaves its journal; the shard is written again.
    shard_file(output, 1).unlink()
    for rank in (1, 0):
        translator.processes = Stand(rank, 2)
        translate(translator, source, output)
    assert engine.sentences == 5
    # Another number of processes has other shares, so nothing of a journal is used.
    output.unlink()
    translator.processes = Stand(1, 2)
    translate(translator, source, output)
    translator.processes = SINGLE
    translate(translator, source, output)
    assert engine.sentences == 5 + own + 5
    assert not journal_file(output, 1).exists()


def test_shards_that_do_not_belong_together_are_refused(
    trained_run: Path, source: Path, tmp_path: Path
) -> None:
    translator = DocumentTranslator.load(trained_run, decode=DecodeConfig(beam=1))
    translator.processes = Stand(1, 2)
    translate(translator, source, tmp_path / "out")
    shard = shard_file(tmp_path / "out", 1)
    shard.write_text(shard.read_text(encoding="utf-8").replace("[", "[7", 1), encoding="utf-8")
    translator.processes = Stand(0, 2)
    with pytest.raises(RunError, match=r"out\.shard1 holds document 7\d+ where document \d should"):
        translate(translator, source, tmp_path / "out")


def test_documents_in_memory_are_shared_too(trained_run: Path) -> None:
    translator = DocumentTranslator.load(trained_run, decode=DecodeConfig(beam=1))
    documents = [Document(str(n), ("Yes .",) * (n + 1)) for n in range(4)]
    expected = translator.translate(documents)
    found: list[Any] = []

    @dataclass(frozen=True)
    class Keeping(Processes):
        def gather(self, value: Any) -> list[Any]:
            found.append(value)
            return found

    translator.processes = Keeping(1, 2)
    with pytest.raises(KeyError):
        translator.translate(documents)
    assert len(found[0]) == 2
    translator.processes = Keeping(0, 2)
    assert translator.translate(documents) == expected


@pytest.mark.parametrize(
    ("asked", "items", "threads", "expected"),
    [
        (0, 500, 2, 2),  # one for each core
        (0, 99, 2, 1),  # too little to do for two
        (0, 500, 1, 1),  # one core, or `OMP_NUM_THREADS=1`
        (0, 260, 16, 5),
        (3, 500, 2, 3),  # asked for
        (3, 2, 2, 2),
        (1, 500, 2, 1),
    ],
)
def test_as_many_processes_are_started_as_have_work(
    asked: int, items: int, threads: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    assert useful_processes(asked, items, each=50) == expected
    # A launcher has started as many as its user wants.
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert useful_processes(asked, items, each=50) == 1


def _square(numbers: list[int], processes: Processes) -> list[int]:
    own = [n * n for n in numbers[processes.rank :: processes.count]]
    if processes.rank == 1 and 13 in numbers:
        raise RunError("thirteen is not squared")
    return [n for part in processes.gather(own) for n in part]


def test_helpers_share_the_work_and_are_gone_afterwards() -> None:
    threads = torch.get_num_threads()
    with helped(2, _square, [1, 2, 3, 4]) as processes:
        assert (processes.rank, processes.count) == (0, 2)
        assert _square([1, 2, 3, 4], processes) == [1, 9, 4, 16]
    assert not torch.distributed.is_initialized()
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == threads
    with helped(1, _square, [1]) as processes:
        assert processes is SINGLE


class _Fatal:
    """Ends the process that is to work with it, before it can say anything."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (3,)


def test_a_helper_that_dies_at_once_is_not_waited_for() -> None:
    with (
        pytest.raises(RunError, match=r"ended with code 3 before it began\."),
        helped(2, _square, _Fatal()),
    ):
        pytest.fail("nobody shares the work")
    assert multiprocessing.active_children() == []


def test_what_stops_a_helper_is_said_by_the_main_process() -> None:
    with (
        pytest.raises(RunError, match="thirteen is not squared"),
        helped(2, _square, [12, 13]) as processes,
    ):
        _square([12, 13], processes)
    assert multiprocessing.active_children() == []
