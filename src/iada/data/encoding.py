"""Segment documents in several processes: Moses tokenisation, and tokens for the store."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from iada.data.ciphers import Ciphers
from iada.data.documents import ParallelDocument
from iada.data.moses import Moses
from iada.data.store import StoredIds, StoreWriter, id_type
from iada.data.subwords import Subwords
from iada.data.tagging import untagged
from iada.data.words import WordEncoder
from iada.data.workers import Workers, loaded

_SENTENCES_PER_CHUNK = 2000
"""Enough for a worker to be busy for some hundredths of a second, few enough to stay small."""


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
    subwords = Subwords.load(tokenizer)
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
    encoder = loaded(tokenizer, lambda: WordEncoder(Subwords.load(tokenizer)))
    dtype = np.dtype(id_type(len(encoder.subwords)))
    ciphers = encoder.subwords.ciphers if keys else None
    plain, *ciphered = (
        encoder.encode(text, "source").astype(dtype) for text in _sources(chunk.source, ciphers)
    )
    target = encoder.encode(chunk.target, "target").astype(dtype)
    return _Encoded(plain, target, ciphered, chunk.sizes, chunk.names)


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
