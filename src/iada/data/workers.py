"""Map a function over chunks in several processes, in order and with bounded memory."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar, cast

from iada.errors import RunError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that stay for the whole of a job; with one worker everything happens here."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        _loaded.clear()

    def start(self) -> None:
        """Let the processes begin to start, which takes a while, without waiting for them."""
        if self.count > 1 and self._pool is None:
            # Not forked: threads of the tokenizer may be running in this process.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, context, begin_worker)
            for _ in range(self.count):
                self._pool.submit(_nothing)

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """Yield `function(chunk)` for every chunk, in order.

        At most two chunks per worker are under way, so a long stream is never held as a whole.

        Args:
            function: a function of a module, or a partial of one; processes find it by name.
            chunks: what to map it over.
        """
        self.start()
        if self._pool is None:
            yield from map(function, chunks)
            return
        pending: deque[Future[Result]] = deque()
        try:
            for chunk in chunks:
                pending.append(self._pool.submit(function, chunk))
                if len(pending) >= 2 * self.count:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise RunError(
                "A worker process was killed, most likely because memory ran out. "
                "Run the command again; finished parts are kept."
            ) from None
        finally:
            for future in pending:
                future.cancel()


_loaded: dict[Hashable, object] = {}


def loaded(key: Hashable, load: Callable[[], Result]) -> Result:
    """Return what `load` gave when this process first asked for `key` in the present job."""
    if key not in _loaded:
        _loaded[key] = load()
    return cast(Result, _loaded[key])


def _nothing() -> None:
    """Occupy a worker, so that the pool starts it."""


def begin_worker() -> None:
    """Leave interrupts to the parent process, and end with it however it ends."""
    # An interrupt goes to the whole process group; the parent alone answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Leave when the parent was killed; the queue that a worker waits on would never say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
