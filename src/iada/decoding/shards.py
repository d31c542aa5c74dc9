"""Documents spread over processes: those of a launcher, or one for each core of this machine.

`torchrun` and `accelerate launch` start processes themselves, on one machine or on several. Without
them a command starts its own: small matrices use one core well and several badly, so that a process
beside each core is worth more than threads inside one, once there is work for all of them.

Every process reads the whole input, translates its share of the documents, and writes the results
to a file of its own; the main process joins the files in the order of the input. A translation does
not depend on the documents beside it, so the output is that of a single process.
"""

import heapq
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed
from torch._C._distributed_c10d import TCPStore

from iada.data.documents import Document
from iada.data.prepared.encoding import begin_worker
from iada.decoding.journal import create_file
from iada.decoding.requests import Alternative
from iada.decoding.wavefront import DocumentTranslation
from iada.errors import IadaError, RunError

Value = TypeVar("Value")
# Processes wait for the slowest one; the library's own limit is half an hour.
_PATIENCE = timedelta(days=30)
# Until all have come together; they import and load the same things.
_MEETING = timedelta(minutes=5)


@dataclass(frozen=True)
class Processes:
    """The processes that share the work, and the place of this one among them."""

    rank: int = 0
    count: int = 1
    group: Any = None
    """Process group on CPUs; None for a single process."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes the results."""
        return self.rank == 0

    def gather(self, value: Value) -> list[Value]:
        """Return the value of every process, in the order of their ranks; all must call it."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        try:
            torch.distributed.all_gather_object(found, value, group=self.group)
        except RuntimeError:
            raise RunError(
                "Another process of this command has stopped; see its message. Start the command "
                "again to resume."
            ) from None
        return found

    def assign(self, sizes: Sequence[int]) -> list[int]:
        """Return the rank that works on each item: the longest first, to whom has least to do."""
        loads = [(0, rank) for rank in range(self.count)]
        ranks = [0] * len(sizes)
        for number in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
            load, rank = heapq.heappop(loads)
            ranks[number] = rank
            heapq.heappush(loads, (load + sizes[number], rank))
        return ranks


SINGLE = Processes()
"""A process that works alone."""


def join_processes() -> Processes:
    """Return the processes that a launcher started together with this one."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return SINGLE
    from iada.runs.environment import process_state

    state = process_state()
    if state.num_processes == 1:
        return SINGLE
    group = torch.distributed.new_group(backend="gloo", timeout=_PATIENCE)
    return Processes(state.process_index, state.num_processes, group)


def useful_processes(asked: int, items: int, *, each: int) -> int:
    """Return how many processes to start for some work.

    Args:
        asked: `decode.processes`; 0 leaves the choice to this function.
        items: how many there are to share: documents, or windows to score.
        each: as many keep a process busy for longer than it takes to start it.

    Returns:
        1 under a launcher and where a GPU computes. Otherwise at most one for each thread that
        PyTorch would use, which is one per core unless `OMP_NUM_THREADS` says less.
    """
    if os.environ.get("WORLD_SIZE", "1") != "1" or torch.cuda.is_available():
        return 1
    if asked:
        return max(1, min(asked, items))
    return max(1, min(torch.get_num_threads(), items // each))


@contextmanager
def helped(count: int, work: Callable[..., object], *arguments: object) -> Iterator[Processes]:
    """Start processes that do the same work as this one, and yield all of them together.

    The body of the context must do it too: `work(*arguments, processes)`.

    Args:
        count: number of processes, this one included; with 1 none is started.
        work: a function of a module.
        arguments: what it is called with, which must be fit to be sent to another process.
    """
    _keep_memory()
    if count == 1:
        yield SINGLE
        return
    threads = torch.get_num_threads()
    share = max(1, threads // count)
    store = TCPStore(
        "127.0.0.1", 0, count, is_master=True, timeout=_MEETING, wait_for_workers=False
    )
    # `spawn`: a forked child would inherit threads and locks of PyTorch in an unknown state.
    context = multiprocessing.get_context("spawn")
    helpers = [
        context.Process(
            target=_help, args=(store.port, rank, count, share, work, arguments), daemon=True
        )
        for rank in range(1, count)
    ]
    for helper in helpers:
        helper.start()
    torch.set_num_threads(share)
    try:
        _await(store, helpers)
        yield _meet(store, 0, count)
        for helper in helpers:
            helper.join()
    except RunError as error:
        raise _explained(error, store, count) from None
    finally:
        for helper in helpers:
            helper.terminate()
            helper.join()
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
        torch.set_num_threads(threads)


def _help(
    port: int,
    rank: int,
    count: int,
    threads: int,
    work: Callable[..., object],
    arguments: tuple[object, ...],
) -> None:
    """Do a share of the work in a process that was started for it."""
    begin_worker()
    _keep_memory()
    torch.set_num_threads(threads)
    store = TCPStore("127.0.0.1", port, count, timeout=_MEETING)
    store.set(f"here {rank}", "")
    try:
        work(*arguments, _meet(store, rank, count))
        torch.distributed.destroy_process_group()
    except IadaError as error:
        # Said by the main process: this one has no place to say it.
        store.set(f"error {rank}", str(error))
        sys.exit(2)


def _keep_memory() -> None:
    """Keep what is freed: every step of a search allocates the same large blocks again."""
    from iada.runs.environment import keep_freed_memory

    keep_freed_memory()


def _await(store: Any, helpers: Sequence[SpawnProcess]) -> None:
    """Wait until all helpers are there; the library would wait for one that has died."""
    missing = dict(enumerate(helpers, start=1))
    while missing:
        for rank, helper in list(missing.items()):
            if store.check([f"here {rank}"]):
                del missing[rank]
            elif not helper.is_alive():
                raise RunError(
                    f"A process that was to share the work ended with code {helper.exitcode} before"
                    " it began. Is there enough memory? Set `decode.processes: 1` to work without."
                )
        time.sleep(0.02)


def _meet(store: Any, rank: int, count: int) -> Processes:
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=count, timeout=_PATIENCE
    )
    return Processes(rank, count, torch.distributed.group.WORLD)


def _explained(error: RunError, store: Any, count: int) -> RunError:
    """Return what a helper has left as its last words, or else the error itself."""
    found = [rank for rank in range(1, count) if store.check([f"error {rank}"])]
    return RunError(store.get(f"error {found[0]}").decode()) if found else error


def shard_file(output: Path, rank: int) -> Path:
    """Return the file in which a process collects its share of an output."""
    return output.with_name(f"{output.name}.shard{rank}")


def write_shard(
    path: Path, numbers: Iterable[int], translations: Iterator[DocumentTranslation]
) -> None:
    """Write translations as JSON lines, each with the number of its document in the input."""
    with create_file(path) as file:
        for number, translation in zip(numbers, translations, strict=True):
            sentences = [[[one.text, one.score] for one in n] for n in translation.alternatives]
            texts = translation.document.sentences
            line = [number, translation.document.name, texts, sentences]
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def read_shards(output: Path, ranks: Sequence[int]) -> Iterator[DocumentTranslation]:
    """Yield the translations of all documents, in the order of the input.

    Args:
        output: the file that is to be written.
        ranks: the process that has translated each document.
    """
    with ExitStack() as stack:
        files = [
            stack.enter_context(shard_file(output, rank).open(encoding="utf-8", newline="\n"))
            for rank in range(max(ranks) + 1)
        ]
        for expected, rank in enumerate(ranks):
            number, name, texts, alternatives = json.loads(files[rank].readline())
            if number != expected:
                raise RunError(
                    f"{files[rank].name} holds document {number + 1} where document "
                    f"{expected + 1} should be. Start the command again."
                )
            yield DocumentTranslation(
                Document(name, tuple(texts)),
                tuple(tuple(Alternative(*one) for one in found) for found in alternatives),
            )
