"""Map a function over chunks in several processes, in order and with bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from iada.errors import RunError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_chunks(
    function: Callable[[Chunk], Result],
    chunks: Iterable[Chunk],
    *,
    workers: int,
    begin: Callable[..., None],
    arguments: tuple[object, ...],
) -> Iterator[Result]:
    """Yield `function(chunk)` for every chunk, in order.

    At most two chunks per worker are under way, so a long stream is never held as a whole.

    Args:
        function: a function of a module; processes find it by name.
        chunks: what to map it over.
        workers: number of processes; with 1 everything happens in this one.
        begin: called with `arguments` once in each process before its first chunk.
        arguments: arguments of `begin`.
    """
    if workers <= 1:
        begin(*arguments)
        yield from map(function, chunks)
        return
    # Not forked: threads of the tokenizer may be running in this process.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (begin, arguments))
    pending: deque[Future[Result]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(function, chunk))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise RunError(
            "A worker process was killed, most likely because memory ran out. "
            "Run the command again; finished parts are kept."
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(begin: Callable[..., None], arguments: tuple[object, ...]) -> None:
    # An interrupt goes to the whole process group; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin(*arguments)


def _end_with_parent() -> None:
    """Leave when the parent was killed; the queue that a worker waits on would never say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
