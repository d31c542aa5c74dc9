"""Segment documents in several processes: Moses tokenisation, and tokens for the store.

`Workers` maps a function over chunks in order and with bounded memory.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from iada.data.documents import ParallelDocument
from iada.data.prepared.store import Ids, Side, StoredIds, StoreWriter, id_type
from iada.data.tokens.ciphers import Ciphers
from iada.data.tokens.pretokenize import Moses, SideName, untagged
from iada.data.tokens.pretrained_subwords import load_subwords
from iada.data.tokens.subwords import SubwordEncoding, Subwords
from iada.data.tokens.words import WordEncoder
from iada.errors import RunError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
_Encode = Callable[[Sequence[str], SideName], Ids]
"""(tokens,): sentences one after the other, each followed by `<sep>`."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that live as long as a job; a single worker is this process itself."""

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
        """Start the processes, which takes a while, without waiting for them."""
        if self.count > 1 and self._pool is None:
            # Not forked: threads of the tokenizer may be running in this process.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.count, context, begin_worker)
            for _ in range(self.count):
                self._pool.submit(_nothing)

    def map(self, function: Callable[[Chunk], Result], chunks: Iterable[Chunk]) -> Iterator[Result]:
        """Yield `function(chunk)` for every chunk, in order.

        At most two chunks per worker are in flight, so a long stream is never held in memory.

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
    """Leave interrupts to the parent process, and exit when it does, however it ends."""
    # An interrupt goes to the whole process group; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent was killed; the queue that a worker waits on would never tell."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_SENTENCES_PER_CHUNK = 2000
"""Enough to keep a worker busy for some hundredths of a second, few enough to stay small."""


@dataclass(frozen=True)
class _Chunk:
    """Whole documents, flattened: short to send to another process."""

    source: list[str]
    target: list[str]
    sizes: list[int]
    names: list[str]


@dataclass(frozen=True)
class _Encoded:
    source: StoredIds
    target: StoredIds
    ciphered: list[StoredIds]
    sizes: list[int]
    names: list[str]


def write_store(
    documents: Iterable[ParallelDocument],
    folder: Path,
    tokenizer: Path,
    workers: Workers,
    *,
    cipher: bool = False,
) -> StoreWriter:
    """Encode documents into the files of a token store.

    Args:
        documents: read one after the other, so they need not fit in memory.
        folder: an existing folder for the files.
        tokenizer: folder of the byte-pair encoding.
        workers: who encodes.
        cipher: whether the source is stored with each cipher of the encoding too.

    Returns:
        The closed writer, for its counts.
    """
    subwords = load_subwords(tokenizer)
    keys = subwords.ciphers.keys if cipher and subwords.ciphers is not None else ()
    dtype = id_type(len(subwords))
    writer = StoreWriter(folder, sep=subwords.special.sep, dtype=dtype, cipher_keys=keys)
    try:
        for part in workers.map(partial(_encode, tokenizer, keys), _chunks(documents)):
            writer.add(part.source, part.target, part.sizes, part.names, part.ciphered)
    finally:
        writer.close()
    return writer


def pretokenized(
    documents: Iterable[ParallelDocument],
    moses: Moses | None,
    workers: Workers,
    *,
    ciphers: Ciphers | None = None,
    tags: Sequence[str] = (),
) -> Iterator[str]:
    """Yield every sentence of both sides in the form that the byte-pair encoding reads.

    Args:
        documents: the sentences.
        moses: the tokenisation that comes first, if any.
        workers: who tokenises.
        ciphers: every source sentence comes once more for each of them.
        tags: special tokens that may begin a source sentence; they are no text to learn from.
    """
    if moses is None:
        for document in documents:
            for text in _sources(untagged(document.source.sentences, tags), ciphers):
                yield from text
            yield from document.target.sentences
        return
    for sentences in workers.map(partial(_tokenize, moses, ciphers, tags), _chunks(documents)):
        yield from sentences


def _chunks(documents: Iterable[ParallelDocument]) -> Iterator[_Chunk]:
    chunk = _Chunk([], [], [], [])
    for document in documents:
        chunk.source.extend(document.source.sentences)
        chunk.target.extend(document.target.sentences)
        chunk.sizes.append(len(document))
        chunk.names.append(document.name)
        if len(chunk.source) >= _SENTENCES_PER_CHUNK:
            yield chunk
            chunk = _Chunk([], [], [], [])
    if chunk.sizes:
        yield chunk


def _encode(tokenizer: Path, keys: tuple[int, ...], chunk: _Chunk) -> _Encoded:
    subwords, encode = loaded(tokenizer, lambda: _encoder(load_subwords(tokenizer)))
    dtype = np.dtype(id_type(len(subwords)))
    ciphers = subwords.ciphers if keys else None
    plain, *ciphered = (
        encode(text, "source").astype(dtype) for text in _sources(chunk.source, ciphers)
    )
    target = encode(chunk.target, "target").astype(dtype)
    return _Encoded(plain, target, ciphered, chunk.sizes, chunk.names)


def _encoder(subwords: SubwordEncoding) -> tuple[SubwordEncoding, _Encode]:
    """Return an encoding and the fastest way to encode many sentences with it."""
    if isinstance(subwords, Subwords):
        return subwords, WordEncoder(subwords).encode

    def encode(sentences: Sequence[str], side: SideName) -> Ids:
        return Side.of(subwords.encode(sentences, side), subwords.special.sep).ids

    return subwords, encode


def _tokenize(
    moses: Moses, ciphers: Ciphers | None, tags: Sequence[str], chunk: _Chunk
) -> list[str]:
    # The copy that came with the chunk has yet to compile its rules.
    ready = loaded(moses, lambda: moses)
    sources = _sources(untagged(chunk.source, tags), ciphers)
    tokenized = [ready.tokenize(text, "source") for text in sources]
    tokenized.append(ready.tokenize(chunk.target, "target"))
    return [sentence for sentences in tokenized for sentence in sentences]


def _sources(sentences: Sequence[str], ciphers: Ciphers | None) -> Iterator[Sequence[str]]:
    """Yield the source text as it is, and with each cipher."""
    yield sentences
    if ciphers is not None:
        for key in ciphers.keys:
            yield ciphers.encipher(sentences, key)
