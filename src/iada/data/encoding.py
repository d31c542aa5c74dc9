"""Segment documents in several processes: Moses tokenisation, and tokens for the store."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iada.data.documents import ParallelDocument
from iada.data.moses import Moses
from iada.data.store import StoredIds, StoreWriter, id_type
from iada.data.subwords import Subwords
from iada.data.words import WordEncoder
from iada.data.workers import map_chunks

_SENTENCES_PER_CHUNK = 2000
"""Enough for a worker to be busy for some hundredths of a second, few enough to stay small."""

_encoder: WordEncoder | None = None
_moses: Moses | None = None


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
    sizes: list[int]
    names: list[str]


def write_store(
    documents: Iterable[ParallelDocument], folder: Path, tokenizer: Path, *, workers: int
) -> StoreWriter:
    """Encode documents into the files of a token store.

    Args:
        documents: read one after the other, so they need not fit in memory.
        folder: an existing folder for the files.
        tokenizer: folder of the byte-pair encoding.
        workers: number of processes.

    Returns:
        The closed writer, for its counts.
    """
    subwords = Subwords.load(tokenizer)
    writer = StoreWriter(folder, sep=subwords.special.sep, dtype=id_type(len(subwords)))
    encoded = map_chunks(
        _encode, _chunks(documents), workers=workers, begin=_load_encoder, arguments=(tokenizer,)
    )
    try:
        for part in encoded:
            writer.add(part.source, part.target, part.sizes, part.names)
    finally:
        writer.close()
    return writer


def pretokenized(
    documents: Iterable[ParallelDocument], moses: Moses | None, *, workers: int
) -> Iterator[str]:
    """Yield every sentence of both sides in the form that the byte-pair encoding reads."""
    if moses is None:
        for document in documents:
            yield from document.source.sentences
            yield from document.target.sentences
        return
    for sentences in map_chunks(
        _tokenize, _chunks(documents), workers=workers, begin=_keep_moses, arguments=(moses,)
    ):
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


def _load_encoder(tokenizer: Path) -> None:
    global _encoder
    _encoder = WordEncoder(Subwords.load(tokenizer))


def _encode(chunk: _Chunk) -> _Encoded:
    assert _encoder is not None
    dtype = np.dtype(id_type(len(_encoder.subwords)))
    return _Encoded(
        _encoder.encode(chunk.source, "source").astype(dtype),
        _encoder.encode(chunk.target, "target").astype(dtype),
        chunk.sizes,
        chunk.names,
    )


def _keep_moses(moses: Moses) -> None:
    global _moses
    _moses = moses


def _tokenize(chunk: _Chunk) -> list[str]:
    assert _moses is not None
    return [*_moses.tokenize(chunk.source, "source"), *_moses.tokenize(chunk.target, "target")]
